// The messages say what the fields are.
#![allow(missing_docs)]

use std::io;

use thiserror::Error;

use crate::rundir::RunDirError;
use ktax_model::{Blame, FORMAT};

/// Why the store cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error(
        "{operation} {path}: {reason}; check the permissions and the free disk space of the store"
    )]
    Io { operation: &'static str, path: String, reason: io::Error },
    #[error("{object} is damaged: {reason}; `ktax store fsck` moves it aside")]
    Damaged { object: String, reason: String },
    #[error(
        "{path} has format {found}, and this ktax reads format {FORMAT}; use the ktax that wrote it"
    )]
    OtherVersion { path: String, found: u32 },
    #[error(
        "{object} and {other} have other counts of {row}; nothing was changed: measure it again \
         with --verify-store 100, which finds out which of them is wrong"
    )]
    Differs { row: String, object: String, other: String },
    #[error(
        "{row} has other counts than the store has of it: {object} {became}, and {directory} has \
         the new ones; one of the two was not measured as ktax measures: compare them, and measure \
         a third time with --no-store"
    )]
    Mismatch { row: String, object: String, became: String, directory: String },
    #[error("{row} cannot be kept: {reason}; measure it again")]
    Unsound { row: String, reason: String },
    #[error(
        "{name:?} cannot be a tag; use letters, digits and . _ + -, beginning with a letter or a \
         digit, at most 64"
    )]
    NoTag { name: String },
    #[error(transparent)]
    RunDir(#[from] RunDirError),
}

impl StoreError {
    /// With the path of what could not be done.
    pub(super) fn io(
        operation: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.display().to_string();
        move |reason| StoreError::Io { operation, path, reason }
    }

    /// That a file is not as it was written, and why.
    pub(super) fn damaged(path: &std::path::Path) -> impl Fn(String) -> StoreError + use<> {
        let object = path.display().to_string();
        move |reason| StoreError::Damaged { object: object.clone(), reason }
    }

    /// That another version of ktax wrote a file.
    pub(super) fn other_version(path: &std::path::Path, found: u32) -> StoreError {
        StoreError::OtherVersion { path: path.display().to_string(), found }
    }

    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            StoreError::RunDir(error) => error.blame(),
            StoreError::NoTag { .. } | StoreError::OtherVersion { .. } => Blame::User,
            _ => Blame::Host,
        }
    }
}
