use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first characters of the name of a directory that holds what is to be removed.
const ASIDE: &str = ".gone-";

/// Whoever writes a temporary file is done sooner.
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
///
/// # Errors
///
/// The directory that it is in cannot be written.
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

/// Whether a directory has the name of one that [`set_aside`] made.
pub fn is_set_aside(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(ASIDE.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

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
