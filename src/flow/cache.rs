//! The cache stays within its budget.

use std::io;
use std::path::{Path, PathBuf};

use super::context::OrHost;
use super::error::Error;
use super::session::Session;
use crate::cache::{Budget, CacheKind, CacheSurvey, Cleaned, clean, survey};
use crate::text::{binary_size, escape_path};

const OTHER: &str = "make it writable, or name another directory with --cache DIR";

/// What the cache has.
pub fn cache_contents(cache: &Path) -> CacheSurvey {
    survey(cache)
}

/// Removes what was not used for longest until the cache fits its budget, and never what is in
/// use. Waits while another ktax does that.
///
/// # Errors
/// Something could not be removed, or the cache cannot be read.
pub fn clean_cache(cache: &Path, budget: Budget) -> Result<Cleaned, Error> {
    let what = || format!("cannot clean {}", escape_path(cache));
    let cleaned = clean(cache, budget, true).context(what(), OTHER)?.unwrap_or_default();
    match cleaned.failed.first() {
        Some(failed) => Err(Error::Host(unremoved(failed))),
        None => Ok(cleaned),
    }
}

/// The same at the end of a session, which uses nothing of the cache any more. What fails is said,
/// and costs no result.
pub fn keep_cache_small(session: &Session<'_>, budget: Budget) {
    session.holders.release();
    let cache = &session.cache;
    let note = |text: &str| session.observer.note(text);
    match clean(cache, budget, false) {
        Err(error) => note(&format!("cannot clean {}: {error}; {OTHER}", escape_path(cache))),
        Ok(cleaned) => {
            let cleaned = cleaned.unwrap_or_default();
            cleaned.failed.first().into_iter().for_each(|failed| note(&unremoved(failed)));
            if !cleaned.removed.is_empty() {
                note(&format!(
                    "the cache was larger than {budget}: removed {}, which were not used for \
                     longest; --cache-size changes the limit",
                    removed(&cleaned)
                ));
            }
        }
    }
}

fn unremoved((path, error): &(PathBuf, io::Error)) -> String {
    format!("cannot remove {}: {error}; remove it yourself, or make it writable", escape_path(path))
}

/// `2 snapshots and 1 build lane, 1.2 GiB`
pub fn removed(cleaned: &Cleaned) -> String {
    let counted = CacheKind::ALL.into_iter().filter_map(|kind| {
        let count = cleaned.removed.iter().filter(|entry| entry.kind == kind).count();
        (count > 0).then(|| kind.counted(count))
    });
    let kinds: Vec<String> = counted.collect();
    let kinds = match kinds.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    };
    format!("{kinds} ({})", binary_size(cleaned.freed))
}
