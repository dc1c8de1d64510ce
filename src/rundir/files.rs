//! What run directories of every kind have in common.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Result, RunDirError};
use crate::disk::{self, Lock};
use crate::model::FORMAT;
use crate::text::escape;

/// Refuses a directory in which there is something already.
///
/// # Errors
/// Where there is.
pub fn check_free(root: &Path) -> Result<()> {
    let mut names = root.read_dir().into_iter().flatten().flatten().map(|e| e.file_name());
    match names.any(|name| !disk::is_unfinished(&name)) {
        true => Err(exists(root)),
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
    // Of two that make the same directory one comes first.
    let path = root.join("plan.json");
    match disk::write_new_atomically(&path, plan) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(root)),
        Err(error) => Err(RunDirError::io("cannot write", &path)(error)),
        Ok(()) => Ok(()),
    }
}

pub(super) fn lock(root: &Path) -> Result<Lock> {
    let path = root.join("lock");
    let file = fs::File::create(&path).map_err(RunDirError::io("cannot create", &path))?;
    Lock::take(file).map_err(|_| RunDirError::InUse { path: root.display().to_string() })
}

/// Removes what analyse has made.
pub(super) fn forget_comparison(root: &Path) -> Result<()> {
    let names = ["comparison.json", "report.txt", "report.csv", "report.md"];
    names.iter().try_for_each(|name| remove(&root.join(name)))
}

/// A Comparison of this format; `None` if there is none.
pub(super) fn read_comparison<T: DeserializeOwned>(
    root: &Path,
    format: fn(&T) -> u32,
) -> Result<Option<T>> {
    let path = root.join("comparison.json");
    let comparison: Option<T> = read_json(&path)?;
    match comparison.as_ref().map(format) {
        None | Some(FORMAT) => Ok(comparison),
        Some(other) => Err(RunDirError::Format {
            path: path.display().to_string(),
            reason: format!("it is of format {other}"),
        }),
    }
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
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if is_absent(error.kind()) => return Ok(None),
        Err(error) => return Err(RunDirError::io("cannot read", path)(error)),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| RunDirError::Format {
        path: path.display().to_string(),
        reason: escape(&error.to_string()),
    })
}

/// Nothing there, also because what should be a directory is a file.
fn is_absent(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
