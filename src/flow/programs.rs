//! Programs and workloads of the user: packs or compiles them for a plan, and finds them in the
//! cache by their hash when the plan is run.

use std::fs;
use std::path::{Path, PathBuf};

use super::session::Session;
use super::{Error, ErrorContext};
use crate::compile::{self, WorkloadFiles};
use crate::engine::host::Host;
use crate::engine::payload::UserSpace;
use crate::engine::{Cancel, Limits, Stop};
use crate::kernel::{CPU_MODULES, needed_modules};
use crate::model::{
    AskedCounts, AskedGuest, CountsPlan, Identity, Key, NamedFiles, NativeProgramsIdentity, RunsOn,
    Side, Sides, TimesPlan, UserProgram, module_and_parameters,
};
use crate::plan::{
    self, CountsExperiment, Definition, Experiment, definitions, mkfs_program,
    parse_user_definition, program_rows,
};
use crate::program::{
    self, ArchiveContents, LoadedModule, NativePrograms, PackedModules, PackedPrograms,
    SideArchives,
};
use crate::run::named_files;
use crate::text::{escape, escape_path, shell_line};

/// Maximum memory of a kernel and ktax's own programs in a guest.
const MAX_KERNEL_MIB: u32 = 60;
/// Memory that stays free for files that a program writes to its root directory.
const WRITABLE_MIB: u32 = 16;

/// Packs the files of each Side's guests, with paths relative to the current directory. Sides with
/// equal contents share the archives.
pub(super) fn pack(
    asked: &AskedCounts,
    session: &Session<'_>,
) -> Result<Sides<SideArchives>, Error> {
    let [base, change] = Side::BOTH.map(|side| SideContents::new(asked, side));
    let packed = base.pack(session)?;
    let change = if change == base { packed.clone() } else { change.pack(session)? };
    Ok(Sides { base: packed, change })
}

/// Contents of one Side's guests: the part that all guests have, and the programs, of which each
/// guest has one.
#[derive(PartialEq)]
struct SideContents {
    common: ArchiveContents,
    programs: Vec<UserProgram>,
    memory_mib: u32,
}

impl SideContents {
    fn new(asked: &AskedCounts, side: Side) -> SideContents {
        let (subject, guest) = (asked.subjects.get(side), &asked.guest);
        let with_files = |program: &UserProgram| {
            let files = [program.files.clone(), subject.files.clone()].concat();
            UserProgram { files, ..program.clone() }
        };
        let setting = |(name, value): (&String, &String)| (plan::sysctl_file(name), value.clone());
        let common = ArchiveContents {
            programs: Vec::new(),
            hooks: guest.hooks.as_ref().map(with_files),
            disk: asked.disk_of(side).map(|disk| (disk.clone(), mkfs_program(disk))),
            settings: subject.sysctl.iter().map(setting).collect(),
            setup: plan::own_setup(subject),
        };
        let programs = guest.programs.iter().map(with_files).collect();
        SideContents { common, programs, memory_mib: asked.machine.memory_mib }
    }

    /// Packs the common part, and each program alone.
    fn pack(&self, session: &Session<'_>) -> Result<SideArchives, Error> {
        let common = pack_together(&self.common, self.memory_mib, session)?;
        let pack = |program| self.pack_alone(program, common.as_ref(), session);
        let programs = self.programs.iter().map(pack).collect::<Result<_, _>>()?;
        Ok(SideArchives { common, programs })
    }

    fn pack_alone(
        &self,
        program: &UserProgram,
        common: Option<&PackedPrograms>,
        session: &Session<'_>,
    ) -> Result<PackedPrograms, Error> {
        let bytes =
            common.map_or(Ok(0), |packed| fs::metadata(&packed.archive).map(|found| found.len()));
        let disk = self.common.disk.as_ref().map(|(disk, _)| disk);
        let cannot_keep = "cannot keep the program in the cache";
        let common = (bytes.or_host(cannot_keep, FIX_CACHE)?, disk);
        let max_bytes = max_archive_bytes(self.memory_mib);
        program::pack_single(program, common, &current_directory(), max_bytes, &session.cache)
    }

