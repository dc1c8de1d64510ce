//! Answers questions about the store without measuring anything.

mod diff;
mod history;
mod names;
mod prune;
mod site;

use std::path::Path;

use thiserror::Error;

use super::error::Error;
use crate::index::{Index, StoredResult, StoredSubject};
use crate::model::{ErrorKind, Measurement, Saved};
use crate::store::{Store, StoreError, Tagged};
use crate::text::{counted, did_you_mean_quoted, escape, shell_line, shell_word, short_hashes};
use names::Names;

pub use diff::DiffOrder;
pub(super) use diff::compare;
#[cfg(test)]
pub(crate) use diff::stored_plan;
pub use history::HistoryOrder;
pub use prune::{Prunable, Prune, PruneOrder, short_guest};

/// Store with its index.
pub struct Stored {
    store: Store,
    index: Index,
}

impl Stored {
    /// Opens a store, and updates its index in the cache. `note` receives unreadable files, and a
    /// message if it takes long.
    pub fn open(root: &Path, cache: &Path, note: &dyn Fn(&str)) -> Result<Stored, Error> {
        let store = Store::new(root.to_owned());
        let (index, passed) = Index::open(cache, &store, note)?;
        if let Some(first) = passed.first() {
            let files = counted(passed.len(), "file");
            note(&format!("{files} of the store cannot be read: {first}"));
        }
        Ok(Stored { store, index })
    }

    /// File of the index, for other programs; `None` if it is in memory.
    pub fn index_path(&self) -> Option<&Path> {
        self.index.path()
    }

    fn measurement(&self, object: &str) -> Result<Measurement, StoreError> {
        self.store.read(&self.store.object(object))
    }
}

/// Reasons why the store has no answer.
#[derive(Debug, Error, PartialEq, Eq)]
// The messages say what the fields are.
#[allow(missing_docs)]
pub enum StoredError {
    #[error(
        "the store in {store} has no {name:?}{}; `ktax log --subjects` lists what it has, and \
         `{}` measures it",
        did_you_mean(.near), shell_line(.command)
    )]
    Unknown { store: String, name: String, near: Option<String>, command: Vec<String> },
    #[error("{name:?} is {}; give one of these", choices_text(.choices))]
    Ambiguous { name: String, choices: Vec<(String, String)> },
    #[error("{name:?} is a name of {subject} already; choose another")]
    Taken { name: String, subject: String },
    #[error(
        "no measurement of these has the boot line {wanted:?}; give one of {}", known.join(", ")
    )]
    NoBootLine { wanted: String, known: Vec<String> },
    #[error(
        "the store has no row of both that was measured in the same way; `{}` measures what is \
         missing",
        shell_line(.command)
    )]
    NothingInCommon { command: Vec<String> },
    #[error("{base:?} and {change:?} are the same subject; give two")]
    Same { base: String, change: String },
    #[error(
        "the store has no row {row:?}{}; `ktax history` lists what it has",
        did_you_mean(.near)
    )]
    NoRow { row: String, near: Option<String> },
    #[error(
        "none of these subjects was measured with these rows; `ktax history` without --along lists \
         what was"
    )]
    NotAlong,
    #[error("the store has no measurement yet; `ktax compare lsm` makes some")]
    Empty,
    #[error("no profile of these rows has the function {function:?}; `ktax diff` shows names")]
    NoFunction { function: String },
    #[error("there is no metric {name:?}; give one of {known}")]
    NoMetric { name: String, known: String },
    #[error("{path} is not empty, and not a site of ktax; give an empty directory")]
    NoSite { path: String },
    #[error("another ktax writes {path}; wait for it to end")]
    SiteInUse { path: String },
    #[error(
        "the tag {tag} is of a subject that would lose measurements; take it away with `ktax tag \
         --delete {tag}`, or give --tagged"
    )]
    Tagged { tag: String },
    #[error(
        "no result and no measurement begins with {id:?}; `ktax log` lists results, and `ktax \
         store prune --dry-run --subject NAME` the measurements of a subject"
    )]
    NothingKept { id: String },
    #[error("no result begins with {id:?}; `ktax log` lists them")]
    NoResult { id: String },
}

fn did_you_mean(near: &Option<String>) -> String {
    did_you_mean_quoted(near.as_deref().map(escape).as_deref())
}

fn choices_text(choices: &[(String, String)]) -> String {
    let choice = |(name, what): &(String, String)| match what.as_str() {
        "" => shell_word(name),
        what => format!("{} ({})", shell_word(name), escape(what)),
    };
    choices.iter().map(choice).collect::<Vec<String>>().join(" or ")
}

