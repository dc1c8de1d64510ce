//! Use of the cache: locks on entries, and private directories for files that must not outlive a
//! VM. Removes those that a killed ktax left.

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

/// Use of an entry: the cleaner leaves it until this is dropped.
#[derive(Debug)]
pub struct Holder {
    /// `None` on a filesystem without locks, on which the cleaner can remove nothing either.
    _lock: Option<Lock>,
}

impl Holder {
    /// Uses the entry at this path from now on; `None` if there is none.
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
            // A cleaner may have moved it away before it was locked.
            if lock.is_file_at(path)? {
                touch(path);
                return Ok(Some(Holder { _lock: Some(lock) }));
            }
        }
    }

    /// Uses the directory at this path from now on, and makes it if there is none.
    pub fn hold_directory(path: &Path) -> io::Result<Holder> {
        loop {
            fs::create_dir_all(path)?;
            if let Some(holder) = Holder::hold(path)? {
                return Ok(holder);
            }
        }
    }
}

/// The entries that a command uses until its end, each once.
#[derive(Debug, Default)]
pub struct Holders(Mutex<BTreeMap<PathBuf, Holder>>);

impl Holders {
    /// Uses the entry at this path from now on. Returns whether there is one.
    pub fn hold(&self, path: &Path) -> io::Result<bool> {
        let Some(holder) = Holder::hold(path)? else { return Ok(false) };
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(path.to_owned(), holder);
        Ok(true)
    }

    pub fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Opens an entry to lock it: a link is not followed, and a pipe does not block.
pub(super) fn open_entry(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Records that an entry is used now. If that fails, because it is of another user, it only goes
/// earlier than it need.
pub fn touch(path: &Path) {
    drop(open_entry(path).and_then(|file| file.set_modified(SystemTime::now())));
}

const SCRATCH_PREFIX: &str = ".vm-";
const LOCK_NAME: &str = "lock";

/// A private directory in the cache, removed when dropped. Its lock shows whether the owner still
/// runs.
#[derive(Debug)]
pub struct Scratch {
    dir: TempDir,
    _lock: Lock,
}

impl Scratch {
    /// Makes a directory in `parent`. Its files can be renamed only within the filesystem of
    /// `parent`.
    pub fn create(parent: &Path) -> io::Result<Scratch> {
        fs::create_dir_all(parent)?;
        loop {
            let mut builder = tempfile::Builder::new();
            // The directory may be kept: the user's umask takes some of these away.
            let usual = Permissions::from_mode(0o777);
            let dir = builder.prefix(SCRATCH_PREFIX).permissions(usual).tempdir_in(parent)?;
            let lock_path = dir.path().join(LOCK_NAME);
            match lock_file(&lock_path).and_then(Lock::take) {
                Ok(lock) if lock_path.exists() => return Ok(Scratch { dir, _lock: lock }),
                // Another ktax removed it before it was locked.
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
        // Another ktax may be removing it at the same time.
        let remove = || drop(fs::remove_dir_all(&dir));
        match File::open(dir.join(LOCK_NAME)).map(Lock::take) {
            // The lock is held during removal: a process that just made the directory cannot take
            // it.
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
    fn an_entry_that_is_used_cannot_be_locked_and_its_time_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let (entry, file) = (dir.path().join("entry"), dir.path().join("file"));
        assert!(Holder::hold(&entry).unwrap().is_none());
        fs::write(&file, "").unwrap();
        let made = Holder::hold_directory(&entry).unwrap();
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
        drop(made);
        Lock::take(open_entry(&entry).unwrap()).unwrap();
    }

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
        let scratch = Scratch::create(parent.path()).unwrap().keep();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&scratch), mode(&usual));
    }

    #[test]
    fn what_a_killed_ktax_left_is_removed() {
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
