//! Reads, writes and checks files that all kinds of run directories have.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

use ktax_host::disk::{self, Lock};
use ktax_host::text::{escape, shell_path};
use ktax_model::{
    AskedTimes, CampaignPlan, Comparison, CountsPlan, Error, ErrorKind, FORMAT, GuestSubject,
    GuestWork, GuestsPlan, HostKind, Identity, Layout, Machine, Model, Plan, PlanMethod, Result,
    SavedResult, Side, Step, TimesPlan, read_results,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum size of a file in a run directory; the largest is a comparison.
pub const FILE_MAX: u64 = 1 << 30;

/// Refuses a directory that is not empty.
pub fn check_free(root: &Path) -> Result<()> {
    let mut names = root.read_dir().into_iter().flatten().flatten().map(|e| e.file_name());
    match names.any(|name| !disk::is_unfinished(&name)) {
        true if root.join("plan.json").exists() => Err(exists_error(root)),
        true => {
            let problem = "exists, is not empty, and is not a run directory";
            Err(Error::user(format!("{} {problem}", root.display())).next("give --out a new name"))
        }
        false => Ok(()),
    }
}

/// Error about a directory that is a run directory already. Another process may have made it.
pub(super) fn exists_error(root: &Path) -> Error {
    let path = shell_path(root.display().to_string());
    Error::user(format!("{} exists and is not empty", root.display()))
        .next(format!("give --out a new name, or resume with `ktax run {path}`"))
        .kind(ErrorKind::InUse)
}

/// Makes a directory that contains only a Plan.
pub(super) fn create(root: &Path, plan: &[u8]) -> Result<()> {
    check_free(root)?;
    fs::create_dir_all(root).map_err(|reason| {
        Error::user(format!("cannot create {}: {reason}", root.display()))
            .next("give --out another path")
    })?;
    // Another process may make the same directory at this moment.
    let path = root.join("plan.json");
    match disk::write_new_atomically(&path, plan) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists_error(root)),
        Err(error) => Err(io_error("cannot write", &path)(error)),
        Ok(()) => Ok(()),
    }
}

/// Locks a directory; an error if another process holds the lock.
pub(super) fn lock(root: &Path) -> Result<Lock> {
    let path = root.join("lock");
    let file = disk::lock_file(&path).map_err(io_error("cannot create", &path))?;
    lock_by(root, file)
}

/// Locks a directory by its lock file. The error `WouldBlock` means that another process holds the
/// lock.
fn lock_by(root: &Path, file: fs::File) -> Result<Lock> {
    Lock::take(file).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            Error::user(format!("{} is in use by another ktax", root.display()))
                .next("wait for it to end, or give --out a new name")
                .kind(ErrorKind::InUse)
        }
        _ => io_error("cannot lock", &root.join("lock"))(error),
    })
}

/// Removes the results of an analysis: the Comparison, and the report in each format.
pub(super) fn remove_comparison(root: &Path) -> Result<()> {
    remove(&root.join("comparison.json"))?;
    let entries = root.read_dir().map_err(io_error("cannot read", root))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut reports = names.filter(|name| name.as_encoded_bytes().starts_with(b"report."));
    reports.try_for_each(|name| remove(&root.join(name)))
}

/// Reads the Comparison of a run directory; `None` if the directory has none.
pub(super) fn read_comparison(root: &Path) -> Result<Option<Comparison>> {
    let path = root.join("comparison.json");
    let Some(text) = read(&path)? else { return Ok(None) };
    let refuse = |reason: &str| {
        let again = shell_path(root.display().to_string());
        Error::user(format!("cannot read {}: {}", path.display(), escape(reason)))
            .next(format!("make it again with `ktax analyse {again}`"))
    };
    let saved = read_results(&String::from_utf8_lossy(&text));
    match saved
        .map_err(|error| refuse(&error.to_string()))?
        .pop()
        .map(|comparison| comparison.result)
    {
        Some(SavedResult::Comparison(comparison)) => Ok(Some(*comparison)),
        _ => Err(refuse("it is not a comparison")),
    }
}

/// Reads a Plan and the text of its file; `None` if the file does not exist.
pub(super) fn read_plan(path: &Path) -> Result<Option<(Plan, Vec<u8>)>> {
    read_versioned(path)
}

