//! Checks and removes files of the cache.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::disk::{read_limited, sha256};
use crate::kernel::limits::IMAGE_MAX;

/// Whether the file exists and its SHA-256 is `expected`.
pub(super) fn is_whole(image: &Path, expected: &str) -> bool {
    read_limited(image, IMAGE_MAX).is_ok_and(|bytes| sha256(bytes) == expected)
}

/// Whether `text` can be the result of `sha256`, and so is safe in a path.
pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Removes files in `tmp` that a killed process left a day ago or earlier. Ignores errors, which
/// cost only disk space.
pub(super) fn sweep(tmp: &Path) {
    const AGE: Duration = Duration::from_secs(24 * 60 * 60);
    let old = |entry: &fs::DirEntry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > AGE))
    };
    for entry in fs::read_dir(tmp).into_iter().flatten().filter_map(Result::ok).filter(old) {
        let path = entry.path();
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
}
