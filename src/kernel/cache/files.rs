//! Reads, hashes and sweeps files of the cache.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::kernel::limits::IMAGE_MAX;

/// Whether the file exists and its SHA-256 is `expected`.
pub(super) fn is_whole(image: &Path, expected: &str) -> bool {
    read_limited(image, IMAGE_MAX).is_ok_and(|bytes| sha256(&bytes) == expected)
}

/// The SHA-256 of `bytes`, as 64 hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Reads a whole file.
///
/// # Errors
/// If it cannot be read or has more than `limit` bytes.
pub(crate) fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len().min(limit);
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "file too large"));
    }
    Ok(bytes)
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
