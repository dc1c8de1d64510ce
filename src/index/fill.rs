//! What the store has and the index has not, and the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rusqlite::{Connection, TransactionBehavior};

use super::error::{IndexError, Passed};
use super::insert::{Entry, add};
use super::open::Index;
use crate::store::{Store, StoreError};

/// Objects that are read before others may write: some tenths of a second.
const BATCH: usize = 256;

impl Index {
    /// Brings the index up to date.
    pub(super) fn fill(&mut self) -> Result<Passed, IndexError> {
        let failed = self.failed();
        let mut passed = Passed::new();
        let measured = self.store.objects()?;
        let read = |store: &Store, path: &Path| Ok(Entry::of_measurement(store.read(path)?));
        passed.extend(self.update("measurement", &measured, read)?);
        let results = self.store.results()?;
        let read = |store: &Store, path: &Path| Ok(Entry::of_result(&store.read_result(path)?));
        passed.extend(self.update("result", &results, read)?);
        self.fill_tags().map_err(failed)??;
        Ok(passed)
    }

    /// Makes a table have what these files have.
    fn update(
        &mut self,
        table: &str,
        paths: &[PathBuf],
        read: impl Fn(&Store, &Path) -> Result<Entry, StoreError> + Sync,
    ) -> Result<Passed, IndexError> {
        let failed = self.failed();
        let known = names(&self.db, table).map_err(&failed)?;
        let there: BTreeMap<&str, &PathBuf> = paths.iter().map(|it| (name(it), it)).collect();
        let gone: Vec<&String> =
            known.iter().filter(|name| !there.contains_key(name.as_str())).collect();
        let new: Vec<(&str, &PathBuf)> =
            there.into_iter().filter(|(name, _)| !known.contains(*name)).collect();
        if !gone.is_empty() {
            forget(&mut self.db, table, &gone).map_err(&failed)?;
        }
        let mut passed = Passed::new();
        for batch in new.chunks(BATCH) {
            let mut entries = Vec::new();
            for (name, entry) in read_all(&self.store, batch, &read) {
                match entry {
                    Ok(entry) => entries.push((name, kept_at(batch, name), entry)),
                    Err(error @ StoreError::Io { .. }) => return Err(error.into()),
                    Err(error) => passed.push(error),
                }
            }
            add(&mut self.db, &entries).map_err(&failed)?;
        }
        Ok(passed)
    }

    /// Tags change: they are compared, and written where they differ.
    fn fill_tags(&mut self) -> rusqlite::Result<Result<(), StoreError>> {
        let tags = match self.store.tags() {
            Ok(tags) => tags,
            Err(error) => return Ok(Err(error)),
        };
        let there: BTreeSet<[String; 3]> =
            tags.into_iter().map(|(name, of)| [name, of.kernel_sha256, of.boot_line]).collect();
        let known: BTreeSet<[String; 3]> = self
            .db
            .prepare("SELECT name, kernel_sha256, boot_line FROM tag")?
            .query_map((), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
            .collect::<rusqlite::Result<_>>()?;
        if there != known {
            let changed = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            changed.execute("DELETE FROM tag", ())?;
            for [name, kernel_sha256, boot_line] in &there {
                let tag = [name, kernel_sha256, boot_line];
                changed.execute("INSERT INTO tag VALUES (?1, ?2, ?3)", tag)?;
            }
            changed.commit()?;
        }
        Ok(Ok(()))
    }
}

/// The name of an object: its file's, without what all have.
fn name(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split('.').next().unwrap_or_default()
}

fn names(db: &Connection, table: &str) -> rusqlite::Result<BTreeSet<String>> {
    let mut all = db.prepare(&format!("SELECT object FROM {table}"))?;
    all.query_map((), |row| row.get(0))?.collect()
}

fn forget(db: &mut Connection, table: &str, gone: &[&String]) -> rusqlite::Result<()> {
    let changed = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for name in gone {
        changed.execute(&format!("DELETE FROM {table} WHERE object = ?1"), [name])?;
    }
    changed.commit()
}

/// Reading is unpacking: each CPU does a part.
fn read_all<'a>(
    store: &Store,
    batch: &[(&'a str, &PathBuf)],
    read: &(impl Fn(&Store, &Path) -> Result<Entry, StoreError> + Sync),
) -> Vec<(&'a str, Result<Entry, StoreError>)> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let part = |part: &'_ [(&'a str, &PathBuf)]| -> Vec<_> {
            part.iter().map(|(name, path)| (*name, read(store, path))).collect()
        };
        let parts: Vec<_> = batch
            .chunks(batch.len().div_ceil(cpus).max(1))
            .map(|chunk| scope.spawn(move || part(chunk)))
            .collect();
        parts.into_iter().flat_map(|it| it.join().expect("reading does not panic")).collect()
    })
}

/// When a file was written, seconds since 1970: objects say nothing of it.
fn kept_at(batch: &[(&str, &PathBuf)], name: &str) -> i64 {
    let path = batch.iter().find(|(one, _)| *one == name).map(|(_, path)| *path);
    let written = path.and_then(|path| fs::metadata(path).ok()?.modified().ok());
    let since = written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