    /// Finds the archives of these hashes in the cache, or packs them again.
    fn find_or_pack(
        &self,
        (common, programs): (Option<&str>, Vec<&str>),
        session: &Session<'_>,
    ) -> Result<SideArchives, Error> {
        let common = match common {
            Some(sha256) => {
                let pack = || pack_together(&self.common, self.memory_mib, session);
                Some(find_packed(sha256, pack, session)?)
            }
            None => None,
        };
        let pack = |(program, sha256): (&UserProgram, &str)| {
            let pack = || self.pack_alone(program, common.as_ref(), session).map(Some);
            find_packed(sha256, pack, session)
        };
        let programs = self.programs.iter().zip(programs).map(pack).collect::<Result<_, _>>()?;
        Ok(SideArchives { common, programs })
    }
}

/// Packs contents as one archive, with paths relative to the current directory. `None` if they are
/// empty.
fn pack_together(
    contents: &ArchiveContents,
    memory_mib: u32,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    if contents.is_empty() {
        return Ok(None);
    }
    let max_bytes = max_archive_bytes(memory_mib);
    Ok(Some(program::pack(contents, &current_directory(), max_bytes, &session.cache)?))
}

/// Size limit of an archive: a third of the memory that the kernel leaves. The archive stays in
/// memory while it is unpacked, and Linux limits the root directory to half of the rest.
fn max_archive_bytes(memory_mib: u32) -> u64 {
    let third_mib = memory_mib.saturating_sub(MAX_KERNEL_MIB) / 3;
    u64::from(third_mib.saturating_sub(WRITABLE_MIB)) << 20
}

/// Archives of both Sides of a plan: from the cache, else packed again.
pub(super) fn planned_programs(
    plan: &CountsPlan,
    session: &Session<'_>,
) -> Result<Sides<SideArchives>, Error> {
    let contents = |side| SideContents::new(&plan.asked, side);
    Sides::try_from_fn(|side| contents(side).find_or_pack(plan.archives_of(side), session))
}

/// Archive of this hash: from the cache, else packed again. Contents that have changed are an
/// error.
fn find_packed(
    sha256: &str,
    pack: impl FnOnce() -> Result<Option<PackedPrograms>, Error>,
    session: &Session<'_>,
) -> Result<PackedPrograms, Error> {
    if let Some(packed) = program::open_packed(sha256, &session.cache) {
        return Ok(packed);
    }
    let packed = pack()?.filter(|packed| packed.sha256 == sha256);
    packed.ok_or_else(super::other_programs)
}

/// Directory to which the paths of programs are relative.
fn current_directory() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

/// Packs the modules of a Kernel that the guests load; `None` without modules.
pub(super) fn packed_modules(
    wanted: &[String],
    kernel: &Identity,
    session: &Session<'_>,
) -> Result<Option<PackedModules>, Error> {
    let wanted: Vec<(&str, &str)> =
        wanted.iter().map(|module| module_and_parameters(module)).collect();
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let needed = session.with_talk(|talk| needed_modules(kernel, &names, &session.cache, talk))?;
    if needed.is_empty() {
        return Ok(None);
    }
    let loaded = |(name, content): (String, Vec<u8>)| {
        let requested = wanted.iter().find(|(wanted, _)| *wanted == name);
        let parameters = requested.map_or("", |(_, parameters)| parameters).to_owned();
        let is_cpu_specific = requested.is_none() && CPU_MODULES.contains(&name.as_str());
        LoadedModule { name, parameters, is_cpu_specific, content }
    };
    let modules: Vec<LoadedModule> = needed.into_iter().map(loaded).collect();
    Ok(Some(program::pack_modules(&modules, &session.cache)?))
}

/// Key of counts with this guest and these modules, and the archives of each Side if they differ.
pub(super) fn key_with_archives(
    key: Key,
    guest: &UserSpace,
    packed: &Sides<SideArchives>,
    modules: Vec<String>,
) -> (Key, Option<Sides<String>>) {
    let archives = Sides::from_fn(|side| Key::join_archives(packed.get(side).sha256s()));
    let is_same = archives.base == archives.change;
    let programs = if is_same { archives.base.clone() } else { String::new() };
    let key = Key { guest: guest.sha256(), programs, modules, ..key };
    (key, (!is_same).then_some(archives))
}

/// Experiment with the traced files of its programs and hooks, as in
/// [`programs_with_traced_files`].
pub(super) fn with_traced_files(
    experiment: &Experiment<CountsExperiment>,
    session: &Session<'_>,
) -> Result<Experiment<CountsExperiment>, Error> {
    let mut traced = experiment.clone();
    let AskedGuest { programs, hooks, .. } = &mut traced.method.asked.guest;
    *programs = programs_with_traced_files(programs, session)?;
    if let Some(hooks) = hooks {
        let traced = programs_with_traced_files(std::slice::from_ref(hooks), session)?;
        *hooks = traced.into_iter().next().expect("each program is returned");
    }
    Ok(traced)
}

