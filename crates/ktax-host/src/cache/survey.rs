//! What the cache has, and how much it takes on the disk.

use std::path::{Path, PathBuf};

use super::entry::{CacheEntry, entries, used};
use super::kind::CacheKind;
use super::known::Known;
use super::left::temporary_bytes;
use super::records::record_bytes;

/// What a cache has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheSurvey {
    /// All entries, the one that was not used for longest first.
    pub entries: Vec<CacheEntry>,
    /// What the records take that say which kernel a name is, in bytes.
    pub record_bytes: u64,
    /// What files take that are only there for a while.
    pub temporary_bytes: u64,
}

impl CacheSurvey {
    /// What all of it takes on the disk, in bytes.
    pub fn bytes(&self) -> u64 {
        let entries: u64 = self.entries.iter().map(|entry| entry.bytes).sum();
        entries + self.record_bytes + self.temporary_bytes
    }

    /// The entries of one kind.
    pub fn of(&self, kind: CacheKind) -> impl Iterator<Item = &CacheEntry> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }
}

/// Looks at all of a cache. What cannot be read is left out.
pub fn survey(cache: &Path) -> CacheSurvey {
    let mut known = Known::of(cache);
    let all = entries(cache).into_iter();
    let mut entries: Vec<CacheEntry> =
        all.filter_map(|(kind, path)| look_at(kind, path, &mut known)).collect();
    known.keep(entries.iter().map(|entry| entry.path.as_path()));
    // Of equals the path decides, so that everyone removes the same.
    entries.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
    let (record_bytes, temporary_bytes) = (record_bytes(cache), temporary_bytes(cache));
    CacheSurvey { entries, record_bytes, temporary_bytes }
}

fn look_at(kind: CacheKind, path: PathBuf, known: &mut Known) -> Option<CacheEntry> {
    let before = used(&path).ok()?;
    let is_free = || CacheEntry::lock(kind, &path).map(|lock| lock.is_some());
    let in_use = !is_free().ok()?;
    let remembered = known.size(&path, before).filter(|_| kind.is_large() && !in_use);
    let bytes = match remembered {
        Some(bytes) => bytes,
        None => CacheEntry::size(kind, &path).ok()?,
    };
    // Whoever has used it meanwhile has set its time, and may have changed its size.
    let is_as_before = || used(&path).ok() == Some(before) && is_free().ok() == Some(true);
    if kind.is_large() && remembered.is_none() && !in_use && is_as_before() {
        known.remember(&path, before, bytes);
    }
    Some(CacheEntry { kind, path, used: before, bytes, in_use })
}
