//! Files: writes and removes that a crash does not leave half done, locks, reads up to a limit, and
//! hashes.

mod read;

use std::ffi::OsStr;
use std::fs::{File, Permissions, symlink_metadata};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use flate2::read::ZlibDecoder;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use tempfile::NamedTempFile;

pub use read::{
    is_not_regular, is_sha256, lock_file, read_limited, read_own, read_own_text, read_text,
    read_up_to, sha256, sha256_base64, sha256_of_file, sha256_of_parts, sha256_of_sparse_file,
};

/// Unpacks a program that is part of ktax. The build of ktax has packed it.
pub fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut program = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut program).expect("the build packed it with zlib");
    program
}

/// The first characters in the name of a file that is being written.
const UNFINISHED: &str = ".new-";

/// Writes a file so that after a crash it has either the new content or the old content.
///
/// The content goes into a file with an unguessable name in the same directory. That file is synced
/// and renamed; then the directory is synced.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = parent_directory(path);
    let file = write_temporary(dir, content, None)?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// Checks that a file could be written now. Changes nothing.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(parent_directory(path)).map(drop)
}

/// Returns the directory of a file: the current directory for a path without one.
fn parent_directory(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes a file as [`write_atomically`] does. The error is `AlreadyExists` if the file exists.
pub fn write_new_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = parent_directory(path);
    let file = write_temporary(dir, content, None)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// Writes a file unless it exists. Returns whether it was written.
pub fn write_once(path: &Path, content: &[u8]) -> io::Result<bool> {
    match write_new_atomically(path, content) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a file as [`write_atomically`] does, but read-only and with the unfinished file in
/// `scratch`, a directory on the same filesystem. The caller removes unfinished files of killed
/// processes from `scratch`.
pub fn write_read_only(path: &Path, content: &[u8], scratch: &Path) -> io::Result<()> {
    let file = write_temporary(scratch, content, Some(Permissions::from_mode(0o444)))?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(parent_directory(path))?.sync_all()
}

fn write_temporary(
    dir: &Path,
    content: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // The permissions of any new file, which the user's umask reduces. The default of the crate
    // `tempfile` is that only the owner may read a file.
    let usual = Permissions::from_mode(0o666);
    let mut file = builder.prefix(UNFINISHED).permissions(usual).tempfile_in(dir)?;
    file.write_all(content)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

/// Returns whether this is the name of a file that is being written.
pub fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// Removes the unfinished files that a killed writer left in `dir`. Take a lock first: a file that
/// another process is writing there is removed, too.
pub fn remove_unfinished(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if is_unfinished(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The first characters in the name of a directory whose content is being removed.
const ASIDE_PREFIX: &str = ".gone-";

/// Age at which a temporary file is abandoned: no process writes one for so long.
const ABANDONED_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns whether a temporary file or directory is so old that a killed process must have left it.
/// Does not follow a symbolic link.
pub fn is_abandoned(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > ABANDONED_AGE))
}

/// Moves a file or a directory into a new directory with the same parent, and returns the path of
/// the new directory, which the caller then removes. To remove a large directory takes a while, and
/// a crash during that must not leave an incomplete one under the old name. Any process may remove
/// a directory that [`is_set_aside`].
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(rustix::io::Errno::INVAL.into());
    };
    let aside = tempfile::Builder::new().prefix(ASIDE_PREFIX).tempdir_in(parent)?;
    fs::rename(path, aside.path().join(name))?;
    Ok(aside.keep())
}

/// Moves a file or a directory to a path that does not exist. Of several processes that move the
/// same file, one succeeds. The error is `AlreadyExists` if `to` exists, `NotFound` if `from` does
/// not.
pub fn move_without_replacing(from: &Path, to: &Path) -> io::Result<()> {
    // Create the target first: a rename would replace an existing file. A directory can replace
    // only an empty directory.
    match fs::symlink_metadata(from)?.is_dir() {
        true => fs::create_dir(to)?,
        false => fs::File::create_new(to).map(drop)?,
    }
    fs::rename(from, to).inspect_err(|_| {
        let _ = fs::remove_file(to).or_else(|_| fs::remove_dir(to));
    })
}

/// Returns whether this is the name of a directory that [`set_aside`] made.
pub fn is_set_aside(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(ASIDE_PREFIX.as_bytes())
}

/// Splits `items` into a part for each CPU, calls `process` on all parts at once, and returns the
/// results in the order of the parts. Threads are worth their cost for items that are files to
/// unpack and parse.
pub fn map_parts<T: Send, R: Send>(
    items: &mut [T],
    process: impl Fn(&mut [T]) -> R + Sync,
) -> Vec<R> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let part_length = items.len().div_ceil(cpus).max(1);
    let process = &process;
    thread::scope(|scope| {
        let parts: Vec<_> =
            items.chunks_mut(part_length).map(|part| scope.spawn(move || process(part))).collect();
        parts.into_iter().map(|thread| thread.join().expect("a part does not panic")).collect()
    })
}

