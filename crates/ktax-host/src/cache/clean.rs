//! Surveys the cache, and removes the least recently used entries until the rest fits the budget.

use super::holder::{is_scratch, open_entry, remove_stale};
use super::{Budget, CacheKind, CachePlace, PLACES};
use crate::disk::{
    Lock, is_abandoned, is_set_aside, is_sha256, is_unfinished, read_own, set_aside,
    write_atomically,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// Contents of a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheSurvey {
    /// All entries, the least recently used one first.
    pub entries: Vec<CacheEntry>,
    /// Bytes of the records, which tell the kernel of a package or a build.
    pub record_bytes: u64,
    /// Bytes of temporary files.
    pub temporary_bytes: u64,
}

impl CacheSurvey {
    /// Bytes of the whole cache on the disk.
    pub fn bytes(&self) -> u64 {
        let entries: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        entries + self.record_bytes + self.temporary_bytes
    }

    pub fn entries_of_kind(&self, kind: CacheKind) -> impl Iterator<Item = &CacheEntry> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }
}

/// Surveys a cache. Leaves out entries that cannot be read.
pub fn survey(cache: &Path) -> CacheSurvey {
    let mut known = KnownSizes::read(cache);
    let found = all_entries(cache).into_iter();
    let mut entries: Vec<CacheEntry> =
        found.filter_map(|(kind, path)| survey_entry(kind, path, &mut known)).collect();
    known.write(entries.iter().map(|entry| entry.path.as_path()));
    // Entries of the same time are sorted by path, so that all processes remove the same ones.
    entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
    let (record_bytes, temporary_bytes) = (record_bytes(cache), temporary_bytes(cache));
    CacheSurvey { entries, record_bytes, temporary_bytes }
}

/// Surveys one entry; `None` if it cannot be read, or is gone meanwhile.
fn survey_entry(kind: CacheKind, path: PathBuf, known: &mut KnownSizes) -> Option<CacheEntry> {
    let before = last_used(&path).ok()?;
    let is_free = || CacheEntry::lock(kind, &path).map(|lock| lock.is_some());
    let in_use = !is_free().ok()?;
    let remembered = known.size(&path, before).filter(|_| kind.is_large() && !in_use);
    let bytes = match remembered {
        Some(bytes) => bytes,
        None => CacheEntry::size(kind, &path).ok()?,
    };
    // A process that has used the entry meanwhile may have changed its size. It has set the entry's
    // time, or still has its lock.
    let is_as_before = || last_used(&path).ok() == Some(before) && is_free().ok() == Some(true);
    if kind.is_large() && remembered.is_none() && !in_use && is_as_before() {
        known.remember(&path, before, bytes);
    }
    Some(CacheEntry { kind, path, used: before, bytes, in_use })
}

/// Time between two attempts to lock the cache.
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Result of cleaning a cache.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Removed entries, in the order of removal.
    pub removed: Vec<CacheEntry>,
    /// Bytes that became free on the disk.
    pub freed: u64,
    /// Bytes that the cache still takes.
    pub left: u64,
    /// Bytes of entries that were kept because they are in use.
    pub in_use: u64,
    /// Paths that could not be removed, with the errors.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Removes the least recently used entries of a cache until the rest fits the budget, but no entry
/// that is in use. Also removes temporary files of killed processes. `None` if another process is
/// cleaning the cache and `waits` is false.
pub fn clean(cache: &Path, budget: Budget, waits: bool) -> io::Result<Option<Cleaned>> {
    let root = match File::open(cache) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(Cleaned::default())),
        root => root?,
    };
    // Two processes that clean at once would remove twice as much as needed.
    let lock = match waits {
        true => Lock::wait(root, LOCK_PAUSE, || false)?,
        false => match Lock::take(root) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            lock => Some(lock?),
        },
    };
    Ok(lock.map(|_lock| clean_locked(cache, budget)))
}

