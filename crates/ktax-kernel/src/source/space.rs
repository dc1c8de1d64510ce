//! Checks the free space on the disk of the builds.

use std::path::Path;

use rustix::fs::statvfs;

use crate::error::BuildError;
use ktax_host::text::escape_path;

/// The size of a check-out and its object tree, in MiB.
const FIRST_MIB: u64 = 3000;

/// What another build in the same place adds, in MiB.
const AGAIN_MIB: u64 = 300;

/// Checks that `directory` has room for a build, or for another one after `was_built`.
pub(super) fn check(directory: &Path, was_built: bool) -> Result<(), BuildError> {
    let needed_mib = if was_built { AGAIN_MIB } else { FIRST_MIB };
    match free_mib(directory)? {
        free_mib if free_mib < needed_mib => {
            Err(BuildError::DiskFull { free_mib, needed_mib, path: escape_path(directory) })
        }
        _ => Ok(()),
    }
}

fn free_mib(path: &Path) -> Result<u64, BuildError> {
    let space = statvfs(path).map_err(|error| BuildError::Cache {
        action: "get the free space of",
        path: escape_path(path),
        error: error.into(),
    })?;
    Ok((space.f_bavail * space.f_frsize) >> 20)
}

/// The error of a build that ran out of disk space in `path`.
pub(super) fn disk_full(path: &Path) -> BuildError {
    match free_mib(path) {
        Ok(free_mib) => {
            BuildError::DiskFull { free_mib, needed_mib: FIRST_MIB, path: escape_path(path) }
        }
        Err(error) => error,
    }
}
