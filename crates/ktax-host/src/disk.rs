//! Files: written and removed so that a crash leaves none half, locked, read up to a limit and by
//! all CPUs, hashed.

mod lock;
mod read;

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use tempfile::NamedTempFile;

pub use lock::Lock;
pub use read::{
    is_not_regular, is_sha256, lock_file, read_limited, read_own, read_own_text, read_text,
    read_up_to, sha256, sha256_base64, sha256_of_file, sha256_of_parts, sha256_of_sparse_file,
};

/// The first characters of a file's name until its content is complete.
const UNFINISHED: &str = ".new-";

/// Writes a file so that after a crash it holds either the whole content or what was there before.
///
/// The content goes into a file with an unguessable name beside it, which is synced and renamed;
/// then the directory is synced.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let (file, dir) = write_beside(path, content)?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// Checks that a file could be written now. Changes nothing.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(directory_of(path)).map(drop)
}

/// The directory of a file. A name without a directory is in the current one.
fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes a file as [`write_atomically`] does, if it does not exist yet.
///
/// # Errors
///
/// `AlreadyExists` where there is such a file.
pub fn write_new_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let (file, dir) = write_beside(path, content)?;
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
    File::open(directory_of(path))?.sync_all()
}

fn write_beside<'a>(path: &'a Path, content: &[u8]) -> io::Result<(NamedTempFile, &'a Path)> {
    let dir = directory_of(path);
    Ok((write_temporary(dir, content, None)?, dir))
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

/// Whether this is the name of a file that was never finished.
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

/// Whether a temporary file or directory was written so long ago that a killed process must have
/// left it. A link is looked at itself.
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
///
/// # Errors
///
/// `AlreadyExists`: somebody has the name; `NotFound`: the file is gone. Or a directory cannot be
/// written.
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

/// Whether this is the name of a directory that [`set_aside`] made.
pub fn is_set_aside(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(ASIDE.as_bytes())
}

/// Gives each CPU a part of `all`, and returns the results of the parts in their order. Reading
/// many files is slow enough for this, as they are unpacked and parsed, too.
pub fn in_parts<T: Send, R: Send>(all: &mut [T], part: impl Fn(&mut [T]) -> R + Sync) -> Vec<R> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let most = all.len().div_ceil(cpus).max(1);
    let part = &part;
    thread::scope(|scope| {
        let parts: Vec<_> =
            all.chunks_mut(most).map(|chunk| scope.spawn(move || part(chunk))).collect();
        parts.into_iter().map(|thread| thread.join().expect("a part does not panic")).collect()
    })
}

#[cfg(test)]
mod tests {
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
        // What is not there leaves no directory behind.
        set_aside(&entry).unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