fn clean_locked(cache: &Path, budget: Budget) -> Cleaned {
    let temporary = temporary_bytes(cache);
    let mut cleaned = Cleaned { failed: remove_leftovers(cache), ..Cleaned::default() };
    let survey = survey(cache);
    cleaned.left = survey.bytes();
    cleaned.freed = temporary.saturating_sub(survey.temporary_bytes);
    let budget_bytes = budget.bytes().unwrap_or(u64::MAX);
    for entry in survey.entries {
        match if cleaned.left > budget_bytes { entry.remove() } else { Ok(false) } {
            Ok(true) => {
                cleaned.count_freed(entry.bytes);
                cleaned.removed.push(entry);
            }
            Ok(false) if entry.in_use => cleaned.in_use += entry.bytes,
            Ok(false) => {}
            Err(error) => cleaned.failed.push((entry.path, error)),
        }
    }
    if cleaned.removed.iter().any(|entry| entry.kind == CacheKind::Kernel) {
        match remove_dangling_records(cache) {
            Ok(bytes) => cleaned.count_freed(bytes),
            Err(error) => cleaned.failed.push((cache.join("kernels/by-package"), error)),
        }
    }
    // Remove the lock files of the removed entries.
    if !cleaned.removed.is_empty() {
        cleaned.failed.extend(remove_leftovers(cache));
    }
    cleaned
}

impl Cleaned {
    fn count_freed(&mut self, bytes: u64) {
        self.freed += bytes;
        self.left = self.left.saturating_sub(bytes);
    }
}

/// The largest `sizes.json`, in bytes.
const SIZES_MAX: u64 = 1 << 20;

/// Sizes of large entries from the last survey, with the time of the last use in nanoseconds. A
/// lane has a hundred thousand files, whose sizes would otherwise be added up after each
/// comparison.
#[derive(Debug, Default, PartialEq, Eq)]
struct KnownSizes {
    sizes: BTreeMap<String, (u64, u64)>,
    path: PathBuf,
    has_new: bool,
}

impl KnownSizes {
    /// Reads the sizes of a cache; none if the file cannot be read.
    pub fn read(cache: &Path) -> KnownSizes {
        let path = cache.join("sizes.json");
        let bytes = read_own(&path, SIZES_MAX).unwrap_or_default();
        let sizes = serde_json::from_slice(&bytes).unwrap_or_default();
        KnownSizes { sizes, path, has_new: false }
    }

    /// Returns the size of an entry; `None` if the entry was used since its size was added up.
    pub fn size(&self, entry: &Path, used: SystemTime) -> Option<u64> {
        let (known_used, bytes) = self.sizes.get(&self.name(entry)?)?;
        (Some(*known_used) == nanoseconds(used)).then_some(*bytes)
    }

    /// Sets the size of an entry that nobody used while its size was added up.
    pub fn remember(&mut self, entry: &Path, used: SystemTime, bytes: u64) {
        if let (Some(name), Some(used)) = (self.name(entry), nanoseconds(used)) {
            self.sizes.insert(name, (used, bytes));
            self.has_new = true;
        }
    }

    /// Writes the sizes of these entries, if there is a new size. Ignores errors, because a missing
    /// size costs only time.
    pub fn write<'a>(mut self, entries: impl Iterator<Item = &'a Path>) {
        if self.has_new {
            let names: Vec<String> = entries.filter_map(|entry| self.name(entry)).collect();
            self.sizes.retain(|name, _| names.contains(name));
            drop(serde_json::to_vec(&self.sizes).map(|text| write_atomically(&self.path, &text)));
        }
    }

    fn name(&self, entry: &Path) -> Option<String> {
        Some(entry.strip_prefix(self.path.parent()?).ok()?.to_str()?.to_owned())
    }
}

/// Returns the nanoseconds since 1970.
fn nanoseconds(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok()?.as_nanos().try_into().ok()
}

/// One entry of the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    pub kind: CacheKind,
    pub path: PathBuf,
    /// Time of the last use.
    pub used: SystemTime,
    /// Bytes on the disk.
    pub bytes: u64,
    pub in_use: bool,
}

impl CacheEntry {
    /// Returns the paths of an entry: those that belong to it, and last its own. The indexes of git
    /// go before the trees: with an index, git would not read again the files of a removed tree.
    pub(super) fn parts(kind: CacheKind, path: &Path) -> Vec<PathBuf> {
        match kind {
            CacheKind::SourceTrees => {
                let sibling = |name| path.with_file_name(name);
                vec![sibling("indexes"), sibling("packages"), path.to_owned()]
            }
            _ => vec![path.to_owned()],
        }
    }

