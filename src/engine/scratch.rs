//! Private directories for files that must not outlive a VM, and the removal of those that a killed
//! ktax left.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::disk::Lock;

const PREFIX: &str = ".vm-";

/// A private directory in the cache, removed when dropped. Its lock shows whether the owner still
/// runs.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: Lock,
}

impl Scratch {
    /// Makes one in `parent`. Its files can be renamed only within the filesystem of `parent`.
    ///
    /// # Errors
    ///
    /// `parent` cannot be made or written.
    pub fn create(parent: &Path) -> io::Result<Scratch> {
        fs::create_dir_all(parent)?;
        let mut builder = tempfile::Builder::new();
        // It may be kept: of these the user's umask takes away.
        let usual = Permissions::from_mode(0o777);
        let dir = builder.prefix(PREFIX).permissions(usual).tempdir_in(parent)?;
        let lock = Lock::take(File::create(dir.path().join("lock"))?)?;
        Ok(Scratch { dir, _lock: lock })
    }

    /// The path of the file with this name in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Keeps the directory and returns its path.
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
            // Another ktax may be removing it at the same time.
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// A directory without its lock file is just being made, or was never finished. It counts as owned
/// while it is younger than a minute.
fn is_owned(lock: &Path) -> bool {
    let Ok(file) = File::open(lock) else {
        let dir = lock.parent().and_then(|dir| dir.metadata().ok());
        let age = dir.and_then(|dir| dir.modified().ok()).and_then(|time| time.elapsed().ok());
        return age.is_some_and(|age| age.as_secs() < 60);
    };
    Lock::take(file).is_err()
}