/// Filter of results.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOrder {
    /// Only results with this row.
    pub row: Option<String>,
    /// Only results with this text in the name of a kernel.
    pub kernel: Option<String>,
    /// Only results that were kept on this day or later, such as `2026-01-31`.
    pub since: Option<String>,
    /// Maximum number; the newest come first.
    pub most: Option<usize>,
}

/// Subject as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSubject {
    /// Name that every command accepts.
    pub name: String,
    pub tags: Vec<String>,
    pub subject: StoredSubject,
}

impl Stored {
    /// Results, the newest first.
    pub fn log(&self, order: &LogOrder) -> Result<Vec<StoredResult>, Error> {
        let mut results = self.index.results()?;
        results.retain(|result| {
            order.row.as_ref().is_none_or(|row| result.rows.iter().any(|known| is_row(known, row)))
                && order.since.as_ref().is_none_or(|since| result.kept_on >= *since)
                && order
                    .kernel
                    .as_ref()
                    .is_none_or(|name| result.kernels.iter().any(|k| k.contains(name)))
        });
        results.truncate(order.most.unwrap_or(usize::MAX));
        Ok(results)
    }

    /// Subjects, in the order of their kernels' versions.
    pub fn subjects(&self) -> Result<Vec<ListedSubject>, Error> {
        let names = Names::read(self)?;
        let shown = |subject: &StoredSubject| ListedSubject {
            name: names.name(subject),
            tags: names.tags(&subject.kernel_sha256, &subject.boot_line),
            subject: subject.clone(),
        };
        let mut subjects: Vec<ListedSubject> = names.subjects().iter().map(shown).collect();
        alphanumeric_sort::sort_slice_by_str_key(&mut subjects, |shown| shown.name.as_str());
        // Ambiguous names are hashes, so sort by the kernel's own name.
        subjects
            .sort_by(|a, b| alphanumeric_sort::compare_str(&a.subject.kernel, &b.subject.kernel));
        Ok(subjects)
    }

    /// Result whose name begins with `id`.
    pub fn result(&self, id: &str) -> Result<Saved, Error> {
        let results = self.index.results()?;
        let id = id.to_ascii_lowercase();
        let found: Vec<&str> = results
            .iter()
            .map(|result| result.object.as_str())
            .filter(|object| object.starts_with(&id))
            .collect();
        match found.as_slice() {
            [object] if !id.is_empty() => {
                Ok(self.store.read_result(&self.store.result_path(object))?)
            }
            [] | [_] => Err(StoredError::NoResult { id })?,
            several => {
                let short = |id: &&str| (short_hashes(id), String::new());
                let choices = several.iter().take(5).map(short).collect();
                Err(StoredError::Ambiguous { name: id, choices })?
            }
        }
    }
}

/// Whether a row is the wanted one. A workload stands for all its rows.
fn is_row(row: &str, wanted: &str) -> bool {
    row == wanted || row.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(':'))
}

impl Stored {
    /// Gives a subject a tag. Returns the subject's name, and the subject that had the tag before.
    pub fn tag(&self, name: &str, subject: &str) -> Result<(String, Option<String>), Error> {
        let names = Names::read(self)?;
        let found = names.find(subject)?;
        // A tag must not hide a kernel that a printed command names.
        match names.find_untagged(name) {
            Err(error) if error.kind == ErrorKind::Unknown => {}
            Ok(other) => Err(StoredError::Taken { name: name.into(), subject: names.name(other) })?,
            Err(error) if error.kind == ErrorKind::Ambiguous => {
                Err(StoredError::Taken { name: name.into(), subject: "several subjects".into() })?;
            }
            Err(error) => return Err(error),
        }
        let before =
            self.tags()?.into_iter().find(|(tag, _)| tag == name).map(|(_, subject)| subject);
        let (kernel_sha256, boot_line) = (found.kernel_sha256.clone(), found.boot_line.clone());
        self.store.tag(name, &Tagged { kernel_sha256, boot_line })?;
        let now = names.name(found);
        let before = before.filter(|before| *before != now);
        Ok((now, before))
    }

    /// Removes a tag. Returns whether it existed.
    pub fn untag(&self, name: &str) -> Result<bool, Error> {
        Ok(self.store.untag(name)?)
    }

    /// All tags with the names of their subjects.
    pub fn tags(&self) -> Result<Vec<(String, String)>, Error> {
        let names = Names::read(self)?;
        let tags = self.store.tags()?.into_iter();
        let named = |(tag, tagged): (String, Tagged)| {
            let name = names.subject(&tagged.kernel_sha256, &tagged.boot_line);
            let gone = || format!("{} (no measurement)", short_hashes(&tagged.kernel_sha256));
            (tag, name.map_or_else(gone, |subject| names.name(subject)))
        };
        Ok(tags.map(named).collect())
    }
}
