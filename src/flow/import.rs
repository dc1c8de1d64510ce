//! Into a store, what was measured elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::Error;
use super::saved::saved;
use super::store::put;
use crate::rundir::AnyRunDir;
use crate::store::{Kept, Store, StoreError, Tagged, groups};

/// How much a store has that it had not before.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Measurements.
    pub measurements: usize,
    /// Results.
    pub results: usize,
    /// Tags.
    pub tags: usize,
    /// Why something was not kept: it is damaged, of another version of ktax, or has other counts
    /// than the store has of it.
    pub refused: Vec<String>,
}

impl Added {
    /// What became of a measurement. One that is there is not touched where it has other counts:
    /// nobody knows which of the two is right.
    fn measurement(
        &mut self,
        kept: Result<Kept, StoreError>,
        row: &str,
        other: &Path,
    ) -> Result<(), Error> {
        match kept {
            Ok(Kept::New) => self.measurements += 1,
            Ok(Kept::Same) => {}
            Ok(Kept::Other(object)) => self.refused.push(
                StoreError::Differs {
                    row: row.to_owned(),
                    object: object.display().to_string(),
                    other: other.display().to_string(),
                }
                .to_string(),
            ),
            Err(StoreError::Unsound { reason, .. }) => {
                let from = other.display();
                self.refused.push(format!("{row} of {from} cannot be kept: {reason}"));
            }
            Err(StoreError::RunDir(error)) => self.refused.push(format!("{row}: {error}")),
            Err(error) => self.refuse(error)?,
        }
        Ok(())
    }

    /// What became of a result.
    fn result(&mut self, is_new: Result<bool, StoreError>) -> Result<(), Error> {
        match is_new {
            Ok(is_new) => self.results += usize::from(is_new),
            Err(error) => self.refuse(error)?,
        }
        Ok(())
    }

    /// A file of elsewhere that cannot be read stops no other.
    fn unread(&mut self, error: StoreError) {
        self.refused.push(error.to_string());
    }

    /// One file that says nothing stops no other; a disk that fails stops all.
    fn refuse(&mut self, error: StoreError) -> Result<(), Error> {
        match error {
            StoreError::Io { .. } => Err(error.into()),
            error => {
                self.refused.push(error.to_string());
                Ok(())
            }
        }
    }
}

impl std::ops::AddAssign for Added {
    fn add_assign(&mut self, more: Added) {
        self.measurements += more.measurements;
        self.results += more.results;
        self.tags += more.tags;
        self.refused.extend(more.refused);
    }
}

/// Copies all of one store into another: measurements, results, and tags whose names are not taken.
///
/// # Errors
/// A file cannot be read or written.
pub fn copy_store(from: &Path, to: &Path) -> Result<Added, Error> {
    let [from, to] = [from, to].map(|root| Store::new(root.to_owned()));
    let mut added = Added::default();
    for object in from.objects()? {
        match from.read(&object) {
            Ok(measurement) => {
                let row = &measurement.of.workload.row;
                added.measurement(to.put(&measurement), row, &object)?;
            }
            Err(error) => added.unread(error),
        }
    }
    for result in from.results()? {
        match from.read_result(&result) {
            Ok(result) => added.result(to.put_result(&result))?,
            Err(error) => added.unread(error),
        }
    }
    let known: BTreeMap<String, Tagged> = to.tags()?.into_iter().collect();
    for (name, tagged) in from.tags()? {
        match known.get(&name) {
            None => {
                to.tag(&name, &tagged)?;
                added.tags += 1;
            }
            Some(there) if *there != tagged => added.refused.push(format!(
                "the tag {name} of {} is another subject than here; nothing was changed",
                from.root().display()
            )),
            Some(_) => {}
        }
    }
    Ok(added)
}

/// Whether a directory is a store: it has a file where a store has files.
///
/// # Errors
/// It cannot be read.
pub fn is_store(path: &Path) -> Result<bool, Error> {
    let store = Store::new(path.to_owned());
    let is_run = path.join("plan.json").exists();
    let has = || -> Result<bool, StoreError> {
        Ok(!store.objects()?.is_empty()
            || !store.results()?.is_empty()
            || !store.tags()?.is_empty())
    };
    Ok(path.is_dir() && !is_run && has()?)
}

/// Keeps what is in a path: of a run directory of counts the measurements, and every result that
/// `ktax report` can print, also that of a page.
///
/// # Errors
/// There is no result in the path, or the store cannot be written.
pub fn import(path: &Path, store: &Path) -> Result<Added, Error> {
    let store = Store::new(store.to_owned());
    let mut added = Added::default();
    // Any other directory may have results all the same.
    let counts = match AnyRunDir::open(path) {
        Ok(AnyRunDir::Counts(dir)) => Some(dir),
        _ => None,
    };
    if let Some(dir) = &counts {
        for group in groups(dir.plan()) {
            let row = format!("{} of the {}", group.row(), group.side.name());
            added.measurement(put(&store, dir, &group), &row, dir.root())?;
        }
    }
    match saved(&[path.to_owned()]) {
        // A run that was stopped has measurements, and no result yet.
        Err(Error::NoComparison { .. }) if counts.is_some() => {}
        results => {
            for result in results? {
                added.result(store.put_result(&result))?;
            }
        }
    }
    Ok(added)
}