/// Reads a file with a format version, and its text; `None` if the file does not exist.
pub(super) fn read_versioned<T: DeserializeOwned>(path: &Path) -> Result<Option<(T, Vec<u8>)>> {
    // The version is parsed first, because a file of another version may have other keys.
    #[derive(serde::Deserialize)]
    struct Version {
        format: u32,
    }
    let Some(text) = read(path)? else { return Ok(None) };
    match parse_json::<Version>(path, &text)? {
        Version { format: FORMAT } => Ok(Some((parse_json(path, &text)?, text))),
        Version { format } => Err(Error::user(format!(
            "{} has format {format}, and this ktax reads format {FORMAT}",
            path.display()
        ))
        .next("plan again with this version of ktax, in a new directory")),
    }
}

/// Error about a path that does not exist or is not a run directory.
pub(super) fn no_plan(root: &Path) -> Error {
    let path = root.display();
    let error = |problem, next| {
        Error::user(format!("{path} {problem}")).next(next).kind(ErrorKind::NoRunDirectory)
    };
    if !root.exists() {
        let out = shell_path(path.to_string());
        let next = format!("`ktax plan lsm --out {out}` makes a plan there");
        return error("does not exist", next);
    }
    let entries = root.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let next = match entries.filter(|path| path.join("plan.json").is_file()).min() {
        None => "give the directory of a run, such as `ktax compare lsm` makes".to_owned(),
        Some(run) => {
            format!("it contains run directories: give one of them, such as {}", run.display())
        }
    };
    error("is not a run directory, because it has no plan.json", next)
}

/// Makes a directory, and removes unfinished files in it.
pub(super) fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(io_error("cannot create", dir))?;
    remove_unfinished_files(dir)
}

pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    disk::write_atomically(path, content).map_err(io_error("cannot write", path))
}

/// Removes a file, if it exists.
pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("cannot remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Removes files that killed writers left.
pub(super) fn remove_unfinished_files(dir: &Path) -> Result<()> {
    disk::remove_unfinished(dir).map_err(io_error("cannot remove unfinished files in", dir))
}

pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data serialises");
    text.push(b'\n');
    text
}

pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    read(path)?.map(|text| parse_json(path, &text)).transpose()
}

fn parse_json<T: DeserializeOwned>(path: &Path, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| damaged(path, &error.to_string()))
}

/// Error about a file that ktax did not write in this form.
pub fn damaged(path: &Path, reason: &str) -> Error {
    let (path, reason) = (path.display(), escape(reason));
    Error::user(format!("{path} is damaged or not written by ktax: {reason}"))
        .next("restore the file, or plan and measure again in a new directory")
}

/// Error of an operation on a file.
pub(super) fn io_error(operation: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let action = format!("{operation} {}", path.display());
    move |reason| {
        Error::host(format!("{action}: {reason}"))
            .next("check the permissions and the free disk space")
    }
}

/// Content of a file; `None` if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match disk::read_own(path, FILE_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_absent(error.kind()) => Ok(None),
        Err(error) => Err(read_error(path, error)),
    }
}

/// Error about a file that could not be read: a damaged file if it is not regular or too large.
pub(super) fn read_error(path: &Path, error: io::Error) -> Error {
    match disk::is_not_regular(&error) || error.kind() == io::ErrorKind::FileTooLarge {
        true => damaged(path, &error.to_string()),
        false => io_error("cannot read", path)(error),
    }
}

/// Returns true if a file does not exist, also because a parent directory is a file.
fn is_absent(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Refuses plans that would write outside the directory, control a terminal, take all memory, or
/// never end.
pub(super) fn check_plan(plan: &Plan) -> Result<(), &'static str> {
    if !is_printable(&plan.title) {
        return Err("the title has control characters");
    }
    match &plan.method {
        PlanMethod::Counts(counts) => check_counts(counts),
        PlanMethod::Times(times) => check_times(times, plan.threshold_percent),
        PlanMethod::Guests(guests) => check_guests(guests),
    }
}

/// Refuses campaigns that ktax does not make. The plan of a unit is checked when its directory is
/// made.
pub(super) fn check_campaign(plan: &CampaignPlan) -> Result<(), &'static str> {
    let has_hash = |kernel: &Identity| is_hash(&kernel.sha256);
    if !is_printable(&plan.title) {
        Err("the title has control characters")
    } else if !plan.timed.iter().all(|name| is_plain_name(name)) {
        Err("the name of a timed experiment is not of [A-Za-z0-9._-]")
    } else if !plan.subjects.iter().filter_map(|subject| subject.kernel.as_ref()).all(has_hash) {
        Err("a kernel's sha256 is not of 64 hexadecimal digits")
    } else {
        plan.fault().map_or(Ok(()), Err)
    }
}

