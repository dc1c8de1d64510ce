//! Removes what was not used for longest, until the rest fits the budget.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::budget::Budget;
use super::entry::CacheEntry;
use super::kind::CacheKind;
use super::left::{remove_left, temporary_bytes};
use super::records::remove_dangling;
use super::survey::survey;
use crate::disk::Lock;

const PAUSE: Duration = Duration::from_millis(100);

/// What became of a cache.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// What was removed, in this order.
    pub removed: Vec<CacheEntry>,
    /// How much more the disk has free, in bytes.
    pub freed: u64,
    /// What the cache still takes.
    pub left: u64,
    /// How much of that is in use.
    pub in_use: u64,
    /// What could not be removed, and why.
    pub failed: Vec<(PathBuf, io::Error)>,
}

/// Removes entries of a cache, the one that was not used for longest first, until the rest fits the
/// budget; never one that is in use. Also removes what killed processes left. `None` where another
/// process is cleaning the cache and this one need not wait.
///
/// # Errors
/// The cache cannot be read, or its filesystem has no locks.
pub fn clean(cache: &Path, budget: Budget, waits: bool) -> io::Result<Option<Cleaned>> {
    let root = match File::open(cache) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some(Cleaned::default())),
        root => root?,
    };
    // Two that clean at once would both make room, and remove twice as much as they need.
    let lock = match waits {
        true => Lock::wait(root, PAUSE, || false)?,
        false => match Lock::take(root) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            lock => Some(lock?),
        },
    };
    Ok(lock.map(|_lock| alone(cache, budget)))
}

fn alone(cache: &Path, budget: Budget) -> Cleaned {
    let temporary = temporary_bytes(cache);
    let mut cleaned = Cleaned { failed: remove_left(cache), ..Cleaned::default() };
    let survey = survey(cache);
    cleaned.left = survey.bytes();
    cleaned.freed = temporary.saturating_sub(survey.temporary_bytes);
    let most = budget.bytes().unwrap_or(u64::MAX);
    for entry in survey.entries {
        match if cleaned.left > most { entry.remove() } else { Ok(false) } {
            Ok(true) => {
                cleaned.frees(entry.bytes);
                cleaned.removed.push(entry);
            }
            Ok(false) if entry.in_use => cleaned.in_use += entry.bytes,
            Ok(false) => {}
            Err(error) => cleaned.failed.push((entry.path, error)),
        }
    }
    if cleaned.removed.iter().any(|entry| entry.kind == CacheKind::Kernel) {
        match remove_dangling(cache) {
            Ok(bytes) => cleaned.frees(bytes),
            Err(error) => cleaned.failed.push((cache.join("kernels/by-package"), error)),
        }
    }
    // Their locks, which nobody waits for now.
    if !cleaned.removed.is_empty() {
        cleaned.failed.extend(remove_left(cache));
    }
    cleaned
}

impl Cleaned {
    fn frees(&mut self, bytes: u64) {
        self.freed += bytes;
        self.left = self.left.saturating_sub(bytes);
    }
}
