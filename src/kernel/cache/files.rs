//! Reads, hashes and sweeps files of the cache.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::kernel::limits::IMAGE_MAX;

/// Whether the file is there and of that SHA-256.
pub(super) fn is_whole(image: &Path, expected: &str) -> bool {
    read_limited(image, IMAGE_MAX).is_ok_and(|bytes| sha256(&bytes) == expected)
}

/// The SHA-256 of `bytes`, as 64 hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Reads a file of at most `limit` bytes.
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

/// Removes what a killed process has left in `tmp` a day ago or more; a failure costs only space.
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