/// Refuses plans of counts whose names cannot be file names, or whose numbers are out of bounds.
fn check_counts(plan: &CountsPlan) -> Result<(), &'static str> {
    let rows = plan.workloads.iter().map(|workload| &workload.row).collect::<BTreeSet<_>>();
    let models = [&plan.asked.machine.model, &plan.key.machine.model];
    first_fault([
        (
            !Side::BOTH.iter().all(|side| is_hash(&plan.kernels.get(*side).sha256)),
            "a kernel's sha256 is not of 64 hexadecimal digits",
        ),
        (rows.len() != plan.workloads.len(), "two rows have the same name"),
        (!rows.iter().all(|row| is_row_name(row)), "a row's name is not of [a-z0-9:=,-]"),
        (plan.workloads.iter().any(|workload| workload.ops == 0), "a row has no operations"),
        (
            !(128..=65536).contains(&plan.asked.machine.memory_mib),
            "the memory is not 128 to 65536 MiB",
        ),
        (!(1..=Machine::MAX_CPUS).contains(&plan.asked.machine.cpus), "the CPUs are not 1 to 32"),
        (plan.asked.machine.quantum == Some(0), "the quantum is 0"),
        (!models.into_iter().all(can_be_modelled), "the machine cannot be modelled"),
        (
            plan.asked.calibration.as_ref().is_some_and(|calibration| calibration.check().is_err()),
            "the machine's calibration is not valid",
        ),
        (!counts_texts(plan).all(is_printable), "a text has control characters"),
    ])?;
    check_steps(&plan.steps, &plan.layouts)
}

