//! Initramfs files in the cache, where QEMU reads them, also when a host is booted by hand.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ktax_host::cache::Holder;
use ktax_host::disk::{sha256, write_atomically};

/// An archive in the cache, which is in use until the last copy of this is dropped.
#[derive(Debug, Clone)]
pub(super) struct HostArchive {
    pub path: PathBuf,
    _holder: Arc<Holder>,
}

/// Puts an archive into the cache, named by its hash.
pub(super) fn keep(cache: &Path, archive: &[u8]) -> io::Result<HostArchive> {
    let dir = cache.join("hosts");
    fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{}.cpio", sha256(archive)));
    loop {
        let holder = Holder::of(&path)?;
        // The content is compared, not the name trusted: a damaged file is replaced.
        match holder.filter(|_| fs::read(&path).is_ok_and(|found| found == archive)) {
            Some(holder) => return Ok(HostArchive { path, _holder: Arc::new(holder) }),
            None => write_atomically(&path, archive)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_host::cache::{Budget, clean};

    #[test]
    fn the_same_archive_is_one_file_that_stays_while_it_is_used() {
        let cache = tempfile::tempdir().unwrap();
        let kept = keep(cache.path(), b"one").unwrap();
        fs::write(&kept.path, "damaged").unwrap();
        assert_eq!(keep(cache.path(), b"one").unwrap().path, kept.path);
        assert_eq!(fs::read(&kept.path).unwrap(), b"one");
        let kept = keep(cache.path(), b"one").unwrap();
        let clean = || clean(cache.path(), Budget::Bytes(0), true).unwrap().unwrap();
        assert_eq!(clean().removed, []);
        let path = kept.path.clone();
        drop(kept);
        assert_eq!(clean().removed.len(), 1);
        assert!(!path.exists());
    }
}
