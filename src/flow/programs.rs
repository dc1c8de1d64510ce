//! The user's programs of a plan: packed once, and found again by their hash.

use std::fs;
use std::path::PathBuf;

use super::error::Error;
use super::session::Session;
use super::stale::StalePlanError;
use crate::engine::payload::UserSpace;
use crate::kernel::{CPU_MODULES, needed_modules};
use crate::model::{
    CountsPlan, Disk, Identity, Key, Side, Sides, Subject, UserProgram, module_and_parameters,
};
use crate::plan::{self, mkfs};
use crate::program::{
    self, Contents, LoadedModule, PackedModules, PackedPrograms, ProgramError, ProgramsAlone,
};

/// What a kernel and the guest's own programs take at most.
const KERNEL_MIB: u32 = 60;
/// What a program may write into its root directory.
const TO_WRITE_MIB: u32 = 16;

/// What the guests of a comparison have beside their kernels.
pub(super) struct Guests<'a> {
    pub programs: &'a [UserProgram],
    pub hooks: Option<&'a UserProgram>,
    /// The disk of both Sides.
    pub disk: Option<&'a Disk>,
    pub subjects: Sides<&'a Subject>,
    pub memory_mib: u32,
}

impl<'a> Guests<'a> {
    fn of_plan(plan: &'a CountsPlan) -> Guests<'a> {
        let CountsPlan { programs, hooks, disk, machine, subjects, .. } = plan;
        let subjects = Sides { base: &subjects.base, change: &subjects.change };
        let (hooks, disk) = (hooks.as_ref(), disk.as_ref());
        Guests { programs, hooks, disk, subjects, memory_mib: machine.memory_mib }
    }

    /// Packs what each Side's guests unpack, from the current directory. What is the same is one
    /// archive.
    pub fn pack(&self, session: &Session<'_>) -> Result<Sides<ProgramsAlone>, Error> {
        let [base, change] = Side::BOTH.map(|side| self.guest(side));
        let packed = base.pack(session)?;
        let change = if change == base { packed.clone() } else { change.pack(session)? };
        Ok(Sides { base: packed, change })
    }

    fn guest(&self, side: Side) -> Guest {
        let subject = self.subjects.get(side);
        let with_files = |program: &UserProgram| {
            let files = [program.files.clone(), subject.files.clone()].concat();
            UserProgram { files, ..program.clone() }
        };
        let disk = subject.disk.as_ref().or(self.disk);
        let setting = |(name, value): (&String, &String)| (plan::sysctl_file(name), value.clone());
        let beside = Contents {
            programs: Vec::new(),
            hooks: self.hooks.map(with_files),
            disk: disk.map(|disk| (disk.clone(), mkfs(disk))),
            settings: subject.sysctl.iter().map(setting).collect(),
            setup: plan::own_setup(subject),
        };
        let programs = self.programs.iter().map(with_files).collect();
        Guest { beside, programs, memory_mib: self.memory_mib }
    }
}

/// What the guests of one Side unpack: the same in each, and one program.
#[derive(PartialEq)]
struct Guest {
    beside: Contents,
    programs: Vec<UserProgram>,
    memory_mib: u32,
}

impl Guest {
    /// Packs each program alone, from the current directory.
    fn pack(&self, session: &Session<'_>) -> Result<ProgramsAlone, Error> {
        let beside = pack_together(&self.beside, self.memory_mib, session)?;
        let pack = |program| self.pack_alone(program, beside.as_ref(), session);
        let programs = self.programs.iter().map(pack).collect::<Result<_, _>>()?;
        Ok(ProgramsAlone { beside, programs })
    }

    fn pack_alone(
        &self,
        program: &UserProgram,
        beside: Option<&PackedPrograms>,
        session: &Session<'_>,
    ) -> Result<PackedPrograms, Error> {
        let bytes =
            beside.map_or(Ok(0), |packed| fs::metadata(&packed.archive).map(|about| about.len()));
        let disk = self.beside.disk.as_ref().map(|(disk, _)| disk);
        let beside = (bytes.map_err(ProgramError::Cache)?, disk);
        let most_bytes = most_bytes(self.memory_mib);
        Ok(program::pack_alone(program, beside, &here(), most_bytes, &session.cache)?)
    }

