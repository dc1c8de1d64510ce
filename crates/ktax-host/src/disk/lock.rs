//! Locks on files (`flock`).

use std::fs::{File, symlink_metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use super::read::lock_file;

/// A lock on a file (`flock`), held until dropped. The kernel releases it if the process dies.
#[derive(Debug)]
pub struct Lock {
    file: File,
    is_inherited: bool,
}

impl Lock {
    /// Takes the lock for this process alone.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: another process holds it.
    pub fn take(file: File) -> io::Result<Lock> {
        Lock::by(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes the lock together with other readers.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: a process holds it for itself alone.
    pub fn share(file: File) -> io::Result<Lock> {
        Lock::by(file, FlockOperation::NonBlockingLockShared)
    }

    /// Takes the lock for this process alone, and waits for it. It asks again after each `pause`,
    /// so that `is_cancelled` is seen; then the answer is `None`.
    pub fn wait(
        file: File,
        pause: Duration,
        is_cancelled: impl Fn() -> bool,
    ) -> io::Result<Option<Lock>> {
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Lock { file, is_inherited: false })),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if is_cancelled() => return Ok(None),
                Err(_) => std::thread::sleep(pause),
            }
        }
    }

    /// Makes a lock file and waits for its lock as [`Lock::wait`] does. A process that removes lock
    /// files while it holds them may remove this one meanwhile: then another one is made.
    pub fn wait_at(
        path: &Path,
        pause: Duration,
        is_cancelled: impl Fn() -> bool,
    ) -> io::Result<Option<Lock>> {
        loop {
            let waited = Lock::wait(lock_file(path)?, pause, &is_cancelled)?;
            let Some(lock) = waited else { return Ok(None) };
            if lock.is_of(path)? {
                return Ok(Some(lock));
            }
        }
    }

    /// Takes the lock together with other readers, and waits for one who has it alone. Only for
    /// locks that nobody has alone for long.
    pub fn wait_to_share(file: File) -> io::Result<Lock> {
        loop {
            match flock(&file, FlockOperation::LockShared) {
                Ok(()) => return Ok(Lock { file, is_inherited: false }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether the locked file is the one at this path now.
    pub fn is_of(&self, path: &Path) -> io::Result<bool> {
        let locked = self.file.metadata()?;
        match symlink_metadata(path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (locked.dev(), locked.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets the programs that are started from now on hold the lock too. The last process that has
    /// it releases it: dropping it here is not enough any more.
    pub fn inherit(&mut self) -> io::Result<()> {
        fcntl_setfd(&self.file, FdFlags::empty())?;
        self.is_inherited = true;
        Ok(())
    }

    fn by(file: File, operation: FlockOperation) -> io::Result<Lock> {
        flock(&file, operation)?;
        Ok(Lock { file, is_inherited: false })
    }
}

impl AsFd for Lock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Lock {
    /// Closing the file is not enough. A process that another thread is just starting has a copy of
    /// the descriptor until it executes its program, and would hold the lock until then.
    fn drop(&mut self) {
        if !self.is_inherited {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn place() -> (tempfile::TempDir, impl Fn() -> File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        (dir, move || File::create(&path).unwrap())
    }

    #[test]
    fn one_holds_it_or_many_share_it() {
        let (_dir, file) = place();
        let held = Lock::take(file()).unwrap();
        assert_eq!(Lock::take(file()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(Lock::share(file()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        let shared = [Lock::share(file()).unwrap(), Lock::share(file()).unwrap()];
        Lock::take(file()).unwrap_err();
        drop(shared);
        Lock::take(file()).unwrap();
    }

    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_a_dropped_lock() {
        let (_dir, file) = place();
        let original = file();
        let copy = original.try_clone().unwrap();
        drop(Lock::take(original).unwrap());
        Lock::take(file()).unwrap();
        drop(copy);
    }

    #[test]
    fn an_inherited_lock_is_held_until_its_last_holder_is_gone() {
        let (_dir, file) = place();
        let original = file();
        let childs_copy = original.try_clone().unwrap();
        let mut lock = Lock::take(original).unwrap();
        lock.inherit().unwrap();
        drop(lock);
        Lock::take(file()).unwrap_err();
        drop(childs_copy);
        Lock::take(file()).unwrap();
    }

    #[test]
    fn a_lock_file_that_is_removed_meanwhile_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, pause) = (dir.path().join("lock"), Duration::from_millis(1));
        let cleaner = Lock::take(File::create(&path).unwrap()).unwrap();
        let waits = AtomicBool::new(false);
        let is_cancelled = || {
            waits.store(true, Ordering::Relaxed);
            false
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::wait_at(&path, pause, is_cancelled).unwrap());
            while !waits.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            std::fs::remove_file(&path).unwrap();
            assert!(!cleaner.is_of(&path).unwrap());
            drop(cleaner);
            let lock = waiting.join().unwrap().unwrap();
            assert!(lock.is_of(&path).unwrap());
            Lock::take(File::open(&path).unwrap()).unwrap_err();
        });
    }

    #[test]
    fn a_wait_ends_with_the_lock_or_when_cancelled() {
        let (_dir, file) = place();
        let pause = Duration::from_millis(1);
        let held = Lock::take(file()).unwrap();
        assert!(Lock::wait(file(), pause, || true).unwrap().is_none());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Lock::wait(file(), pause, || false).unwrap().is_some());
            drop(held);
            assert!(waiting.join().unwrap());
        });
    }
}