/// A lock on a file (`flock`), held until dropped. The kernel releases it if the process dies.
#[derive(Debug)]
pub struct Lock {
    file: File,
    is_inherited: bool,
}

impl Lock {
    /// Takes an exclusive lock. The error is `WouldBlock` if another process holds a lock.
    pub fn take(file: File) -> io::Result<Lock> {
        Lock::try_lock(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock. The error is `WouldBlock` if another process holds an exclusive lock.
    pub fn share(file: File) -> io::Result<Lock> {
        Lock::try_lock(file, FlockOperation::NonBlockingLockShared)
    }

    /// Waits for an exclusive lock, with an attempt after each `pause`; `None` once `is_cancelled`.
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

    /// Creates a lock file and waits for its lock as [`Lock::wait`] does. If a cleaner removes the
    /// lock file meanwhile, this creates a new one.
    pub fn wait_at(
        path: &Path,
        pause: Duration,
        is_cancelled: impl Fn() -> bool,
    ) -> io::Result<Option<Lock>> {
        loop {
            let waited = Lock::wait(lock_file(path)?, pause, &is_cancelled)?;
            let Some(lock) = waited else { return Ok(None) };
            if lock.is_file_at(path)? {
                return Ok(Some(lock));
            }
        }
    }

    /// Waits for a shared lock. Cannot be cancelled, so use it only if no process holds an
    /// exclusive lock for long.
    pub fn wait_to_share(file: File) -> io::Result<Lock> {
        loop {
            match flock(&file, FlockOperation::LockShared) {
                Ok(()) => return Ok(Lock { file, is_inherited: false }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns whether the file at this path is still the locked file.
    pub fn is_file_at(&self, path: &Path) -> io::Result<bool> {
        let locked = self.file.metadata()?;
        match symlink_metadata(path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (locked.dev(), locked.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets all programs that ktax starts from now on hold the lock, too. The lock is then held
    /// until the last of these processes has ended, even after it was dropped here.
    pub fn inherit(&mut self) -> io::Result<()> {
        fcntl_setfd(&self.file, FdFlags::empty())?;
        self.is_inherited = true;
        Ok(())
    }

    fn try_lock(file: File, operation: FlockOperation) -> io::Result<Lock> {
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
    /// Unlocks the file, because it is not enough to close it: a process that another thread has
    /// just forked has a copy of the descriptor, and would hold the lock until its exec.
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

    #[test]
    fn a_written_file_has_the_usual_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let [usual, ours, new] = ["usual", "ours", "new"].map(|name| dir.path().join(name));
        fs::write(&usual, "").unwrap();
        write_atomically(&ours, b"").unwrap();
        write_new_atomically(&new, b"").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!([mode(&ours), mode(&new)], [mode(&usual); 2]);
    }

    #[test]
    fn a_directory_that_is_set_aside_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join("entry");
        fs::create_dir(&entry).unwrap();
        fs::write(entry.join("file"), "content").unwrap();
        let aside = set_aside(&entry).unwrap();
        assert!(!entry.exists() && is_set_aside(aside.file_name().unwrap()));
        assert_eq!(fs::read(aside.join("entry/file")).unwrap(), b"content");
        // A missing entry leaves no directory behind.
        set_aside(&entry).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    fn lock_files() -> (tempfile::TempDir, impl Fn() -> File) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        (dir, move || File::create(&path).unwrap())
    }

    #[test]
    fn a_lock_is_exclusive_or_shared() {
        let (_dir, file) = lock_files();
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
        let (_dir, file) = lock_files();
        let original = file();
        let copy = original.try_clone().unwrap();
        drop(Lock::take(original).unwrap());
        Lock::take(file()).unwrap();
        drop(copy);
    }

    #[test]
    fn an_inherited_lock_is_held_until_its_last_holder_is_gone() {
        let (_dir, file) = lock_files();
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
    fn a_lock_file_that_is_removed_meanwhile_is_created_again() {
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
            assert!(!cleaner.is_file_at(&path).unwrap());
            drop(cleaner);
            let lock = waiting.join().unwrap().unwrap();
            assert!(lock.is_file_at(&path).unwrap());
            Lock::take(File::open(&path).unwrap()).unwrap_err();
        });
    }

    #[test]
    fn a_wait_ends_with_the_lock_or_when_cancelled() {
        let (_dir, file) = lock_files();
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
