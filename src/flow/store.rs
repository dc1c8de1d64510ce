//! Takes measurements from the store before a run, keeps new measurements after the run, and
//! imports measurements of other stores and runs.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Error;
use super::results::saved;
use super::session::{Session, user_directory};
use crate::model::{CountsPlan, ErrorContext, ErrorKind};
use crate::report::{Document, Report};
use crate::rundir::{AnyRunDir, RunDir};
use crate::store::{
    PutOutcome, SideRow, Store, StoreError, TaggedSubject, measured, side_rows, write_stored,
};
use crate::text::counted;

/// Copies measurements of the store into a run directory, except those drawn for verification.
/// Returns the groups that must be measured, and then kept; none without a store.
pub(super) fn take(dir: &RunDir<CountsPlan>, session: &Session<'_>) -> Result<Vec<SideRow>, Error> {
    let Some(used) = &session.store else { return Ok(Vec::new()) };
    let groups = side_rows(dir.plan());
    let (total, mut missing) = (groups.len(), Vec::new());
    for group in groups {
        if session.is_cancelled() || group.is_begun(dir)? {
            missing.push(group);
            continue;
        }
        match used.store.get(&group.measurand) {
            Ok(Some(measurement)) if !is_drawn_for_verification(used.verify_percent) => {
                write_stored(dir, &group, &measurement)?;
                continue;
            }
            Ok(_) => {}
            // Leave the file for the ktax that wrote it.
            Err(error @ StoreError::OtherVersion { .. }) => note_once(session, used, &error),
            Err(error @ StoreError::Damaged { .. }) => {
                session.observer.note(&error.to_string());
                // In a read-only store the file stays. The group is measured all the same.
                if let Err(error) = used.store.move_aside(&used.store.path(&group.measurand)) {
                    session.observer.note(&error.to_string());
                }
            }
            Err(error) => {
                note_once(session, used, &error);
                return Ok(Vec::new());
            }
        }
        missing.push(group);
    }
    if missing.len() < total {
        let (taken, measurements) = (total - missing.len(), counted(total, "measurement"));
        session.observer.note(&format!("{taken} of {measurements} are from the store"));
    }
    Ok(missing)
}

/// Keeps the new measurements of a run directory in the store. If the store cannot be written, the
/// reason is noted.
pub(super) fn keep(
    groups: &[SideRow],
    dir: &RunDir<CountsPlan>,
    session: &Session<'_>,
) -> Result<(), Error> {
    let Some(used) = &session.store else { return Ok(()) };
    for group in groups {
        match put_group(&used.store, dir, group) {
            Ok(PutOutcome::Other(object)) => {
                return Err(mismatch(&used.store, &object, dir, group).into());
            }
            Ok(_) => {}
            Err(error @ (StoreError::OtherVersion { .. } | StoreError::Unsound { .. })) => {
                note_once(session, used, &error);
            }
            Err(error) => {
                note_once(session, used, &error);
                break;
            }
        }
    }
    Ok(())
}

/// Error for a new measurement whose counts differ from the stored one; one of them is wrong. The
/// new measurement stays in its directory, and the stored one is moved aside.
fn mismatch(store: &Store, object: &Path, dir: &RunDir<CountsPlan>, group: &SideRow) -> StoreError {
    let became = match store.move_aside(object) {
        Ok(to) => format!("was moved to {}", to.display()),
        Err(error) => format!("is still there ({error})"),
    };
    StoreError::Mismatch {
        row: format!("{} of the {}", group.row(), group.side.name()),
        object: object.display().to_string(),
        became,
        directory: dir.root().display().to_string(),
    }
}

/// Keeps a result, so that `ktax log` lists it. A failure is noted.
pub(super) fn keep_result(result: &dyn Report, session: &Session<'_>) {
    if let Some(used) = &session.store {
        if let Err(error) = used.store.put_result(&Document::from(result).saved()) {
            note_once(session, used, &error);
        }
    }
}

/// Notes once why the store cannot be used.
fn note_once(session: &Session<'_>, used: &UsedStore, error: &StoreError) {
    if used.is_first_error() {
        session.observer.note(&format!("{error}, or give --no-store"));
    }
}

/// Keeps the measurement of a group. A group without one counts as kept.
fn put_group(
    store: &Store,
    dir: &RunDir<CountsPlan>,
    group: &SideRow,
) -> Result<PutOutcome, StoreError> {
    measured(dir, group)?.map_or(Ok(PutOutcome::Same), |measurement| store.put(&measurement))
}

/// Draws whether a measurement is verified. With the seed of the run, the same measurements would
/// be drawn each time.
fn is_drawn_for_verification(percent: f64) -> bool {
    let draw = RandomState::new().build_hasher().finish();
    (draw >> 11) as f64 / (1_u64 << 53) as f64 * 100.0 < percent
}

