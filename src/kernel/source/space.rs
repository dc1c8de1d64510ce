//! Whether the disk has room for a build.

use std::path::Path;

use rustix::fs::statvfs;

use crate::kernel::error::BuildError;
use crate::kernel::text::printable;

/// What a check-out and a small object tree take.
const FIRST_MIB: u64 = 3000;

/// What the next build there takes.
const AGAIN_MIB: u64 = 300;

/// Whether `directory`, where a build may have been before, has room for the next one.
pub(super) fn check(directory: &Path, was_built: bool) -> Result<(), BuildError> {
    let needed_mib = if was_built { AGAIN_MIB } else { FIRST_MIB };
    match free_mib(directory)? {
        free_mib if free_mib < needed_mib => {
            Err(BuildError::DiskFull { free_mib, needed_mib, path: printable(directory) })
        }
        _ => Ok(()),
    }
}

fn free_mib(path: &Path) -> Result<u64, BuildError> {
    let space = statvfs(path).map_err(|error| BuildError::Cache {
        action: "look at",
        path: printable(path),
        error: error.into(),
    })?;
    Ok((space.f_bavail * space.f_frsize) >> 20)
}

/// What a build says that had no room.
pub(super) fn disk_full(path: &Path) -> BuildError {
    match free_mib(path) {
        Ok(free_mib) => {
            BuildError::DiskFull { free_mib, needed_mib: FIRST_MIB, path: printable(path) }
        }
        Err(error) => error,
    }
}