    /// Takes an exclusive lock on an entry; `None` if another process uses it.
    pub(super) fn lock(kind: CacheKind, path: &Path) -> io::Result<Option<Lock>> {
        let lock_path = match kind {
            CacheKind::Lane => path.join("lock"),
            _ => path.to_owned(),
        };
        match Lock::take(open_entry(&lock_path)?) {
            Ok(lock) => Ok(lock.is_file_at(&lock_path)?.then_some(lock)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the entry, unless it is in use or was used since the survey. Returns whether it was
    /// removed.
    pub(super) fn remove(&self) -> io::Result<bool> {
        let Some(lock) = CacheEntry::lock(self.kind, &self.path)? else { return Ok(false) };
        if last_used(&self.path)? != self.used {
            return Ok(false);
        }
        let exists = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        let parts = CacheEntry::parts(self.kind, &self.path).into_iter().filter(exists);
        let set_aside_parts = parts.map(|path| set_aside(&path)).collect::<io::Result<Vec<_>>>()?;
        // Nobody can find the entry any more, so release the lock before the slow removal.
        drop(lock);
        set_aside_parts.iter().try_for_each(fs::remove_dir_all)?;
        Ok(true)
    }

    /// Returns the bytes of all parts of an entry on the disk.
    pub(super) fn size(kind: CacheKind, path: &Path) -> io::Result<u64> {
        CacheEntry::parts(kind, path).iter().map(|part| size_on_disk(part)).sum()
    }
}

pub(super) fn last_used(path: &Path) -> io::Result<SystemTime> {
    fs::symlink_metadata(path)?.modified()
}

/// Returns the kinds and paths of all entries. Files of another name or type belong to somebody
/// else.
pub(super) fn all_entries(cache: &Path) -> Vec<(CacheKind, PathBuf)> {
    // Names in `builds` are no hashes, so the directory may be somebody else's. If ktax has built a
    // kernel there, it has `builds/tmp`.
    let has_builds = is_directory(&cache.join("builds/tmp"));
    let places = PLACES.iter().filter(|place| has_builds || !place.directory.starts_with("builds"));
    places.flat_map(|place| entries_in_place(cache, place)).collect()
}

fn entries_in_place(cache: &Path, place: &CachePlace) -> Vec<(CacheKind, PathBuf)> {
    let is_cache_entry = |entry: &fs::DirEntry| {
        let has_type = entry.file_type().is_ok_and(|found| match place.is_directory {
            true => found.is_dir(),
            false => found.is_file(),
        });
        has_type && entry.file_name().to_str().is_some_and(place.is_name)
    };
    let found = entries_below(cache, place.directory).into_iter().filter(is_cache_entry);
    found.map(|entry| (place.kind, entry.path())).collect()
}

/// Returns the entries of a directory of the cache; none if a part of its path is a symbolic link.
pub(super) fn entries_below(cache: &Path, directory: &str) -> Vec<fs::DirEntry> {
    let parts = Path::new(directory).ancestors().filter(|path| *path != OsStr::new(""));
    if !parts.into_iter().all(|path| is_directory(&cache.join(path))) {
        return Vec::new();
    }
    fs::read_dir(cache.join(directory)).into_iter().flatten().flatten().collect()
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Returns the bytes on the disk of a file, or of a directory with its content. These are blocks
/// and not lengths, because the memory of a snapshot is a sparse file. Does not follow symbolic
/// links. A file that is removed meanwhile counts 0.
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
    // Reading a directory that is removed meanwhile fails with the same error.
    let is_there = |entry: &io::Result<fs::DirEntry>| {
        !entry.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    entries
        .filter(is_there)
        .map(|entry| size_on_disk(&entry?.path()))
        .sum::<io::Result<u64>>()
        .map(|below| below + allocated(&metadata))
}

/// Returns the allocated bytes. `st_blocks` is in units of 512 bytes on every filesystem.
fn allocated(metadata: &Metadata) -> u64 {
    metadata.blocks() * 512
}

/// Directories that have no entries but may have temporary files.
const OTHER_DIRECTORIES: [&str; 3] = ["runs", "builds/tmp", "builds/packages"];

/// Returns the directories that may have temporary files. An entry is made in a temporary file or
/// directory next to its final path.
fn temporary_directories() -> BTreeSet<&'static str> {
    PLACES.iter().map(|place| place.directory).chain(OTHER_DIRECTORIES).collect()
}

/// Returns the bytes of all temporary files, in use or not.
pub(super) fn temporary_bytes(cache: &Path) -> u64 {
    let entries =
        temporary_directories().into_iter().flat_map(|directory| entries_below(cache, directory));
    let temporary = entries.filter(|entry| {
        let name = entry.file_name();
        is_set_aside(&name) || is_scratch(&name) || is_temporary(entry)
    });
    temporary.map(|entry| size_on_disk(&entry.path()).unwrap_or_default()).sum()
}

/// Removes temporary files that nobody uses, and returns the paths that could not be removed.
pub(super) fn remove_leftovers(cache: &Path) -> Vec<(PathBuf, io::Error)> {
    let mut failed = Vec::new();
    for directory in temporary_directories() {
        let entries = entries_below(cache, directory);
        if entries.iter().any(|entry| is_scratch(&entry.file_name())) {
            remove_stale(&cache.join(directory));
        }
        for entry in entries {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if is_set_aside(&entry.file_name()) || is_temporary(&entry) && is_abandoned(&path) {
                failed.extend(remove_path(&path).err().map(|error| (path, error)));
            } else if let Some(hash) = name.strip_suffix(".lock").filter(|hash| is_sha256(hash)) {
                if !path.with_file_name(hash).exists() {
                    drop(remove_lock(&path));
                }
            }
        }
    }
    failed
}

/// Returns whether this is a file that is being written, or the temporary directory of a download
/// or of a patch.
fn is_temporary(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    is_unfinished(&name) || name.as_encoded_bytes().starts_with(b".tmp")
}

fn remove_path(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path)?.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    match removed {
        // Another ktax has removed the path.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes the lock file of a removed entry. A process that waits for this lock makes a new file.
fn remove_lock(path: &Path) -> io::Result<()> {
    let lock = Lock::take(open_entry(path)?)?;
    if lock.is_file_at(path)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

const RECORD_DIRECTORIES: [&str; 2] = ["kernels/by-package", "builds/by-recipe"];

/// The largest record, in bytes.
const RECORD_MAX: u64 = 4 << 10;

/// The field that every record has: the kernel of a package or a build.
#[derive(Deserialize)]
struct KernelRecord {
    image_sha256: String,
}

/// Returns the paths of all records, with their bytes on the disk.
fn records(cache: &Path) -> impl Iterator<Item = (PathBuf, u64)> {
    let entries =
        RECORD_DIRECTORIES.into_iter().flat_map(move |directory| entries_below(cache, directory));
    entries.filter_map(|entry| {
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let path = entry.path();
        (path.extension()? == "json").then_some((path, metadata.blocks() * 512))
    })
}

/// Returns the bytes of all records on the disk.
pub(super) fn record_bytes(cache: &Path) -> u64 {
    records(cache).map(|(_, bytes)| bytes).sum()
}

/// Removes the records of removed kernels, and returns the bytes of these records.
pub(super) fn remove_dangling_records(cache: &Path) -> io::Result<u64> {
    let mut freed = 0;
    for (path, bytes) in records(cache) {
        let content = read_own(&path, RECORD_MAX).unwrap_or_default();
        let record: Option<KernelRecord> = serde_json::from_slice(&content).ok();
        let is_dangling = |record: KernelRecord| {
            let kernel = cache.join("kernels").join(&record.image_sha256);
            is_sha256(&record.image_sha256) && !kernel.exists()
        };
        if record.is_some_and(is_dangling) {
            fs::remove_file(&path)?;
            freed += bytes;
        }
    }
    Ok(freed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_size_is_known_until_the_entry_is_used_again() {
        let cache = tempfile::tempdir().unwrap();
        let [lane, other] =
            ["builds/lanes/6.12", "builds/ccache"].map(|name| cache.path().join(name));
        let used = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let mut known = KnownSizes::read(cache.path());
        known.remember(&lane, used, 5);
        known.remember(&other, used, 6);
        known.write([lane.as_path()].into_iter());
        let known = KnownSizes::read(cache.path());
        assert_eq!(known.size(&lane, used), Some(5));
        assert_eq!(known.size(&lane, used + Duration::from_nanos(1)), None);
        assert_eq!(known.size(&other, used), None);
        std::fs::write(cache.path().join("sizes.json"), "{").unwrap();
        assert_eq!(KnownSizes::read(cache.path()).size(&lane, used), None);
    }

    #[test]
    fn holes_count_nothing_and_links_are_not_followed() {
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

    #[test]
    fn temporary_directories_of_killed_processes_are_removed() {
        let cache = tempfile::tempdir().unwrap();
        let left: Vec<PathBuf> = PLACES
            .iter()
            .map(|place| cache.path().join(place.directory).join(".vm-killed"))
            .collect();
        for scratch in &left {
            fs::create_dir_all(scratch).unwrap();
            // A lock file that no process has locked.
            fs::write(scratch.join("lock"), "").unwrap();
        }
        assert!(remove_leftovers(cache.path()).is_empty());
        for scratch in left {
            assert!(!scratch.exists(), "{}", scratch.display());
        }
    }
}