/// Removes unfinished files of killed processes and files that were moved aside, and returns their
/// paths. Directories that were moved aside are only removed if they are empty, because ktax did
/// not create them.
pub fn clean_store(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    for path in Store::new(root.to_owned()).leftovers()? {
        let is_dir = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        let removal = if is_dir { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        match removal {
            Ok(()) => removed.push(path),
            // Another ktax has removed the path, or the directory has files.
            Err(error) if [NotFound, DirectoryNotEmpty].contains(&error.kind()) => {}
            Err(error) => {
                let next = "make the store writable, or remove the file yourself";
                Err(error).or_host(format!("cannot remove {}", path.display()), next)?;
            }
        }
    }
    Ok(removed)
}

/// Store of a session.
#[derive(Debug, Clone)]
pub struct UsedStore {
    pub store: Store,
    /// Percentage of the stored measurements that are made again and must have the same counts.
    pub verify_percent: f64,
    /// True if a note has told the user that the store cannot be used.
    has_noted_error: Arc<AtomicBool>,
}

impl UsedStore {
    /// Store in a directory, which need not exist yet.
    pub fn new(root: PathBuf, verify_percent: f64) -> UsedStore {
        let has_noted_error = Arc::default();
        UsedStore { store: Store::new(root), verify_percent, has_noted_error }
    }

    /// Returns true on the first call, so that only the first error is noted.
    fn is_first_error(&self) -> bool {
        !self.has_noted_error.swap(true, Ordering::Relaxed)
    }
}

/// Directory of the store: `named`, else `KTAX_STORE`, else `ktax/store` in the user's data
/// directory. `None` if `KTAX_STORE` is empty, or the user has no data directory.
pub fn store_directory(named: Option<&Path>) -> Option<PathBuf> {
    match (named, std::env::var_os("KTAX_STORE")) {
        (Some(named), _) => std::path::absolute(named).ok(),
        (None, Some(from_environment)) if from_environment.is_empty() => None,
        (None, Some(from_environment)) => std::path::absolute(from_environment).ok(),
        (None, None) => {
            user_directory("XDG_DATA_HOME", ".local/share").map(|dir| dir.join("store"))
        }
    }
}

/// Additions of an import to a store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    pub measurements: usize,
    pub results: usize,
    pub tags: usize,
    /// Reasons why files were not kept: a file is damaged or of another version of ktax, or its
    /// counts differ from the store's.
    pub refused: Vec<String>,
}

impl ImportSummary {
    /// Counts a measurement. If the store's counts differ, the measurement is refused, because
    /// either may be wrong.
    fn measurement(
        &mut self,
        kept: Result<PutOutcome, StoreError>,
        row: &str,
        other: &Path,
    ) -> Result<(), Error> {
        match kept {
            Ok(PutOutcome::New) => self.measurements += 1,
            Ok(PutOutcome::Same) => {}
            Ok(PutOutcome::Other(object)) => self.refused.push(
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

    /// Counts a result.
    fn result(&mut self, is_new: Result<bool, StoreError>) -> Result<(), Error> {
        match is_new {
            Ok(is_new) => self.results += usize::from(is_new),
            Err(error) => self.refuse(error)?,
        }
        Ok(())
    }

    /// Records a file of another store that cannot be read; other files are still copied.
    fn refuse_unreadable(&mut self, error: StoreError) {
        self.refused.push(error.to_string());
    }

    /// Records an error of one file, and passes on errors of the disk, which affect all files.
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

impl std::ops::AddAssign for ImportSummary {
    fn add_assign(&mut self, more: ImportSummary) {
        self.measurements += more.measurements;
        self.results += more.results;
        self.tags += more.tags;
        self.refused.extend(more.refused);
    }
}

/// Copies a store into another: measurements, results, and tags whose names are not in use.
pub fn copy_store(from: &Path, to: &Path) -> Result<ImportSummary, Error> {
    let [from, to] = [from, to].map(|root| Store::new(root.to_owned()));
    let mut added = ImportSummary::default();
    for object in from.objects()? {
        match from.read(&object) {
            Ok(measurement) => {
                let row = &measurement.measurand.workload.row;
                added.measurement(to.put(&measurement), row, &object)?;
            }
            Err(error) => added.refuse_unreadable(error),
        }
    }
    for result in from.results()? {
        match from.read_result(&result) {
            Ok(result) => added.result(to.put_result(&result))?,
            Err(error) => added.refuse_unreadable(error),
        }
    }
    let known: BTreeMap<String, TaggedSubject> = to.tags()?.into_iter().collect();
    for (name, tagged) in from.tags()? {
        match known.get(&name) {
            None => {
                to.tag(&name, &tagged)?;
                added.tags += 1;
            }
            Some(existing) if *existing != tagged => added.refused.push(format!(
                "the tag {name} of {} names another subject than here, and was not copied",
                from.root().display()
            )),
            Some(_) => {}
        }
    }
    Ok(added)
}

/// Returns true if a directory has the files of a store.
pub fn is_store(path: &Path) -> Result<bool, Error> {
    let store = Store::new(path.to_owned());
    let is_run = path.join("plan.json").exists();
    let has_files = || -> Result<bool, StoreError> {
        Ok(!store.objects()?.is_empty()
            || !store.results()?.is_empty()
            || !store.tags()?.is_empty())
    };
    Ok(path.is_dir() && !is_run && has_files()?)
}

/// Imports the measurements of a run directory of counts, and every result that `ktax report` can
/// print, including the results in a page.
pub fn import(path: &Path, store: &Path) -> Result<ImportSummary, Error> {
    let store = Store::new(store.to_owned());
    let mut added = ImportSummary::default();
    // A path that is no run directory of counts may still have results.
    let counts = match AnyRunDir::open(path) {
        Ok(AnyRunDir::Counts(dir)) => Some(dir),
        _ => None,
    };
    if let Some(dir) = &counts {
        for group in side_rows(dir.plan()) {
            let row = format!("{} of the {}", group.row(), group.side.name());
            added.measurement(put_group(&store, dir, &group), &row, dir.root())?;
        }
    }
    match saved(&[path.to_owned()]) {
        // A stopped run has measurements, but no result.
        Err(error) if error.kind == ErrorKind::NoComparison && counts.is_some() => {}
        results => {
            for result in results? {
                added.result(store.put_result(&result))?;
            }
        }
    }
    Ok(added)
}
