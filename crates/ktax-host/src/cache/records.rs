//! Records, which say which kernel a package or a build is. They go with their kernels.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::entry::below;
use crate::disk::{is_sha256, read_own};

const DIRECTORIES: [&str; 2] = ["kernels/by-package", "builds/by-recipe"];

const RECORD_MAX: u64 = 4 << 10;

/// What every record has, whatever else it has.
#[derive(Deserialize)]
struct OfKernel {
    image_sha256: String,
}

fn records(cache: &Path) -> impl Iterator<Item = (PathBuf, u64)> {
    let all = DIRECTORIES.into_iter().flat_map(move |directory| below(cache, directory));
    all.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let path = entry.path();
        (path.extension()? == "json").then_some((path, metadata.blocks() * 512))
    })
}

/// What all of them take on the disk.
pub(super) fn record_bytes(cache: &Path) -> u64 {
    records(cache).map(|(_, bytes)| bytes).sum()
}

/// Removes the records of kernels that are gone, and returns what they took.
pub(super) fn remove_dangling(cache: &Path) -> io::Result<u64> {
    let mut freed = 0;
    for (path, bytes) in records(cache) {
        let content = read_own(&path, RECORD_MAX).unwrap_or_default();
        let of: Option<OfKernel> = serde_json::from_slice(&content).ok();
        let is_gone = |of: OfKernel| {
            let kernel = cache.join("kernels").join(&of.image_sha256);
            is_sha256(&of.image_sha256) && !kernel.exists()
        };
        if of.is_some_and(is_gone) {
            fs::remove_file(&path)?;
            freed += bytes;
        }
    }
    Ok(freed)
}
