//! Surveys the cache, and removes what was not used for longest until the rest fits the budget.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::entry::{CacheEntry, all_entries, last_used};
use super::left::{record_bytes, remove_dangling, remove_left, temporary_bytes};
use super::{Budget, CacheKind};
use crate::disk::{Lock, read_own, write_atomically};

/// Contents of a cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheSurvey {
    /// All entries, the one that was not used for longest first.
    pub entries: Vec<CacheEntry>,
    /// Bytes of the records that say which kernel a name is.
    pub record_bytes: u64,
    /// Bytes of files that are only there for a while.
    pub temporary_bytes: u64,
}

impl CacheSurvey {
    /// Bytes of all of it on the disk.
    pub fn bytes(&self) -> u64 {
        let entries: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        entries + self.record_bytes + self.temporary_bytes
    }

    /// The entries of one kind.
    pub fn entries_of_kind(&self, kind: CacheKind) -> impl Iterator<Item = &CacheEntry> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }
}

/// Looks at all of a cache. What cannot be read is left out.
pub fn survey(cache: &Path) -> CacheSurvey {
    let mut known = KnownSizes::read(cache);
    let all = all_entries(cache).into_iter();
    let mut entries: Vec<CacheEntry> =
        all.filter_map(|(kind, path)| look_at(kind, path, &mut known)).collect();
    known.keep(entries.iter().map(|entry| entry.path.as_path()));
    // The path decides among equals, so that everyone removes the same.
    entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
    let (record_bytes, temporary_bytes) = (record_bytes(cache), temporary_bytes(cache));
    CacheSurvey { entries, record_bytes, temporary_bytes }
}

fn look_at(kind: CacheKind, path: PathBuf, known: &mut KnownSizes) -> Option<CacheEntry> {
    let before = last_used(&path).ok()?;
    let is_free = || CacheEntry::lock(kind, &path).map(|lock| lock.is_some());
    let in_use = !is_free().ok()?;
    let remembered = known.size(&path, before).filter(|_| kind.is_large() && !in_use);
    let bytes = match remembered {
        Some(bytes) => bytes,
        None => CacheEntry::size(kind, &path).ok()?,
    };
    // A process that has used the entry meanwhile has set its time, and may have changed its size.
    let is_as_before = || last_used(&path).ok() == Some(before) && is_free().ok() == Some(true);
    if kind.is_large() && remembered.is_none() && !in_use && is_as_before() {
        known.remember(&path, before, bytes);
    }
    Some(CacheEntry { kind, path, used: before, bytes, in_use })
}

const PAUSE: Duration = Duration::from_millis(100);

/// Result of cleaning a cache.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Entries that were removed, in this order.
    pub removed: Vec<CacheEntry>,
    /// Bytes that became free on the disk.
    pub freed: u64,
    /// Bytes that the cache still takes.
    pub left: u64,
    /// Bytes of those that are in use.
    pub in_use: u64,
    /// Paths that could not be removed, and why.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Removes entries of a cache, the one that was not used for longest first, until the rest fits the
/// budget; never one that is in use. Also removes what killed processes left. `None` where another
/// process is cleaning the cache and this one need not wait.
pub fn clean(cache: &Path, budget: Budget, waits: bool) -> io::Result<Option<Cleaned>> {
    let root = match File::open(cache) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(Cleaned::default())),
        root => root?,
    };
    // Two processes that clean at once would both make room, and remove twice as much as needed.
    let lock = match waits {
        true => Lock::wait(root, PAUSE, || false)?,
        false => match Lock::take(root) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            lock => Some(lock?),
        },
    };
    Ok(lock.map(|_lock| clean_locked(cache, budget)))
}

fn clean_locked(cache: &Path, budget: Budget) -> Cleaned {
    let temporary = temporary_bytes(cache);
    let mut cleaned = Cleaned { failed: remove_left(cache), ..Cleaned::default() };
    let survey = survey(cache);
    cleaned.left = survey.bytes();
    cleaned.freed = temporary.saturating_sub(survey.temporary_bytes);
    let most = budget.bytes().unwrap_or(u64::MAX);
    for entry in survey.entries {
        match if cleaned.left > most { entry.remove() } else { Ok(false) } {
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
        match remove_dangling(cache) {
            Ok(bytes) => cleaned.count_freed(bytes),
            Err(error) => cleaned.failed.push((cache.join("kernels/by-package"), error)),
        }
    }
    // Remove the locks of the removed entries, which nobody waits for now.
    if !cleaned.removed.is_empty() {
        cleaned.failed.extend(remove_left(cache));
    }
    cleaned
}

impl Cleaned {
    fn count_freed(&mut self, bytes: u64) {
        self.freed += bytes;
        self.left = self.left.saturating_sub(bytes);
    }
}

const SIZES_MAX: u64 = 1 << 20;

/// Sizes from the last survey: for each entry the nanosecond in which it was last used, and its
/// size then. A lane has a hundred thousand files, and after each comparison nobody waits until
/// they are added up again.
#[derive(Debug, Default, PartialEq, Eq)]
struct KnownSizes {
    sizes: BTreeMap<String, (u64, u64)>,
    path: PathBuf,
    has_new: bool,
}

impl KnownSizes {
    /// Reads the file of a cache. A file that cannot be read is as good as none.
    pub fn read(cache: &Path) -> KnownSizes {
        let path = cache.join("sizes.json");
        let bytes = read_own(&path, SIZES_MAX).unwrap_or_default();
        let sizes = serde_json::from_slice(&bytes).unwrap_or_default();
        KnownSizes { sizes, path, has_new: false }
    }

    /// The size of an entry, if it was not used since it was added up.
    pub fn size(&self, entry: &Path, used: SystemTime) -> Option<u64> {
        let (then, bytes) = self.sizes.get(&self.name(entry)?)?;
        (Some(*then) == nanosecond(used)).then_some(*bytes)
    }

    /// Remembers the size of an entry that nobody used while it was added up.
    pub fn remember(&mut self, entry: &Path, used: SystemTime, bytes: u64) {
        if let (Some(name), Some(used)) = (self.name(entry), nanosecond(used)) {
            self.sizes.insert(name, (used, bytes));
            self.has_new = true;
        }
    }

    /// Writes the sizes of these entries alone, if there is anything new. A cache that cannot be
    /// written costs only time.
    pub fn keep<'a>(mut self, entries: impl Iterator<Item = &'a Path>) {
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

fn nanosecond(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok()?.as_nanos().try_into().ok()
}

#[cfg(test)]
mod tests {
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
        known.keep([lane.as_path()].into_iter());
        let known = KnownSizes::read(cache.path());
        assert_eq!(known.size(&lane, used), Some(5));
        assert_eq!(known.size(&lane, used + Duration::from_nanos(1)), None);
        assert_eq!(known.size(&other, used), None);
        std::fs::write(cache.path().join("sizes.json"), "{").unwrap();
        assert_eq!(KnownSizes::read(cache.path()).size(&lane, used), None);
    }
}
