use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// What a name begins with until its content is whole.
const UNFINISHED: &str = ".new-";

/// Writes a file so that after a crash its place holds the whole content or what was there before:
/// into an unguessable name beside it, synced, renamed, and the directory synced.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let (file, dir) = write_beside(path, content)?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

/// Whether it could be written now; nothing is changed.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(parent(path)).map(drop)
}

/// The directory of a file; the one of `name` alone is the current one.
fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// The same as [`write_atomically`], for a file that must not be there yet.
pub(super) fn write_new_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let (file, dir) = write_beside(path, content)?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    File::open(dir)?.sync_all()
}

fn write_beside<'a>(path: &'a Path, content: &[u8]) -> io::Result<(NamedTempFile, &'a Path)> {
    let dir = parent(path);
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(dir)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok((file, dir))
}

/// Whether a file of that name was never finished.
pub(super) fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
}

/// Removes what a killed writer left in `dir`; nobody else may be writing there.
pub fn remove_unfinished(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if is_unfinished(&entry.file_name()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
