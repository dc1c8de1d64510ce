//! Initramfs files in the cache, where QEMU reads them, also when a host is booted by hand.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::disk::{is_unfinished, sha256, write_atomically};

/// How long after its last use a file may be wanted again.
const KEPT: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Puts an archive into the cache, named by its hash, and removes those that are long unused.
pub(super) fn keep(cache: &Path, archive: &[u8]) -> io::Result<PathBuf> {
    let dir = cache.join("hosts");
    fs::create_dir_all(&dir)?;
    remove_old(&dir);
    let path = dir.join(format!("{}.cpio", sha256(archive)));
    // The content is compared, not the name trusted: a damaged file is replaced.
    if fs::read(&path).is_ok_and(|found| found == archive) {
        File::options().append(true).open(&path)?.set_modified(SystemTime::now())?;
        return Ok(path);
    }
    write_atomically(&path, archive)?;
    Ok(path)
}

fn remove_old(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let used = entry.metadata().and_then(|file| file.modified());
        let is_old = used.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > KEPT));
        let is_archive = entry.path().extension().is_some_and(|end| end == "cpio");
        // One that is not old may be another ktax's, which is writing it now.
        if is_old && (is_archive || is_unfinished(&entry.file_name())) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_archive_is_one_file_and_old_files_go() {
        let cache = tempfile::tempdir().unwrap();
        let path = keep(cache.path(), b"one").unwrap();
        fs::write(&path, "damaged").unwrap();
        assert_eq!(keep(cache.path(), b"one").unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let long_ago = SystemTime::now() - KEPT - Duration::from_secs(60);
        let age = |path: &Path| {
            File::options().append(true).open(path).unwrap().set_modified(long_ago).unwrap();
        };
        age(&path);
        // One was left by a killed ktax; the other is being written by one that runs.
        let [left, written] =
            [".new-a", ".new-b"].map(|name| cache.path().join("hosts").join(name));
        for path in [&left, &written] {
            fs::write(path, "tw").unwrap();
        }
        age(&left);
        let other = keep(cache.path(), b"two").unwrap();
        assert!(!path.exists() && !left.exists() && written.exists() && other.exists());
        assert_eq!(fs::read_dir(cache.path().join("hosts")).unwrap().count(), 2);
    }
}
