//! Checks and removes files of the cache.

use std::fs;
use std::path::Path;

use crate::limits::IMAGE_MAX;
use ktax_host::disk::{is_abandoned, read_own, sha256};

/// Whether the file exists and its SHA-256 is `expected`.
pub(super) fn is_whole(image: &Path, expected: &str) -> bool {
    read_own(image, IMAGE_MAX).is_ok_and(|bytes| sha256(bytes) == expected)
}

/// Removes files in `tmp` that a killed process left a day ago or earlier. Ignores errors, which
/// cost only disk space.
pub(super) fn sweep(tmp: &Path) {
    let old = |entry: &fs::DirEntry| is_abandoned(&entry.path());
    for entry in fs::read_dir(tmp).into_iter().flatten().filter_map(Result::ok).filter(old) {
        let path = entry.path();
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
}
