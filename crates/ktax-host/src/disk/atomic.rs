use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// The first characters of a file's name until its content is complete.
const UNFINISHED: &str = ".new-";

/// Writes a file so that after a crash it holds either the whole content or what was there before.
///
/// The content goes into a file with an unguessable name beside it, which is synced and renamed;
/// then the directory is synced.
///
/// # Errors
///
/// The directory cannot be written, or the disk is full.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let (file, dir) = write_beside(path, content)?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// Checks that a file could be written now. Changes nothing.
///
/// # Errors
///
/// `path` is a directory, or the directory that it is in cannot be written.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(parent(path)).map(drop)
}

/// The directory of a file. A name without a directory is in the current one.
fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Writes a file as [`write_atomically`] does, if it does not exist yet.
///
/// # Errors
///
/// As of [`write_atomically`]; `AlreadyExists` where there is such a file.
pub fn write_new_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let (file, dir) = write_beside(path, content)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// The same of a file that is never changed again: whether it was new.
///
/// # Errors
///
/// As of [`write_atomically`].
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
///
/// # Errors
///
/// One of the directories cannot be written, or the disk is full.
pub fn write_read_only(path: &Path, content: &[u8], scratch: &Path) -> io::Result<()> {
    let file = write_in(scratch, content, Some(Permissions::from_mode(0o444)))?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(parent(path))?.sync_all()
}

fn write_beside<'a>(path: &'a Path, content: &[u8]) -> io::Result<(NamedTempFile, &'a Path)> {
    let dir = parent(path);
    Ok((write_in(dir, content, None)?, dir))
}

fn write_in(
    dir: &Path,
    content: &[u8],
    permissions: Option<Permissions>,
) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    // Of these the user's umask takes away; without them the file would be for its owner alone.
    let usual = Permissions::from_mode(0o666);
    let mut file = builder.prefix(UNFINISHED).permissions(usual).tempfile_in(dir)?;
    file.write_all(content)?;
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

/// Whether a file has the name of one that was never finished.
pub fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// Removes the unfinished files that a killed writer left in `dir`. Take a lock first: another
/// process that is writing there loses its file.
///
/// # Errors
///
/// `dir` cannot be read or written.
pub fn remove_unfinished(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if is_unfinished(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
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
}
