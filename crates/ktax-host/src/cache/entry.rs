//! Entries of the cache, as they are on the disk.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use super::holder::open_entry;
use super::{CacheKind, CachePlace, PLACES};
use crate::disk::{Lock, set_aside};

/// One entry of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// Kind of the entry.
    pub kind: CacheKind,
    /// Path of the entry.
    pub path: PathBuf,
    /// Time of the last use.
    pub used: SystemTime,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Whether a process uses it now.
    pub in_use: bool,
}

impl CacheEntry {
    /// Paths of all that goes with an entry, and of itself last: an index of trees that are gone
    /// would keep git from reading the files again.
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
        match Lock::take(open_entry(&place)?) {
            Ok(lock) => Ok(lock.is_of(&place)?.then_some(lock)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the entry unless somebody uses it or has used it since it was looked at. Returns
    /// whether it is gone.
    pub(super) fn remove(&self) -> io::Result<bool> {
        let Some(lock) = CacheEntry::lock(self.kind, &self.path)? else { return Ok(false) };
        if last_used(&self.path)? != self.used {
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

    /// Bytes on the disk, with all that goes with the entry.
    pub(super) fn size(kind: CacheKind, path: &Path) -> io::Result<u64> {
        CacheEntry::parts(kind, path).iter().map(|part| size_on_disk(part)).sum()
    }
}

/// Time at which an entry was last used.
pub(super) fn last_used(path: &Path) -> io::Result<SystemTime> {
    fs::symlink_metadata(path)?.modified()
}

/// Kinds and paths of all entries. What has another name or type belongs to somebody else.
pub(super) fn all_entries(cache: &Path) -> Vec<(CacheKind, PathBuf)> {
    // The names in `builds` are less special than hashes. Without `builds/tmp` nobody has built a
    // kernel there, so the directory may be somebody else's.
    let is_built = is_directory(&cache.join("builds/tmp"));
    let places = PLACES.iter().filter(|place| is_built || !place.directory.starts_with("builds"));
    places.flat_map(|place| entries_in_place(cache, place)).collect()
}

fn entries_in_place(cache: &Path, place: &CachePlace) -> Vec<(CacheKind, PathBuf)> {
    let is_one = |entry: &fs::DirEntry| {
        let is_type = entry.file_type().is_ok_and(|found| match place.is_directory {
            true => found.is_dir(),
            false => found.is_file(),
        });
        is_type && entry.file_name().to_str().is_some_and(place.is_name)
    };
    let found = below(cache, place.directory).into_iter().filter(is_one);
    found.map(|entry| (place.kind, entry.path())).collect()
}

/// Entries of a directory of the cache; empty if a link leads there.
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

/// Bytes on the disk of a file, or of a directory with all that is in it. The memory of a
/// snapshot is a sparse file, so its length says nothing. Links are not followed. What goes
/// meanwhile takes nothing.
pub(super) fn size_on_disk(path: &Path) -> io::Result<u64> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        metadata => metadata?,
    };
    if !metadata.is_dir() {
        return Ok(allocated(&metadata));
    }
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    // A directory that is removed meanwhile ends with the same error.
    let is_there = |entry: &io::Result<fs::DirEntry>| {
        !entry.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    entries
        .filter(is_there)
        .map(|entry| size_on_disk(&entry?.path()))
        .sum::<io::Result<u64>>()
        .map(|below| below + allocated(&metadata))
}

/// `st_blocks` has units of 512 bytes on every filesystem.
fn allocated(metadata: &Metadata) -> u64 {
    metadata.blocks() * 512
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn holes_take_nothing_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::write(&outside, vec![1; 1 << 20]).unwrap();
        let empty = size_on_disk(&inside).unwrap();
        fs::File::create(inside.join("sparse")).unwrap().set_len(1 << 30).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink("/", inside.join("root")).unwrap();
        let sparse = size_on_disk(&inside).unwrap();
        assert!(sparse < empty + (64 << 10), "{empty} {sparse}");
        fs::write(inside.join("full"), vec![1; 1 << 20]).unwrap();
        assert!(size_on_disk(&inside).unwrap() >= sparse + (1 << 20));
        assert_eq!(size_on_disk(&dir.path().join("none")).unwrap(), 0);
    }
}
