//! Who uses an entry of the cache.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags};

use crate::disk::Lock;

/// Somebody who uses an entry: the cleaner leaves it until this is dropped.
#[derive(Debug)]
pub struct Holder {
    /// Nothing on a filesystem without locks, on which the cleaner can remove nothing either.
    _lock: Option<Lock>,
}

impl Holder {
    /// Uses the entry at this path from now on; `None` if there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn of(path: &Path) -> io::Result<Option<Holder>> {
        loop {
            let file = match open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            let Ok(lock) = Lock::wait_to_share(file) else {
                touch(path);
                return Ok(Some(Holder { _lock: None }));
            };
            // A cleaner may have moved it away before it was locked.
            if lock.is_of(path)? {
                touch(path);
                return Ok(Some(Holder { _lock: Some(lock) }));
            }
        }
    }

    /// Uses the directory at this path from now on, and makes it if there is none.
    ///
    /// # Errors
    ///
    /// It cannot be made or read.
    pub fn of_directory(path: &Path) -> io::Result<Holder> {
        loop {
            fs::create_dir_all(path)?;
            if let Some(holder) = Holder::of(path)? {
                return Ok(holder);
            }
        }
    }
}

/// The entries that a command uses until its end, each once.
#[derive(Debug, Default)]
pub struct Holders(Mutex<BTreeMap<PathBuf, Holder>>);

impl Holders {
    /// Uses the entry at this path from now on. Whether there is one.
    ///
    /// # Errors
    ///
    /// As of [`Holder::of`].
    pub fn hold(&self, path: &Path) -> io::Result<bool> {
        let Some(holder) = Holder::of(path)? else { return Ok(false) };
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(path.to_owned(), holder);
        Ok(true)
    }

    /// Uses none of them any more.
    pub fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Opens an entry to lock it: a link is not followed, and a pipe does not block.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Records that an entry is used now. If that fails, because it is of another user, it only goes
/// earlier than it need.
pub fn touch(path: &Path) {
    drop(open(path).and_then(|file| file.set_modified(SystemTime::now())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_used_cannot_be_locked_and_its_time_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let (entry, file) = (dir.path().join("entry"), dir.path().join("file"));
        assert!(Holder::of(&entry).unwrap().is_none());
        fs::write(&file, "").unwrap();
        let made = Holder::of_directory(&entry).unwrap();
        for path in [&entry, &file] {
            open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
            let holders = Holders::default();
            assert!(holders.hold(path).unwrap() && holders.hold(path).unwrap());
            Lock::take(open(path).unwrap()).unwrap_err();
            assert!(path.metadata().unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH);
            holders.release();
        }
        Lock::take(open(&file).unwrap()).unwrap();
        Lock::take(open(&entry).unwrap()).unwrap_err();
        drop(made);
        Lock::take(open(&entry).unwrap()).unwrap();
    }
}
