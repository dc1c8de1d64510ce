//! Files that a user names, and their limits.

use std::path::Path;
use std::{fs, io};

use super::error::Error;
use crate::disk::{check_writable, read_text, write_atomically};
use crate::plan::{self, BuiltIn, ModelKey};
use crate::text::nearest;

/// More than an experiment or a ledger has. Some files have no end, such as `/dev/zero`.
pub(super) const FILE_MAX: u64 = 64 << 20;

/// A result has never been a hundredth of this.
pub(super) const RESULT_MAX: u64 = 256 << 20;

/// The text of a file; `wanted` says what it should be.
///
/// # Errors
/// The file cannot be read, is too large, or is no text.
pub fn text(path: &Path, wanted: &'static str) -> Result<String, Error> {
    read_text(path, FILE_MAX).map_err(|reason| unreadable(path, wanted, reason))
}

/// Refuses a file for a result that could not be written, before anything is measured.
///
/// # Errors
/// It is a directory, or its directory cannot be written.
pub fn check_output(path: &Path) -> Result<(), Error> {
    let is_special = fs::metadata(path).is_ok_and(|it| !it.is_file() && !it.is_dir());
    if is_special { Ok(()) } else { check_writable(path).map_err(|error| unwritable(path, error)) }
}

/// Writes a result to a file that the user named.
///
/// # Errors
/// Those of [`check_output`], or the disk is full.
pub fn write_output(path: &Path, text: &str) -> Result<(), Error> {
    // A file that is renamed would take the place of a device or a pipe.
    let is_special = fs::metadata(path).is_ok_and(|it| !it.is_file());
    let write = if is_special {
        |path: &Path, text: &[u8]| fs::write(path, text)
    } else {
        write_atomically
    };
    write(path, text.as_bytes()).map_err(|error| unwritable(path, error))
}

fn unwritable(path: &Path, error: io::Error) -> Error {
    // The system's words alone: what else there is names a file that nobody asked for.
    let kind = error.kind();
    let reason = error.raw_os_error().map_or(kind.into(), io::Error::from_raw_os_error);
    Error::Unwritable { path: path.display().to_string(), reason }
}

/// The text of an experiment: of the file of that name, else of one that is built in.
///
/// # Errors
/// There is neither, or the file cannot be read.
pub fn experiment_text(named: &Path) -> Result<String, Error> {
    named_text(named, "an experiment file, or a name that `ktax experiments` lists")
}

/// The text of a ledger, likewise.
///
/// # Errors
/// There is neither, or the file cannot be read.
pub fn ledger_text(named: &Path) -> Result<String, Error> {
    named_text(named, "a ledger file, or a name that `ktax experiments` lists")
}

/// The text of a campaign file.
///
/// # Errors
/// It cannot be read.
pub fn campaign_text(path: &Path) -> Result<String, Error> {
    text(path, "a campaign file")
}

/// What is modelled, with the machine of a file, whose name ends in `.toml`.
///
/// # Errors
/// The file cannot be read, or is no machine.
pub fn model(key: ModelKey) -> Result<ModelKey, Error> {
    let ModelKey::Name(named) = &key else { return Ok(key) };
    let path = Path::new(named);
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) if name.ends_with(".toml") => machine(path),
        _ => Ok(key),
    }
}

/// The machine of a file.
///
/// # Errors
/// The file cannot be read, or is no machine.
pub(super) fn machine(path: &Path) -> Result<ModelKey, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(ModelKey::parse(&text(path, "a machine's file, as `ktax calibrate` writes one")?, &name)?)
}

/// Of either: who reads the text says which command is for the other.
fn named_text(named: &Path, wanted: &'static str) -> Result<String, Error> {
    let all = plan::experiments().chain(plan::ledgers());
    built_in(named, all).map_or_else(|| text(named, wanted), Ok)
}

fn all_built_in() -> impl Iterator<Item = BuiltIn> {
    plan::experiments().chain(plan::ledgers()).chain(plan::machines())
}

/// The text of what is built in.
///
/// # Errors
/// Nothing of that name is.
pub fn built_in_text(name: &str) -> Result<&'static str, Error> {
    let found = all_built_in().find(|it| it.name == name).map(|it| it.text);
    found.ok_or_else(|| {
        let near = nearest(name, all_built_in().map(|it| it.name)).map(str::to_owned);
        Error::NotBuiltIn { name: name.to_owned(), near }
    })
}

/// A file wins; a directory is no experiment, and often has the name of the one that made it.
fn built_in(named: &Path, mut all: impl Iterator<Item = BuiltIn>) -> Option<String> {
    let is_file = named.exists() && !named.is_dir();
    let found = all.find(|it| !is_file && named == Path::new(it.name))?;
    Some(found.text.to_owned())
}

/// Why such a file is not read.
pub(super) fn unreadable(path: &Path, wanted: &'static str, reason: std::io::Error) -> Error {
    Error::Unreadable { path: path.display().to_string(), reason, wanted }
}
