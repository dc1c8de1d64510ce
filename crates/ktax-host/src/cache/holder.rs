//! Use of the cache: locks on entries, and private directories for the files of a VM, also those
//! that a killed ktax left behind.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::io::ErrorKind::{NotFound, WouldBlock};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use std::{fs, io};

use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use crate::disk::{Lock, lock_file};

/// Use of an entry: the cleaner does not remove the entry until this value is dropped.
#[derive(Debug)]
pub struct Holder {
    /// A shared lock. `None` on a filesystem without locks, where the cleaner removes nothing.
    _lock: Option<Lock>,
}

impl Holder {
    /// Marks the entry at this path as used; `None` if there is no entry.
    pub fn hold(path: &Path) -> io::Result<Option<Holder>> {
        loop {
            let file = match open_entry(path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let Ok(lock) = Lock::wait_to_share(file) else {
                touch(path);
                return Ok(Some(Holder { _lock: None }));
            };
            // A cleaner may have moved the entry away before it was locked.
            if lock.is_file_at(path)? {
                touch(path);
                return Ok(Some(Holder { _lock: Some(lock) }));
            }
        }
    }

    /// Marks the directory at this path as used, and creates it if it does not exist.
    pub fn hold_directory(path: &Path) -> io::Result<Holder> {
        loop {
            fs::create_dir_all(path)?;
            if let Some(holder) = Holder::hold(path)? {
                return Ok(holder);
            }
        }
    }
}

/// The entries that a command uses until it ends.
#[derive(Debug, Default)]
pub struct Holders(Mutex<BTreeMap<PathBuf, Holder>>);

impl Holders {
    /// Marks the entry at this path as used. Returns whether the entry exists.
    pub fn hold(&self, path: &Path) -> io::Result<bool> {
        let Some(holder) = Holder::hold(path)? else { return Ok(false) };
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(path.to_owned(), holder);
        Ok(true)
    }

    /// Releases all entries.
    pub fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Opens an entry to lock it. Does not follow a symbolic link, and does not block on a FIFO.
pub(super) fn open_entry(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Sets the time of an entry's last use to now. Ignores errors, such as for an entry of another
/// user: such an entry is only removed earlier.
pub fn touch(path: &Path) {
    drop(open_entry(path).and_then(|file| file.set_modified(SystemTime::now())));
}

/// The first characters in the name of a private directory.
const SCRATCH_PREFIX: &str = ".vm-";
const LOCK_NAME: &str = "lock";

/// A private directory in the cache, which is removed when this value is dropped. Its lock shows
/// whether the process that made it still runs.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: Lock,
}

impl Scratch {
    /// Creates a directory in `parent`, which must be on the filesystem that its files are to be
    /// renamed to.
    pub fn create(parent: &Path) -> io::Result<Scratch> {
        fs::create_dir_all(parent)?;
        loop {
            let mut builder = tempfile::Builder::new();
            // A directory that is kept has the permissions that the user's umask leaves.
            let usual = Permissions::from_mode(0o777);
            let dir = builder.prefix(SCRATCH_PREFIX).permissions(usual).tempdir_in(parent)?;
            let lock_path = dir.path().join(LOCK_NAME);
            match lock_file(&lock_path).and_then(Lock::take) {
                Ok(lock) if lock_path.exists() => return Ok(Scratch { dir, _lock: lock }),
                // Another ktax has removed the directory before it was locked.
                Ok(_) => {}
                Err(error) if [WouldBlock, NotFound].contains(&error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

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
    for dir in
        entries.flatten().filter(|entry| is_scratch(&entry.file_name())).map(|entry| entry.path())
    {
        // Ignore errors: another ktax may remove the directory at the same time.
        let remove = || drop(fs::remove_dir_all(&dir));
        match File::open(dir.join(LOCK_NAME)).map(Lock::take) {
            // Hold the lock during the removal, so that a process that has just created the
            // directory cannot lock it.
            Ok(Ok(_held)) => remove(),
            Ok(Err(_)) => {}
            Err(_) if is_young(&dir) => {}
            Err(_) => remove(),
        }
    }
}

pub(super) fn is_scratch(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(SCRATCH_PREFIX.as_bytes())
}

/// Returns whether a directory is younger than a minute. A young directory without a lock file is
/// being created; the creation of an older one was interrupted.
fn is_young(dir: &Path) -> bool {
    let modified = dir.metadata().and_then(|dir| dir.modified());
    let age = modified.ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age.as_secs() < 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_in_use_cannot_be_locked_and_gets_a_new_time() {
        let dir = tempfile::tempdir().unwrap();
        let (entry, file) = (dir.path().join("entry"), dir.path().join("file"));
        assert!(Holder::hold(&entry).unwrap().is_none());
        fs::write(&file, "").unwrap();
        let holder = Holder::hold_directory(&entry).unwrap();
        for path in [&entry, &file] {
            open_entry(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            let holders = Holders::default();
            assert!(holders.hold(path).unwrap() && holders.hold(path).unwrap());
            Lock::take(open_entry(path).unwrap()).unwrap_err();
            assert!(path.metadata().unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH);
            holders.release();
        }
        Lock::take(open_entry(&file).unwrap()).unwrap();
        Lock::take(open_entry(&entry).unwrap()).unwrap_err();
        drop(holder);
        Lock::take(open_entry(&entry).unwrap()).unwrap();
    }

    #[test]
    fn a_directory_that_is_being_created_is_not_stale() {
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

    #[test]
    fn a_kept_directory_has_the_permissions_of_the_umask() {
        let parent = tempfile::tempdir().unwrap();
        let usual = parent.path().join("usual");
        fs::create_dir(&usual).unwrap();
        let scratch = Scratch::create(parent.path()).unwrap().keep();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&scratch), mode(&usual));
    }

    #[test]
    fn stale_directories_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let [left, making] = [".vm-left", ".vm-making"].map(|name| parent.path().join(name));
        for dir in [&left, &making] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(left.join(LOCK_NAME), "").unwrap();
        let scratch = Scratch::create(parent.path()).unwrap();
        remove_stale(parent.path());
        assert!(!left.exists() && making.exists() && scratch.file(LOCK_NAME).exists());
    }
}
