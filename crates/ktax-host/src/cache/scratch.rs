//! Private directories for files that must not outlive a VM, and the removal of those that a killed
//! ktax left.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind::NotFound, ErrorKind::WouldBlock};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::disk::{Lock, lock_file};

const PREFIX: &str = ".vm-";
const LOCK: &str = "lock";

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
        loop {
            let mut builder = tempfile::Builder::new();
            // It may be kept: of these the user's umask takes away.
            let usual = Permissions::from_mode(0o777);
            let dir = builder.prefix(PREFIX).permissions(usual).tempdir_in(parent)?;
            let place = dir.path().join(LOCK);
            match lock_file(&place).and_then(Lock::take) {
                Ok(lock) if place.exists() => return Ok(Scratch { dir, _lock: lock }),
                // Another ktax removed it before it was locked.
                Ok(_) => {}
                Err(error) if [WouldBlock, NotFound].contains(&error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The path of the file with this name in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Keeps the directory and returns its path.
    pub fn keep(self) -> PathBuf {
        self.dir.keep()
    }
}

/// Removes the directories in `parent` that a killed ktax left behind.
pub fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for dir in entries.flatten().filter(|it| is_scratch(&it.file_name())).map(|it| it.path()) {
        // Another ktax may be removing it at the same time.
        let remove = || drop(fs::remove_dir_all(&dir));
        match File::open(dir.join(LOCK)).map(Lock::take) {
            // Held meanwhile: the one that is just making it cannot take it for its own.
            Ok(Ok(_held)) => remove(),
            Ok(Err(_)) => {}
            Err(_) if is_young(&dir) => {}
            Err(_) => remove(),
        }
    }
}

/// Whether a directory has the name of one of these.
pub(super) fn is_scratch(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

/// A directory without its lock file is just being made, or was never finished: it is younger than
/// a minute, or not.
fn is_young(dir: &Path) -> bool {
    let modified = dir.metadata().and_then(|dir| dir.modified());
    let age = modified.ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age.as_secs() < 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_just_being_made_is_not_taken_for_stale() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        remove_stale(parent.path());
                        let scratch = Scratch::create(parent.path()).unwrap();
                        remove_stale(parent.path());
                        fs::write(scratch.file("a"), "").unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    /// Others may read what the user's umask lets them read: as in a directory that `mkdir` makes.
    #[test]
    fn a_kept_directory_is_made_with_the_users_umask() {
        let parent = tempfile::tempdir().unwrap();
        let usual = parent.path().join("usual");
        fs::create_dir(&usual).unwrap();
        let kept = Scratch::create(parent.path()).unwrap().keep();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&kept), mode(&usual));
    }

    #[test]
    fn what_a_killed_ktax_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let [left, making] = [".vm-left", ".vm-making"].map(|name| parent.path().join(name));
        for dir in [&left, &making] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(left.join(LOCK), "").unwrap();
        let scratch = Scratch::create(parent.path()).unwrap();
        remove_stale(parent.path());
        assert!(!left.exists() && making.exists() && scratch.file(LOCK).exists());
    }
}