/// Programs with their traced files: the files that a program opens in a sandbox. Only traces
/// programs that ask for it and were not traced before.
fn programs_with_traced_files(
    programs: &[UserProgram],
    session: &Session<'_>,
) -> Result<Vec<UserProgram>, Error> {
    let with_files = |program: &UserProgram| {
        let mut program = program.clone();
        if program.trace_files && program.traced.is_empty() {
            let command = shell_line(program.command.iter().map(String::as_str));
            session.observer.status(&format!("tracing the files of {}", escape(&command)));
            let traced = trace_files(&program, session);
            session.observer.status("");
            program.traced = traced?;
        }
        Ok(program)
    };
    programs.iter().map(with_files).collect()
}

/// Runs a program in a sandbox, and returns the files that it opens.
fn trace_files(program: &UserProgram, session: &Session<'_>) -> Result<Vec<String>, Error> {
    let here = current_directory();
    let sandbox = program::prepare_trace(program, &here, &session.cache)?;
    let errors = sandbox.directory().join("0/out/stderr");
    // The guest program may name thousands of files.
    let limits = Limits { wire_bytes: session.limits.symbols_bytes, ..session.limits.clone() };
    let host = Host::new(&session.cache, limits, session.cancel.clone());
    let next = "name another directory with --cache DIR";
    let host = host.or_host("cannot write the guest program to the cache", next)?;
    let host = host.with_programs(Some((sandbox, here.clone())));
    let row = &program_rows(std::slice::from_ref(program))[0];
    let refused = |reason: String| {
        let command = escape(&program.command[0]);
        Error::user(format!("cannot trace the files of {command} on this machine: {reason}"))
            .next("remove --trace-files, and name the files that it needs with --file")
    };
    let named = named_files(&host, row).map_err(|stop| match stop {
        Stop::Cancelled => Error::cancelled(),
        Stop::Failed(failure, _) => refused(failure.to_string()),
    })?;
    if named.status != u64::from(program.status) {
        let last_words = program::output_end(&errors);
        let NamedFiles { status, .. } = named;
        let expected = program.status;
        return Err(refused(format!(
            "its exit status is {status}, expected {expected}: {last_words}"
        )));
    }
    Ok(program::traced_files(&named, &here))
}

/// Adds the identity of the programs' files to a new Plan. Returns the programs that run on the
/// running kernel, and their working directory.
pub(super) fn identify_timed_programs(
    plan: &mut TimesPlan,
    session: &Session<'_>,
) -> Result<Option<(NativePrograms, PathBuf)>, Error> {
    if plan.asked.programs.is_empty() {
        return Ok(None);
    }
    plan.asked.programs = programs_with_traced_files(&plan.asked.programs, session)?;
    if let Some(packed) = pack_timed_programs(plan, session)? {
        plan.archive_sha256 = packed.sha256;
    }
    if !plan.asked.uses_running_kernel() {
        return Ok(None);
    }
    let here = current_directory();
    let native = program::prepare_native(&plan.asked.programs, &here, &session.cache)?;
    let directory = here.to_str().ok_or_else(|| program::not_utf8_error(&here))?.to_owned();
    plan.native_programs =
        Some(NativeProgramsIdentity { directory, sha256: native.sha256.clone() });
    Ok(Some((native, here)))
}

/// Archive of the programs of a Plan's guests: from the cache, else packed again.
pub(super) fn timed_programs_in_guests(
    plan: &TimesPlan,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    match plan.archive_sha256.is_empty() {
        true => Ok(None),
        false => find_packed(&plan.archive_sha256, || pack_timed_programs(plan, session), session)
            .map(Some),
    }
}

/// Programs of a Plan on the running kernel, and their working directory.
pub(super) fn timed_programs_here(
    plan: &TimesPlan,
    session: &Session<'_>,
) -> Result<Option<(NativePrograms, PathBuf)>, Error> {
    let Some(NativeProgramsIdentity { directory, sha256 }) = &plan.native_programs else {
        return Ok(None);
    };
    let native =
        program::prepare_native(&plan.asked.programs, Path::new(directory), &session.cache)?;
    match native.sha256 == *sha256 {
        true => Ok(Some((native, directory.into()))),
        false => Err(super::other_programs()),
    }
}