/// Error with the message of the first condition that is true.
fn first_fault<const N: usize>(faults: [(bool, &'static str); N]) -> Result<(), &'static str> {
    faults.into_iter().find(|(is_fault, _)| *is_fault).map_or(Ok(()), |(_, message)| Err(message))
}

/// Refuses Steps that do not fit the Layouts.
fn check_steps(steps: &[Step], layouts: &[Layout]) -> Result<(), &'static str> {
    let names = steps.iter().map(Step::name).collect::<BTreeSet<_>>();
    first_fault([
        (names.len() != steps.len(), "two steps are the same"),
        (!steps.iter().all(|step| step.layout < layouts.len()), "a step's layout does not exist"),
        (!layouts.iter().all(|layout| layout.padding <= 4096), "a layout's padding is above 4096"),
    ])
}

/// Returns true if the plugin can model the machine, or if no machine is to be modelled.
fn can_be_modelled(model: &Option<Model>) -> bool {
    let machine = model.as_ref().and_then(Model::machine);
    machine.is_none_or(|machine| machine.wire().is_ok())
}

/// Texts that are shown in a terminal or passed to QEMU.
fn counts_texts(plan: &CountsPlan) -> impl Iterator<Item = &str> {
    let sides = Side::BOTH.into_iter().flat_map(|side| {
        let (subject, kernel) = (plan.asked.subjects.get(side), plan.kernels.get(side));
        [subject.kernel.as_str(), &subject.boot_line, &kernel.source]
    });
    let key = &plan.key;
    sides.chain([plan.asked.machine.cpu.as_str(), &key.qemu, &key.machine_type, &key.machine.cpu])
}

/// Refuses plans of guests whose names cannot be file names, or whose numbers are out of bounds.
fn check_guests(plan: &GuestsPlan) -> Result<(), &'static str> {
    let asked = &plan.asked;
    let kernels = asked.sides().filter_map(|side| side.kernel.as_ref());
    let mut kernels = kernels.chain([&plan.host_kernel]);
    let rows = asked.rows.iter().map(|row| &row.row).collect::<BTreeSet<_>>();
    first_fault([
        (
            !kernels.all(|kernel| is_hash(&kernel.sha256)),
            "a kernel's sha256 is not of 64 hexadecimal digits",
        ),
        (
            rows.len() != asked.rows.len() || rows.is_empty(),
            "it has no rows, or two rows of the same name",
        ),
        (!rows.iter().all(|row| is_row_name(row)), "a row's name is not of [a-z0-9:=,-]"),
        (
            !asked.sides().all(|side| GuestSubject::CPUS.contains(&side.subject.cpus.into())),
            "a guest's CPUs are not 1 to 16",
        ),
        (
            !asked.sides().all(|side| GuestSubject::MEMORY_MIB.contains(&side.subject.memory_mib)),
            "a guest's memory is not 64 to 3072 MiB",
        ),
        (
            !asked.rows.iter().all(|row| can_do_work(asked.host, &row.work)),
            "a row has no operations, or this host cannot run it",
        ),
        (!guests_texts(plan).all(is_printable), "a text has control characters"),
    ])?;
    check_steps(&plan.steps, &plan.layouts)
}

/// Returns true if the work is not empty, and a host of this kind can do it.
fn can_do_work(host: HostKind, work: &GuestWork) -> bool {
    match work {
        GuestWork::Raw { kind, count } => {
            host.permitted_counts(kind).is_some_and(|range| range.contains(count))
        }
        GuestWork::Boot => !host.is_board(),
        GuestWork::Program(workload) => !host.is_board() && workload.ops > 0,
    }
}

/// Texts that are shown in a terminal or passed to QEMU.
fn guests_texts(plan: &GuestsPlan) -> impl Iterator<Item = &str> {
    let asked = &plan.asked;
    let features =
        asked.sides().flat_map(|side| side.subject.hidden_features.iter().map(String::as_str));
    let subjects = asked.sides().filter_map(|side| side.subject.kernel.as_ref());
    let subjects = subjects.chain([&asked.host_subject]);
    let subjects = subjects.flat_map(|subject| [subject.kernel.as_str(), &subject.boot_line]);
    let kernels = asked.sides().filter_map(|side| side.kernel.as_ref()).chain([&plan.host_kernel]);
    let sources = kernels.map(|kernel| kernel.source.as_str());
    let kinds = asked.rows.iter().filter_map(|row| match &row.work {
        GuestWork::Raw { kind, .. } => Some(kind.as_str()),
        GuestWork::Boot | GuestWork::Program(_) => None,
    });
    let key = [plan.key.qemu.as_str(), &plan.key.machine_type, &plan.key.machine.cpu];
    features.chain(subjects).chain(sources).chain(kinds).chain(key)
}

/// Refuses plans of times that would take all memory or never end.
fn check_times(plan: &TimesPlan, threshold_percent: f64) -> Result<(), &'static str> {
    let AskedTimes { loops, pairs, max_pairs, .. } = &plan.asked;
    let is_within = |value: u32, max: u32| (1..=max).contains(&value);
    let rows = plan.workloads().count();
    first_fault([
        (
            !is_within(*loops, 1000) || plan.headline.is_empty() || rows > 10_000,
            "it has no loops or no rows, or too many of them",
        ),
        (
            !is_within(*max_pairs, 10_000) || !is_within(pairs.unwrap_or(1), 10_000),
            "it has no pairs, or too many of them",
        ),
        (
            !(threshold_percent > 0.0 && threshold_percent <= 100.0),
            "its threshold is not above 0 and at most 100 percent",
        ),
        (plan.workloads().any(|workload| workload.ops == 0), "a row has no operations"),
    ])
}

/// Returns true if a row's name can be a file name.
fn is_row_name(row: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-:=,".contains(&byte);
    (1..=100).contains(&row.len()) && row.bytes().all(is_allowed)
}

/// Returns true if a name can be that of a directory that is not hidden.
fn is_plain_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=100).contains(&name.len()) && name.bytes().all(is_allowed) && !name.starts_with('.')
}

/// Returns true if the text is a SHA-256.
pub(super) fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns true if a terminal shows the text without acting on it.
fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn only_a_held_lock_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        assert_eq!(lock(dir.path()).unwrap_err().kind, ErrorKind::InUse);
        drop(held);
        // The kernel refuses to lock a file that was opened with O_PATH.
        let mut as_path = fs::File::options();
        let file = as_path.read(true).custom_flags(libc::O_PATH).open(dir.path().join("lock"));
        let error = lock_by(dir.path(), file.unwrap()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Other, "{error}");
        assert!(error.to_string().contains("lock: Bad file descriptor"), "{error}");
    }
}
