//! Sizes that are known from the last look: a lane has a hundred thousand files, and after each
//! comparison nobody waits until they are added up again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::disk::{read_own, write_atomically};

const FILE_MAX: u64 = 1 << 20;

/// For each entry the nanosecond in which it was last used, and its size then.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    sizes: BTreeMap<String, (u64, u64)>,
    path: PathBuf,
    has_new: bool,
}

impl Known {
    /// Reads the file of a cache. A file that cannot be read is as good as none.
    pub fn of(cache: &Path) -> Known {
        let path = cache.join("sizes.json");
        let bytes = read_own(&path, FILE_MAX).unwrap_or_default();
        let sizes = serde_json::from_slice(&bytes).unwrap_or_default();
        Known { sizes, path, has_new: false }
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
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_size_is_known_until_the_entry_is_used_again() {
        let cache = tempfile::tempdir().unwrap();
        let [lane, other] = ["builds/lanes/6.12", "builds/ccache"].map(|it| cache.path().join(it));
        let used = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let mut known = Known::of(cache.path());
        known.remember(&lane, used, 5);
        known.remember(&other, used, 6);
        known.keep([lane.as_path()].into_iter());
        let known = Known::of(cache.path());
        assert_eq!(known.size(&lane, used), Some(5));
        assert_eq!(known.size(&lane, used + Duration::from_nanos(1)), None);
        assert_eq!(known.size(&other, used), None);
        std::fs::write(cache.path().join("sizes.json"), "{").unwrap();
        assert_eq!(Known::of(cache.path()).size(&lane, used), None);
    }
}
