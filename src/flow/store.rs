//! What the store has is not measured again, and what was measured is kept there.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::saved::saved;
use super::session::Session;
use super::used_store::UsedStore;
use crate::model::CountsPlan;
use crate::report::Report;
use crate::rundir::{AnyRunDir, RunDir};
use crate::store::{
    Checked, Footprint, Group, Kept, Store, StoreError, groups, measured, place_in,
};
use crate::text::counted;

/// Puts into a run directory what the store has of it, but for what is drawn to be verified. The
/// others are to be kept once they are measured; none where there is no store.
pub(super) fn take(dir: &RunDir<CountsPlan>, session: &Session<'_>) -> Result<Vec<Group>, Error> {
    let Some(used) = &session.store else { return Ok(Vec::new()) };
    let all = groups(dir.plan());
    let (of, mut left) = (all.len(), Vec::new());
    for group in all {
        if session.is_cancelled() || group.is_begun(dir)? {
            left.push(group);
            continue;
        }
        match used.store.get(&group.of) {
            Ok(Some(measurement)) if !is_drawn(used.verify_percent) => {
                place_in(dir, &group, &measurement)?;
                continue;
            }
            Ok(_) => {}
            Err(error @ StoreError::Damaged { .. }) => {
                session.observer.note(&error.to_string());
                // A store that is read-only keeps it, and it is measured all the same.
                if let Err(error) = used.store.move_aside(&used.store.path(&group.of)) {
                    session.observer.note(&error.to_string());
                }
            }
            Err(error) => {
                say(session, used, &error);
                return Ok(Vec::new());
            }
        }
        left.push(group);
    }
    if left.len() < of {
        let (taken, of) = (of - left.len(), counted(of, "measurement"));
        session.observer.note(&format!("{taken} of {of} are from the store"));
    }
    Ok(left)
}

/// Keeps what a run directory has measured of these. A store that cannot be written loses nothing
/// of the result, and is said.
pub(super) fn keep(
    groups: &[Group],
    dir: &RunDir<CountsPlan>,
    session: &Session<'_>,
) -> Result<(), Error> {
    let Some(used) = &session.store else { return Ok(()) };
    for group in groups {
        match put(&used.store, dir, group) {
            Ok(_) => {}
            Err(error @ StoreError::Mismatch { .. }) => return Err(error.into()),
            Err(error) => {
                say(session, used, &error);
                break;
            }
        }
    }
    Ok(())
}

/// Keeps a result, so that `ktax log` lists it. A store that cannot be written is said.
pub(super) fn keep_result(result: &dyn Report, session: &Session<'_>) {
    if let Some(used) = &session.store {
        if let Err(error) = used.store.put_result(&result.saved()) {
            say(session, used, &error);
        }
    }
}

/// Says once why the store cannot be used.
fn say(session: &Session<'_>, used: &UsedStore, error: &StoreError) {
    if used.is_news() {
        session.observer.note(&error.to_string());
    }
}

/// Whether the store has something new then.
fn put(store: &Store, dir: &RunDir<CountsPlan>, group: &Group) -> Result<bool, StoreError> {
    let Some(measurement) = measured(dir, group)? else { return Ok(false) };
    match store.put(&measurement)? {
        Kept::New => Ok(true),
        Kept::Same => Ok(false),
        Kept::Other(object, quarantine) => Err(StoreError::Mismatch {
            row: format!("{} of the {}", group.row(), group.side.name()),
            object: object.display().to_string(),
            quarantine: quarantine.display().to_string(),
            directory: dir.root().display().to_string(),
        }),
    }
}

/// Draws; not from the seed of the run, or the same ones would be verified each time.
fn is_drawn(percent: f64) -> bool {
    let draw = RandomState::new().build_hasher().finish();
    (draw >> 11) as f64 / (1_u64 << 53) as f64 * 100.0 < percent
}

/// How much a store has that it had not before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Measurements.
    pub measurements: usize,
    /// Results.
    pub results: usize,
}

impl std::ops::AddAssign for Added {
    fn add_assign(&mut self, more: Added) {
        self.measurements += more.measurements;
        self.results += more.results;
    }
}

/// Copies all of one store into another: measurements, results, and tags whose names are not taken.
///
/// # Errors
/// One of them cannot be read or written, an object is damaged, or both have other counts of one
/// measurement.
pub fn copy_store(from: &Path, to: &Path) -> Result<Added, Error> {
    let [from, to] = [from, to].map(|root| Store::new(root.to_owned()));
    let mut added = Added::default();
    for object in from.objects()? {
        let measurement = from.read(&object)?;
        match to.put(&measurement)? {
            Kept::New => added.measurements += 1,
            Kept::Same => {}
            Kept::Other(known, quarantine) => {
                return Err(Error::Store(StoreError::Mismatch {
                    row: measurement.of.workload.row,
                    object: known.display().to_string(),
                    quarantine: quarantine.display().to_string(),
                    directory: object.display().to_string(),
                }));
            }
        }
    }
    for result in from.results()? {
        added.results += usize::from(to.put_result(&from.read_result(&result)?)?);
    }
    let known = to.tags()?;
    for (name, tagged) in from.tags()? {
        if !known.iter().any(|(one, _)| *one == name) {
            to.tag(&name, &tagged)?;
        }
    }
    Ok(added)
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
            added.measurements += usize::from(put(&store, dir, &group)?);
        }
    }
    match saved(&[path.to_owned()]) {
        // A run that was stopped has measurements, and no result yet.
        Err(Error::NoComparison { .. }) if counts.is_some() => {}
        results => {
            for result in results? {
                added.results += usize::from(store.put_result(&result)?);
            }
        }
    }
    Ok(added)
}

/// Looks at every object; damaged ones are moved aside.
///
/// # Errors
/// The store cannot be read or written.
pub fn check_store(root: &Path) -> Result<Checked, Error> {
    Ok(Store::new(root.to_owned()).check()?)
}

/// How much a store has.
///
/// # Errors
/// It cannot be read.
pub fn store_footprint(root: &Path) -> Result<Footprint, Error> {
    Ok(Store::new(root.to_owned()).footprint()?)
}

/// Removes what killed writers left and what was moved aside, and says what.
///
/// # Errors
/// The store cannot be read or written.
pub fn clean_store(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let left = Store::new(root.to_owned()).leftovers()?;
    for path in &left {
        std::fs::remove_file(path)?;
    }
    Ok(left)
}
