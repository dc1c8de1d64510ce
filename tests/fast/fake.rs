//! The driver against a fake engine: what is hard to provoke for real.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

mod disk;
mod failures;
pub mod guests;
mod programs;
pub mod scene;
pub mod timed;
mod timed_verdicts;

/// A directory that goes away with the test, in memory: each result is synced, and a disk makes
/// some thousand of them wait.
fn scratch() -> TempDir {
    match Path::new("/dev/shm") {
        memory if memory.is_dir() => tempfile::tempdir_in(memory).unwrap(),
        _ => crate::common::scratch(),
    }
}

/// Such a directory, and a path in it where nothing is yet.
fn scratch_path(name: &str) -> (TempDir, PathBuf) {
    crate::common::with_path(scratch(), name)
}