fn pack_timed_programs(
    plan: &TimesPlan,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    match plan.asked.runs_on {
        RunsOn::RunningKernel => Ok(None),
        RunsOn::Guests => {
            let contents = ArchiveContents {
                programs: plan.asked.programs.clone(),
                ..ArchiveContents::default()
            };
            pack_together(&contents, plan.asked.machine.memory_mib, session)
        }
    }
}

/// Definitions in the workload files of a directory.
pub fn definitions_of(directory: &Path) -> Result<Vec<Definition>, Error> {
    definitions_in(&compile::read(directory)?, directory)
}

/// Definitions of a directory. Its C files are compiled with ktax's guest program as a check.
pub fn checked_definitions(
    directory: &Path,
    cache: &Path,
    cancel: &Cancel,
) -> Result<Vec<Definition>, Error> {
    let files = compile::read(directory)?;
    let definitions = definitions_in(&files, directory)?;
    if !files.c.is_empty() {
        unless_stopped(compile::compile(&files, directory, cache), cancel)?;
    }
    Ok(definitions)
}

/// Next step if the cache cannot be written.
const FIX_CACHE: &str = "free disk space or fix the permissions";

/// Result of the compiler; `Cancelled` if the user stopped it.
fn unless_stopped<T>(compiled: Result<T, Error>, cancel: &Cancel) -> Result<T, Error> {
    match cancel.is_cancelled() {
        true => Err(Error::cancelled()),
        false => compiled,
    }
}

fn definitions_in(files: &WorkloadFiles, directory: &Path) -> Result<Vec<Definition>, Error> {
    let built_in: Vec<String> =
        definitions()?.into_iter().map(|definition| definition.program).collect();
    let parsed = files.toml.iter().map(|(path, text)| {
        let path = escape_path(&directory.join(path)).to_string();
        let definition = parse_user_definition(text, &path)?;
        let is_defined = definition.run.is_some()
            || built_in.contains(&definition.program)
            || files.c.iter().any(|(_, text)| declares_workload(text, &definition.program));
        if !is_defined {
            let program = &definition.program;
            let reason =
                format!("no C file has WORKLOAD(\"{program}\", …); add it, or correct `program`");
            return Err(plan::definition_error(&path, &reason));
        }
        Ok(definition)
    });
    parsed.collect()
}

/// Returns true if a C file declares this workload.
fn declares_workload(text: &str, program: &str) -> bool {
    let mut calls = text.split("WORKLOAD").skip(1).map(str::trim_start);
    let name = format!("\"{program}\"");
    calls
        .any(|call| call.strip_prefix('(').is_some_and(|rest| rest.trim_start().starts_with(&name)))
}

/// Guest program with the workloads of a directory; kept in the cache.
pub(super) fn compiled_guest(
    directory: Option<&str>,
    session: &Session<'_>,
) -> Result<UserSpace, Error> {
    let Some(directory) = directory.map(Path::new) else { return Ok(UserSpace::bundled()) };
    let files = compile::read(directory)?;
    // A directory may only have definitions, of workloads that need no C.
    if files.c.is_empty() {
        return Ok(UserSpace::bundled());
    }
    session.observer.status("compiling the workloads");
    let program = compile::compile(&files, directory, &session.cache);
    session.observer.status("");
    let guest = UserSpace::compiled(unless_stopped(program, &session.cancel)?);
    guest.keep(&session.cache).or_host("cannot keep the guest in the cache", FIX_CACHE)?;
    Ok(guest)
}

/// Guest program of a plan: from the cache, else compiled again.
pub(super) fn planned_guest(plan: &CountsPlan, session: &Session<'_>) -> Result<UserSpace, Error> {
    if plan.asked.guest.workloads_from.is_none() {
        return Ok(UserSpace::bundled());
    }
    if let Some(guest) = UserSpace::find(&plan.key.guest, &session.cache) {
        return Ok(guest);
    }
    let guest = compiled_guest(plan.asked.guest.workloads_from.as_deref(), session)?;
    match guest.sha256() == plan.key.guest {
        true => Ok(guest),
        false => {
            Err(super::stale_plan("the workloads' C files are not those of the plan any more"))
        }
    }
}
