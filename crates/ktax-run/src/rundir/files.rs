//! Files of all kinds of run directories.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use ktax_host::disk::{self, Lock};
use ktax_host::text::{escape, shell_path};
use ktax_model::{Comparison, Error, ErrorKind, FORMAT, Plan, Result, SavedResult, read_results};

/// More bytes than any file of a run directory has; the largest is a whole comparison.
pub const FILE_MAX: u64 = 1 << 30;

/// Refuses a directory that is not empty.
pub fn check_free(root: &Path) -> Result<()> {
    let mut names = root.read_dir().into_iter().flatten().flatten().map(|e| e.file_name());
    match names.any(|name| !disk::is_unfinished(&name)) {
        true if root.join("plan.json").exists() => Err(exists(root)),
        true => {
            let problem = "exists, is not empty, and is not a run directory";
            Err(Error::user(format!("{} {problem}", root.display())).next("give --out a new name"))
        }
        false => Ok(()),
    }
}

/// Error for a directory that is a run directory already, or that another process just made one.
pub(super) fn exists(root: &Path) -> Error {
    let path = shell_path(root.display().to_string());
    Error::user(format!("{} exists and is not empty", root.display()))
        .next(format!("give --out a new name, or resume with `ktax run {path}`"))
        .kind(ErrorKind::InUse)
}

/// Makes a directory with nothing in it but a Plan.
pub(super) fn create(root: &Path, plan: &[u8]) -> Result<()> {
    check_free(root)?;
    fs::create_dir_all(root).map_err(|reason| {
        Error::user(format!("cannot create {}: {reason}", root.display()))
            .next("give --out another place")
    })?;
    // If two processes make the same directory, one is first.
    let path = root.join("plan.json");
    match disk::write_new_atomically(&path, plan) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(root)),
        Err(error) => Err(io_error("cannot write", &path)(error)),
        Ok(()) => Ok(()),
    }
}

pub(super) fn lock(root: &Path) -> Result<Lock> {
    let path = root.join("lock");
    let file = disk::lock_file(&path).map_err(io_error("cannot create", &path))?;
    lock_by(root, file)
}

/// Takes the lock. Only `WouldBlock` means that another process holds it.
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

/// Removes the results of analyse: the Comparison, and a report in each format.
pub(super) fn forget_comparison(root: &Path) -> Result<()> {
    remove(&root.join("comparison.json"))?;
    let entries = root.read_dir().map_err(io_error("cannot read", root))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut reports = names.filter(|name| name.as_encoded_bytes().starts_with(b"report."));
    reports.try_for_each(|name| remove(&root.join(name)))
}

/// A Comparison of this format; `None` if there is none.
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

/// A Plan of this format, with the text of its file; `None` if there is none.
pub(super) fn read_plan(path: &Path) -> Result<Option<(Plan, Vec<u8>)>> {
    read_versioned(path)
}

/// A file that has a version, with its text; `None` if there is none.
pub(super) fn read_versioned<T: DeserializeOwned>(path: &Path) -> Result<Option<(T, Vec<u8>)>> {
    // The version is read first: a file of another version has other keys, too.
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

/// The error for a directory without a Plan: nothing is there, or something else than a run
/// directory.
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
        Some(below) => {
            format!("it has runs below it: give one of them, such as {}", below.display())
        }
    };
    error("is not a run directory, because it has no plan.json", next)
}

/// Makes a directory, without unfinished files.
pub(super) fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(io_error("cannot create", dir))?;
    tidy(dir)
}

pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    disk::write_atomically(path, content).map_err(io_error("cannot write", path))
}

pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("cannot remove", path)(error))
        }
        _ => Ok(()),
    }
}

pub(super) fn tidy(dir: &Path) -> Result<()> {
    disk::remove_unfinished(dir).map_err(io_error("cannot tidy", dir))
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

/// The error for a file that ktax did not write so.
pub fn damaged(path: &Path, reason: &str) -> Error {
    let (path, reason) = (path.display(), escape(reason));
    Error::user(format!("{path} is damaged or not written by ktax: {reason}"))
        .next("restore the file, or plan and measure again in a new directory")
}

/// The error for a file that the host cannot read or write.
pub(super) fn io_error(operation: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let what = format!("{operation} {}", path.display());
    move |reason| {
        Error::host(format!("{what}: {reason}"))
            .next("check the permissions and the free disk space")
    }
}

/// Content of a file; `None` if there is none.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match disk::read_own(path, FILE_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_absent(error.kind()) => Ok(None),
        Err(error) => Err(unread(path, error)),
    }
}

/// The error for a file that was not read: it is no regular file, or the host failed.
pub(super) fn unread(path: &Path, error: io::Error) -> Error {
    match disk::is_not_regular(&error) || error.kind() == io::ErrorKind::FileTooLarge {
        true => damaged(path, &error.to_string()),
        false => io_error("cannot read", path)(error),
    }
}

/// Whether there is nothing, also because a parent directory is a file.
fn is_absent(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    #[test]
    fn only_a_lock_that_somebody_holds_is_in_use() {
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
