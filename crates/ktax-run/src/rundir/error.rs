// The messages say what the fields are.
#![allow(missing_docs)]

use std::io;
use std::path::Path;

use thiserror::Error;

use ktax_host::text::shell_path;
use ktax_model::{Blame, FORMAT};

/// Why a run directory cannot be used.
#[derive(Debug, Error)]
pub enum RunDirError {
    #[error(
        "{path} exists and is not empty; give --out a new name, or resume with `ktax run {}`",
        shell_path(.path)
    )]
    Exists { path: String },
    #[error("{path} exists, is not empty, and is not a run directory; give --out a new name")]
    NotEmpty { path: String },
    #[error(
        "{path} does not exist; `ktax plan lsm --out {}` makes a plan there",
        shell_path(.path)
    )]
    Absent { path: String },
    #[error(
        "{path} is not a run directory, because it has no plan.json; {}",
        below.as_ref().map_or_else(
            || "give the directory of a run, such as `ktax compare lsm` makes".to_owned(),
            |below| format!("it has runs below it: give one of them, such as {below}"),
        )
    )]
    NoPlan { path: String, below: Option<String> },
    #[error(
        "{path} has no campaign.json; `ktax campaign plan FILE --out {}` makes a campaign there",
        shell_path(.path)
    )]
    NoCampaign { path: String },
    #[error(
        "{path} has results of another plan, because plan.json was changed after the first boot; \
         undo the change, or copy plan.json into an empty directory and run that"
    )]
    Edited { path: String },
    #[error("cannot create {path}: {reason}; give --out another place")]
    Create { path: String, reason: io::Error },
    #[error("{path} is in use by another ktax; wait for it to end, or give --out a new name")]
    InUse { path: String },
    #[error(
        "{path} has format {found}, and this ktax reads format {FORMAT}; plan again with this \
         version of ktax, in a new directory"
    )]
    Format { path: String, found: u32 },
    #[error(
        "{path} is damaged or not written by ktax: {reason}; restore the file, or plan and measure \
         again in a new directory"
    )]
    Damaged { path: String, reason: String },
    #[error(
        "cannot read {path}: {reason}; make it again with `ktax analyse {}`",
        shell_path(.root)
    )]
    Comparison { path: String, reason: String, root: String },
    #[error("{operation} {path}: {reason}; check the permissions and the free disk space")]
    Io { operation: &'static str, path: String, reason: io::Error },
}

impl RunDirError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            RunDirError::Io { .. } => Blame::Host,
            _ => Blame::User,
        }
    }

    pub(super) fn io(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.display().to_string();
        move |reason| RunDirError::Io { operation, path, reason }
    }
}

pub(super) type Result<T> = std::result::Result<T, RunDirError>;
