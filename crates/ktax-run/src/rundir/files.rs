//! Files of all kinds of run directories.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Result, RunDirError};
use ktax_host::disk::{self, Lock};
use ktax_host::text::escape;
use ktax_model::{Comparison, FORMAT, Plan, SavedResult, read_results};

/// More bytes than any file of a run directory has; the largest is a whole comparison.
pub const FILE_MAX: u64 = 1 << 30;

/// Refuses a directory that is not empty.
pub fn check_free(root: &Path) -> Result<()> {
    let mut names = root.read_dir().into_iter().flatten().flatten().map(|e| e.file_name());
    match names.any(|name| !disk::is_unfinished(&name)) {
        true if root.join("plan.json").exists() => Err(exists(root)),
        true => Err(RunDirError::NotEmpty { path: root.display().to_string() }),
        false => Ok(()),
    }
}

fn exists(root: &Path) -> RunDirError {
    RunDirError::Exists { path: root.display().to_string() }
}

/// Makes a directory with nothing in it but a Plan.
pub(super) fn create(root: &Path, plan: &[u8]) -> Result<()> {
    check_free(root)?;
    let path = root.display().to_string();
    fs::create_dir_all(root).map_err(|reason| RunDirError::Create { path, reason })?;
    // If two processes make the same directory, one is first.
    let path = root.join("plan.json");
    match disk::write_new_atomically(&path, plan) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(root)),
        Err(error) => Err(RunDirError::io("cannot write", &path)(error)),
        Ok(()) => Ok(()),
    }
}

pub(super) fn lock(root: &Path) -> Result<Lock> {
    let path = root.join("lock");
    let file = disk::lock_file(&path).map_err(RunDirError::io("cannot create", &path))?;
    lock_by(root, file)
}

/// Takes the lock. Only `WouldBlock` means that another process holds it.
fn lock_by(root: &Path, file: fs::File) -> Result<Lock> {
    Lock::take(file).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => RunDirError::InUse { path: root.display().to_string() },
        _ => RunDirError::io("cannot lock", &root.join("lock"))(error),
    })
}

/// Removes the results of analyse: the Comparison, and a report in each format.
pub(super) fn forget_comparison(root: &Path) -> Result<()> {
    remove(&root.join("comparison.json"))?;
    let entries = root.read_dir().map_err(RunDirError::io("cannot read", root))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut reports = names.filter(|name| name.as_encoded_bytes().starts_with(b"report."));
    reports.try_for_each(|name| remove(&root.join(name)))
}

/// A Comparison of this format; `None` if there is none.
pub(super) fn read_comparison(root: &Path) -> Result<Option<Comparison>> {
    let path = root.join("comparison.json");
    let Some(text) = read(&path)? else { return Ok(None) };
    let refuse = |reason: &str| RunDirError::Comparison {
        path: path.display().to_string(),
        reason: escape(reason),
        root: root.display().to_string(),
    };
    let saved = read_results(&String::from_utf8_lossy(&text));
    match saved.map_err(|error| refuse(&error.to_string()))?.pop().map(|one| one.result) {
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
        Version { format } => {
            Err(RunDirError::Format { path: path.display().to_string(), found: format })
        }
    }
}

/// The error for a directory without a Plan: nothing is there, or something else than a run
/// directory.
pub(super) fn no_plan(root: &Path) -> RunDirError {
    let path = root.display().to_string();
    if !root.exists() {
        return RunDirError::Absent { path };
    }
    let entries = root.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let first = entries.filter(|path| path.join("plan.json").is_file()).min();
    RunDirError::NoPlan { path, below: first.map(|path| path.display().to_string()) }
}

/// Makes a directory, without unfinished files.
pub(super) fn make_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(RunDirError::io("cannot create", dir))?;
    tidy(dir)
}

pub(super) fn write(path: &Path, content: &[u8]) -> Result<()> {
    disk::write_atomically(path, content).map_err(RunDirError::io("cannot write", path))
}

pub(super) fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(RunDirError::io("cannot remove", path)(error))
        }
        _ => Ok(()),
    }
}

pub(super) fn tidy(dir: &Path) -> Result<()> {
    disk::remove_unfinished(dir).map_err(RunDirError::io("cannot tidy", dir))
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
pub(super) fn damaged(path: &Path, reason: &str) -> RunDirError {
    RunDirError::Damaged { path: path.display().to_string(), reason: escape(reason) }
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
pub(super) fn unread(path: &Path, error: io::Error) -> RunDirError {
    match disk::is_not_regular(&error) || error.kind() == io::ErrorKind::FileTooLarge {
        true => damaged(path, &error.to_string()),
        false => RunDirError::io("cannot read", path)(error),
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
        assert!(matches!(lock(dir.path()), Err(RunDirError::InUse { .. })));
        drop(held);
        // The kernel refuses to lock a file that was opened with O_PATH.
        let mut as_path = fs::File::options();
        let file = as_path.read(true).custom_flags(libc::O_PATH).open(dir.path().join("lock"));
        let error = lock_by(dir.path(), file.unwrap()).unwrap_err();
        assert!(matches!(error, RunDirError::Io { .. }), "{error}");
        assert!(error.to_string().contains("lock: Bad file descriptor"), "{error}");
    }
}
