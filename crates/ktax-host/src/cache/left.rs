//! Files that are only there for a while, and what killed processes left of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::entry::below;
use super::holder::open;
use super::scratch::{is_scratch, remove_stale};
use super::size::size_on_disk;
use crate::disk::{Lock, is_abandoned, is_set_aside, is_sha256, is_unfinished};

/// Where they may be.
const DIRECTORIES: [&str; 11] = [
    "runs",
    "kernels",
    "kernels/tmp",
    "snapshots",
    "symbols",
    "payload",
    "hosts",
    "builds",
    "builds/lanes",
    "builds/tmp",
    "builds/packages",
];

/// What all of them take on the disk, in use or not.
pub(super) fn temporary_bytes(cache: &Path) -> u64 {
    let all = DIRECTORIES.iter().flat_map(|directory| below(cache, directory));
    let temporary = all.filter(|entry| {
        let name = entry.file_name();
        is_set_aside(&name) || is_scratch(&name) || is_written(entry)
    });
    temporary.map(|entry| size_on_disk(&entry.path()).unwrap_or_default()).sum()
}

/// Removes what nobody uses, and returns what could not be removed.
pub(super) fn remove_left(cache: &Path) -> Vec<(PathBuf, io::Error)> {
    let mut failed = Vec::new();
    for directory in DIRECTORIES {
        let entries = below(cache, directory);
        if entries.iter().any(|entry| is_scratch(&entry.file_name())) {
            remove_stale(&cache.join(directory));
        }
        for entry in entries {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if is_set_aside(&entry.file_name()) || is_written(&entry) && is_abandoned(&path) {
                failed.extend(remove(&path).err().map(|error| (path, error)));
            } else if let Some(hash) = name.strip_suffix(".lock").filter(|hash| is_sha256(hash)) {
                if !path.with_file_name(hash).exists() {
                    drop(remove_lock(&path));
                }
            }
        }
    }
    failed
}

/// A file that is being written, or a directory of a download or of a patch.
fn is_written(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    is_unfinished(&name) || name.as_encoded_bytes().starts_with(b".tmp")
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path)?.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        // Another ktax removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes the lock file of an entry that is gone. Whoever waits for it makes another one.
fn remove_lock(path: &Path) -> io::Result<()> {
    let lock = Lock::take(open(path)?)?;
    if lock.is_of(path)? {
        fs::remove_file(path)?;
    }
    Ok(())
}
