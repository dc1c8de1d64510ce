//! What the store has: results, and the subjects that were measured.

use super::error::StoredError;
use super::names::Names;
use super::open::Stored;
use crate::flow::error::Error;
use crate::index::{StoredResult, StoredSubject};
use crate::model::Saved;
use crate::text::short_hashes;

/// Which results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOrder {
    /// Only those with this row.
    pub row: Option<String>,
    /// Only those of a kernel whose name has this in it.
    pub kernel: Option<String>,
    /// Only those that were kept on this day or later, `2026-01-31`.
    pub since: Option<String>,
    /// At most so many, the newest.
    pub most: Option<usize>,
}

/// A subject as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// A name that every command understands.
    pub name: String,
    /// Names that the user gave.
    pub tags: Vec<String>,
    /// What it is.
    pub subject: StoredSubject,
}

impl Stored {
    /// Results, the newest first.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn log(&self, order: &LogOrder) -> Result<Vec<StoredResult>, Error> {
        let mut all = self.index.results()?;
        all.retain(|it| {
            order.row.as_ref().is_none_or(|row| it.rows.iter().any(|it| is_row(it, row)))
                && order.since.as_ref().is_none_or(|since| it.kept_on >= *since)
                && order
                    .kernel
                    .as_ref()
                    .is_none_or(|name| it.kernels.iter().any(|k| k.contains(name)))
        });
        all.truncate(order.most.unwrap_or(usize::MAX));
        Ok(all)
    }

    /// Subjects, in the order of their kernels' versions.
    ///
    /// # Errors
    /// The index cannot be read.
    pub fn subjects(&self) -> Result<Vec<Shown>, Error> {
        let names = Names::of(self)?;
        let shown = |subject: &StoredSubject| Shown {
            name: names.name(subject),
            tags: names.tags(&subject.kernel_sha256, &subject.boot_line),
            subject: subject.clone(),
        };
        let mut all: Vec<Shown> = names.subjects().iter().map(shown).collect();
        alphanumeric_sort::sort_slice_by_str_key(&mut all, |it| it.name.as_str());
        // Where a name is another's too it is a hash, which says nothing of the version.
        all.sort_by(|a, b| alphanumeric_sort::compare_str(&a.subject.kernel, &b.subject.kernel));
        Ok(all)
    }

    /// The result whose name begins so.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub fn result(&self, id: &str) -> Result<Saved, Error> {
        let all = self.index.results()?;
        let id = id.to_ascii_lowercase();
        let found: Vec<&str> =
            all.iter().map(|it| it.object.as_str()).filter(|it| it.starts_with(&id)).collect();
        match found.as_slice() {
            [one] if !id.is_empty() => Ok(self.store.read_result(&self.store.result_path(one))?),
            [] | [_] => Err(StoredError::NoResult { id })?,
            several => {
                let short = |id: &&str| (short_hashes(id), String::new());
                let choices = several.iter().take(5).map(short).collect();
                Err(StoredError::Ambiguous { name: id, choices })?
            }
        }
    }
}

/// Whether a row is the one that is asked for; a workload stands for its rows.
pub(super) fn is_row(row: &str, wanted: &str) -> bool {
    row == wanted || row.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(':'))
}
