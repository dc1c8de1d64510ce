//! What the store has is not measured again, and what was measured is kept there.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
use std::path::{Path, PathBuf};

use super::context::OrHost;
use super::error::Error;
use super::session::Session;
use super::used_store::UsedStore;
use crate::model::CountsPlan;
use crate::report::Report;
use crate::rundir::RunDir;
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
            // It stays for the ktax that wrote it.
            Err(error @ StoreError::OtherVersion { .. }) => say(session, used, &error),
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
            Ok(Kept::Other(object)) => {
                return Err(mismatch(&used.store, &object, dir, group).into());
            }
            Ok(_) => {}
            Err(error @ (StoreError::OtherVersion { .. } | StoreError::Unsound { .. })) => {
                say(session, used, &error);
            }
            Err(error) => {
                say(session, used, &error);
                break;
            }
        }
    }
    Ok(())
}

/// One of the two is wrong: what was measured now is in its directory, and the other one is not
/// used any more.
fn mismatch(store: &Store, object: &Path, dir: &RunDir<CountsPlan>, group: &Group) -> StoreError {
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
        session.observer.note(&format!("{error}, or give --no-store"));
    }
}

/// What became of a row; one without a measurement is as good as one that is there.
pub(super) fn put(
    store: &Store,
    dir: &RunDir<CountsPlan>,
    group: &Group,
) -> Result<Kept, StoreError> {
    measured(dir, group)?.map_or(Ok(Kept::Same), |measurement| store.put(&measurement))
}

/// Draws; not from the seed of the run, or the same ones would be verified each time.
fn is_drawn(percent: f64) -> bool {
    let draw = RandomState::new().build_hasher().finish();
    (draw >> 11) as f64 / (1_u64 << 53) as f64 * 100.0 < percent
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

/// Removes what killed writers left and what was moved aside, and says what. A directory that was
/// moved aside stays unless it is empty: ktax makes none.
///
/// # Errors
/// The store cannot be read or written.
pub fn clean_store(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    for path in Store::new(root.to_owned()).leftovers()? {
        let is_dir = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
        let gone = if is_dir { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        match gone {
            Ok(()) => removed.push(path),
            // Another ktax was first, or somebody keeps files there.
            Err(error) if [NotFound, DirectoryNotEmpty].contains(&error.kind()) => {}
            Err(error) => {
                let next = "make the store writable, or remove the file yourself";
                Err(error).context(format!("cannot remove {}", path.display()), next)?;
            }
        }
    }
    Ok(removed)
}