    /// What was packed before: from the cache, or packed again.
    fn planned(
        &self,
        (beside, alone): (Option<&str>, Vec<&str>),
        session: &Session<'_>,
    ) -> Result<ProgramsAlone, Error> {
        let beside = match beside {
            Some(sha256) => {
                let pack = || pack_together(&self.beside, self.memory_mib, session);
                Some(found(sha256, pack, session)?)
            }
            None => None,
        };
        let pack = |(program, sha256): (&UserProgram, &str)| {
            let pack = || self.pack_alone(program, beside.as_ref(), session).map(Some);
            found(sha256, pack, session)
        };
        let programs = self.programs.iter().zip(alone).map(pack).collect::<Result<_, _>>()?;
        Ok(ProgramsAlone { beside, programs })
    }
}

/// Packs what a guest unpacks at once, from the current directory.
pub(super) fn pack_together(
    contents: &Contents,
    memory_mib: u32,
    session: &Session<'_>,
) -> Result<Option<PackedPrograms>, Error> {
    if contents.is_empty() {
        return Ok(None);
    }
    let most_bytes = most_bytes(memory_mib);
    Ok(Some(program::pack(contents, &here(), most_bytes, &session.cache)?))
}

/// What fits into a guest. The archive stays in memory while it is unpacked, and Linux gives the
/// root directory half of the rest.
fn most_bytes(memory_mib: u32) -> u64 {
    let third_mib = memory_mib.saturating_sub(KERNEL_MIB) / 3;
    u64::from(third_mib.saturating_sub(TO_WRITE_MIB)) << 20
}

/// What was packed for the Sides of a plan: from the cache, or packed again.
pub(super) fn planned(
    plan: &CountsPlan,
    session: &Session<'_>,
) -> Result<Sides<ProgramsAlone>, Error> {
    let guests = Guests::of_plan(plan);
    Sides::try_from_fn(|side| guests.guest(side).planned(plan.archives_of(side), session))
}

/// Programs that were packed before: from the cache, or packed again.
pub(super) fn found(
    sha256: &str,
    pack: impl FnOnce() -> Result<Option<PackedPrograms>, Error>,
    session: &Session<'_>,
) -> Result<PackedPrograms, Error> {
    if let Some(packed) = program::open(sha256, &session.cache) {
        return Ok(packed);
    }
    let packed = pack()?.filter(|packed| packed.sha256 == sha256);
    packed.ok_or_else(|| StalePlanError::OtherPrograms.into())
}

/// Where programs are looked up.
pub(super) fn here() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| "/".into())
}

/// The modules of a Kernel that the guests load.
pub(super) fn modules(
    wanted: &[String],
    kernel: &Identity,
    session: &Session<'_>,
) -> Result<Option<PackedModules>, Error> {
    let wanted: Vec<(&str, &str)> =
        wanted.iter().map(|module| module_and_parameters(module)).collect();
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let needed = session.talking(|talk| needed_modules(kernel, &names, &session.cache, talk))?;
    if needed.is_empty() {
        return Ok(None);
    }
    let loaded = |(name, content): (String, Vec<u8>)| {
        let given = wanted.iter().find(|(wanted, _)| *wanted == name);
        let parameters = given.map_or("", |(_, parameters)| parameters).to_owned();
        let is_cpu_specific = given.is_none() && CPU_MODULES.contains(&name.as_str());
        LoadedModule { name, parameters, is_cpu_specific, content }
    };
    let modules: Vec<LoadedModule> = needed.into_iter().map(loaded).collect();
    Ok(Some(program::pack_modules(&modules, &session.cache)?))
}

/// The Key of counts with this guest and these modules of both Sides; and the archives of each
/// Side, where they are not the same.
pub(super) fn key(
    key: Key,
    guest: &UserSpace,
    packed: &Sides<ProgramsAlone>,
    modules: Vec<String>,
) -> (Key, Option<Sides<String>>) {
    let archives = Sides::of(|side| Key::of_archives(packed.get(side).sha256s()));
    let is_one = archives.base == archives.change;
    let programs = if is_one { archives.base.clone() } else { String::new() };
    let key = Key { guest: guest.sha256(), programs, modules, ..key };
    (key, (!is_one).then_some(archives))
}
