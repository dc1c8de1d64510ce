//! The entries of the cache, as they are on the disk.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::holder::open;
use super::kind::{CacheKind, PLACES, Place};
use super::size::size_on_disk;
use crate::disk::{Lock, set_aside};

/// One entry of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// What it is.
    pub kind: CacheKind,
    /// Where it is.
    pub path: PathBuf,
    /// When it was last used.
    pub used: SystemTime,
    /// What it takes on the disk.
    pub bytes: u64,
    /// Whether a process uses it now.
    pub in_use: bool,
}

impl CacheEntry {
    /// All that goes with it, and itself last: an index of trees that are gone would keep git from
    /// reading the files again.
    pub(super) fn parts(kind: CacheKind, path: &Path) -> Vec<PathBuf> {
        match kind {
            CacheKind::SourceTrees => {
                let beside = |name| path.with_file_name(name);
                vec![beside("indexes"), beside("packages"), path.to_owned()]
            }
            _ => vec![path.to_owned()],
        }
    }

    /// Locks an entry for this process alone; `None` if another one uses it.
    pub(super) fn lock(kind: CacheKind, path: &Path) -> io::Result<Option<Lock>> {
        let place = match kind {
            CacheKind::Lane => path.join("lock"),
            _ => path.to_owned(),
        };
        match Lock::take(open(&place)?) {
            Ok(lock) => Ok(lock.is_of(&place)?.then_some(lock)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes it unless somebody uses it or has used it since it was looked at. Whether it is
    /// gone.
    pub(super) fn remove(&self) -> io::Result<bool> {
        let Some(lock) = CacheEntry::lock(self.kind, &self.path)? else { return Ok(false) };
        if used(&self.path)? != self.used {
            return Ok(false);
        }
        let there = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let parts = CacheEntry::parts(self.kind, &self.path).into_iter().filter(there);
        let aside = parts.map(|path| set_aside(&path)).collect::<io::Result<Vec<_>>>()?;
        // Nobody finds it any more, so nobody need wait until it is removed.
        drop(lock);
        aside.iter().try_for_each(fs::remove_dir_all)?;
        Ok(true)
    }

    /// What it takes on the disk, with all that goes with it.
    pub(super) fn size(kind: CacheKind, path: &Path) -> io::Result<u64> {
        CacheEntry::parts(kind, path).iter().map(|part| size_on_disk(part)).sum()
    }
}

/// When an entry was last used.
pub(super) fn used(path: &Path) -> io::Result<SystemTime> {
    fs::symlink_metadata(path)?.modified()
}

/// The kinds and paths of all entries. What has another name or type belongs to somebody else.
pub(super) fn entries(cache: &Path) -> Vec<(CacheKind, PathBuf)> {
    // These names in it are not as special as hashes are; in a directory that has no `tmp` nobody
    // has built a kernel.
    let is_built = is_directory(&cache.join("builds/tmp"));
    let places = PLACES.iter().filter(|place| is_built || !place.directory.starts_with("builds"));
    places.flat_map(|place| of_place(cache, place)).collect()
}

fn of_place(cache: &Path, place: &Place) -> Vec<(CacheKind, PathBuf)> {
    let is_one = |entry: &fs::DirEntry| {
        let is_type = entry.file_type().is_ok_and(|it| match place.is_directory {
            true => it.is_dir(),
            false => it.is_file(),
        });
        is_type && entry.file_name().to_str().is_some_and(place.is_name)
    };
    let found = below(cache, place.directory).into_iter().filter(is_one);
    found.map(|entry| (place.kind, entry.path())).collect()
}

/// What is in a directory of the cache, unless a link leads there.
pub(super) fn below(cache: &Path, directory: &str) -> Vec<fs::DirEntry> {
    let parts = Path::new(directory).ancestors().filter(|path| *path != OsStr::new(""));
    if !parts.into_iter().all(|path| is_directory(&cache.join(path))) {
        return Vec::new();
    }
    fs::read_dir(cache.join(directory)).into_iter().flatten().flatten().collect()
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}
