//! Files: written and removed so that a crash leaves none half, locked, read up to a limit and by
//! all CPUs, hashed.

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

/// Unpacks a program that is part of ktax, as its build has packed it.
pub fn unpack(packed: &[u8]) -> Vec<u8> {
    let mut program = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut program).expect("the build packed it with zlib");
    program
}

/// The first characters of a file's name until its content is complete.
const UNFINISHED: &str = ".new-";

/// Writes a file so that after a crash it holds either the whole content or what was there before.
///
/// The content goes into a file with an unguessable name beside it, which is synced and renamed;
/// then the directory is synced.
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

/// The directory of a file. A name without a directory is in the current one.
fn parent_directory(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes a file as [`write_atomically`] does; `AlreadyExists` where there is such a file.
pub fn write_new_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = parent_directory(path);
    let file = write_temporary(dir, content, None)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// Writes a file that is never changed again, unless it exists. Returns whether it was new.
pub fn write_once(path: &Path, content: &[u8]) -> io::Result<bool> {
    match write_new_atomically(path, content) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a file as [`write_atomically`] does, but read-only and with the unfinished file in
/// `scratch`, a directory on the same filesystem. The caller removes what a killed process leaves
/// there.
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
    // The user's umask takes some of these away; without them the file would be for its owner
    // alone.
    let usual = Permissions::from_mode(0o666);
    let mut file = builder.prefix(UNFINISHED).permissions(usual).tempfile_in(dir)?;
    file.write_all(content)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

pub fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// Removes the unfinished files that a killed writer left in `dir`. Take a lock first: another
/// process that is writing there loses its file.
pub fn remove_unfinished(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if is_unfinished(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The first characters of the name of a directory that holds what is to be removed.
const ASIDE: &str = ".gone-";

/// Longest time to write a temporary file.
const WRITTEN_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns whether a temporary file or directory was written so long ago that a killed process must
/// have left it. A link is looked at itself.
pub fn is_abandoned(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > WRITTEN_WITHIN))
}

/// Moves a file or a directory into a new directory beside it, whose path is returned: to remove
/// something large takes a while, and a crash in between must not leave a part of it that looks
/// whole. Remove the new directory then. Whoever finds one later may remove it too.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(rustix::io::Errno::INVAL.into());
    };
    let aside = tempfile::Builder::new().prefix(ASIDE).tempdir_in(parent)?;
    fs::rename(path, aside.path().join(name))?;
    Ok(aside.keep())
}

/// Moves a file or a directory to a name that nobody has; of two that move the same one moves it.
/// `AlreadyExists`: somebody has the name; `NotFound`: the file is gone.
pub fn move_to_free(from: &Path, to: &Path) -> io::Result<()> {
    // The name is taken first: to rename over a file would remove that. A directory takes the
    // place of an empty directory alone.
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
    name.as_encoded_bytes().starts_with(ASIDE.as_bytes())
}

/// Gives each CPU a part of `items`, and returns the results of the parts in their order. Reading
/// many files is slow enough for this, as they are unpacked and parsed, too.
pub fn in_parts<T: Send, R: Send>(items: &mut [T], part: impl Fn(&mut [T]) -> R + Sync) -> Vec<R> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let most = items.len().div_ceil(cpus).max(1);
    let part = &part;
    thread::scope(|scope| {
        let parts: Vec<_> =
            items.chunks_mut(most).map(|chunk| scope.spawn(move || part(chunk))).collect();
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
    /// Takes the lock for this process alone; `WouldBlock` if another process holds it.
    pub fn take(file: File) -> io::Result<Lock> {
        Lock::by(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes the lock together with other readers; `WouldBlock` if a process holds it alone.
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
            if lock.is_file_at(path)? {
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

    /// Returns whether the locked file is the one at this path now.
    pub fn is_file_at(&self, path: &Path) -> io::Result<bool> {
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

    #[test]
    fn a_file_has_the_permissions_that_any_other_has_here() {
        let dir = tempfile::tempdir().unwrap();
        let [usual, ours, new] = ["usual", "ours", "new"].map(|name| dir.path().join(name));
        fs::write(&usual, "").unwrap();
        write_atomically(&ours, b"").unwrap();
        write_new_atomically(&new, b"").unwrap();
        let mode = |path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!([mode(&ours), mode(&new)], [mode(&usual); 2]);
    }

    #[test]
    fn what_is_set_aside_is_whole_and_under_another_name() {
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
    fn one_holds_it_or_many_share_it() {
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
