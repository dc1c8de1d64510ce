//! Private directories for what must not outlive a VM, and the removal of those whose owner was
//! killed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::disk::Lock;

const PREFIX: &str = ".vm-";

/// A private directory in the cache, removed when dropped. Its lock tells a living owner from a
/// dead one.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: Lock,
}

impl Scratch {
    /// Makes one in `parent`, which must be on the filesystem that its files may be renamed to.
    pub fn create(parent: &Path) -> io::Result<Scratch> {
        fs::create_dir_all(parent)?;
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let lock = Lock::take(File::create(dir.path().join("lock"))?)?;
        Ok(Scratch { dir, _lock: lock })
    }

    /// A file of that name in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory, from now on kept.
    pub fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

/// Removes the directories in `parent` that a killed ktax left behind.
pub fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && !is_owned(&entry.path().join("lock")) {
            // Another ktax may be removing it as well; either will do.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// A directory without its lock file is one that is just being made, or was never finished: only
/// the first is worth keeping, and it is younger than a minute.
fn is_owned(lock: &Path) -> bool {
    let Ok(file) = File::open(lock) else {
        let dir = lock.parent().and_then(|dir| dir.metadata().ok());
        let age = dir.and_then(|dir| dir.modified().ok()).and_then(|time| time.elapsed().ok());
        return age.is_some_and(|age| age.as_secs() < 60);
    };
    Lock::take(file).is_err()
}
