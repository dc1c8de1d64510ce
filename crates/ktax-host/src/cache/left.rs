//! Files of the cache that are no entries: temporary files, those that killed processes left, and
//! records, which go with their kernels.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Deserialize;

use super::PLACES;
use super::entry::{below, size_on_disk};
use super::holder::{is_scratch, open_entry, remove_stale};
use crate::disk::{Lock, is_abandoned, is_set_aside, is_sha256, is_unfinished, read_own};

/// Directories without entries that may have temporary files.
const OTHER_DIRECTORIES: [&str; 3] = ["runs", "builds/tmp", "builds/packages"];

/// Directories that may have temporary files: whoever makes an entry begins beside its place.
fn temporary_directories() -> BTreeSet<&'static str> {
    PLACES.iter().map(|place| place.directory).chain(OTHER_DIRECTORIES).collect()
}

/// Bytes of all temporary files, in use or not.
pub(super) fn temporary_bytes(cache: &Path) -> u64 {
    let all = temporary_directories().into_iter().flat_map(|directory| below(cache, directory));
    let temporary = all.filter(|entry| {
        let name = entry.file_name();
        is_set_aside(&name) || is_scratch(&name) || is_written(entry)
    });
    temporary.map(|entry| size_on_disk(&entry.path()).unwrap_or_default()).sum()
}

/// Removes temporary files that nobody uses, and returns those that could not be removed.
pub(super) fn remove_left(cache: &Path) -> Vec<(PathBuf, io::Error)> {
    let mut failed = Vec::new();
    for directory in temporary_directories() {
        let entries = below(cache, directory);
        if entries.iter().any(|entry| is_scratch(&entry.file_name())) {
            remove_stale(&cache.join(directory));
        }
        for entry in entries {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if is_set_aside(&entry.file_name()) || is_written(&entry) && is_abandoned(&path) {
                failed.extend(remove_path(&path).err().map(|error| (path, error)));
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

fn remove_path(path: &Path) -> io::Result<()> {
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
    let lock = Lock::take(open_entry(path)?)?;
    if lock.is_of(path)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

const RECORD_DIRECTORIES: [&str; 2] = ["kernels/by-package", "builds/by-recipe"];

const RECORD_MAX: u64 = 4 << 10;

/// Part that every record has, which says which kernel a package or a build is.
#[derive(Deserialize)]
struct KernelRecord {
    image_sha256: String,
}

fn records(cache: &Path) -> impl Iterator<Item = (PathBuf, u64)> {
    let all = RECORD_DIRECTORIES.into_iter().flat_map(move |directory| below(cache, directory));
    all.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let path = entry.path();
        (path.extension()? == "json").then_some((path, metadata.blocks() * 512))
    })
}

/// Bytes of all records on the disk.
pub(super) fn record_bytes(cache: &Path) -> u64 {
    records(cache).map(|(_, bytes)| bytes).sum()
}

/// Removes the records of kernels that are gone, and returns their bytes.
pub(super) fn remove_dangling(cache: &Path) -> io::Result<u64> {
    let mut freed = 0;
    for (path, bytes) in records(cache) {
        let content = read_own(&path, RECORD_MAX).unwrap_or_default();
        let record: Option<KernelRecord> = serde_json::from_slice(&content).ok();
        let is_gone = |record: KernelRecord| {
            let kernel = cache.join("kernels").join(&record.image_sha256);
            is_sha256(&record.image_sha256) && !kernel.exists()
        };
        if record.is_some_and(is_gone) {
            fs::remove_file(&path)?;
            freed += bytes;
        }
    }
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_beside_any_entry_goes() {
        let cache = tempfile::tempdir().unwrap();
        let left: Vec<PathBuf> = PLACES
            .iter()
            .map(|place| cache.path().join(place.directory).join(".vm-killed"))
            .collect();
        for scratch in &left {
            fs::create_dir_all(scratch).unwrap();
            // The lock of a process that is gone is nobody's.
            fs::write(scratch.join("lock"), "").unwrap();
        }
        assert!(remove_left(cache.path()).is_empty());
        for scratch in left {
            assert!(!scratch.exists(), "{}", scratch.display());
        }
    }
}
