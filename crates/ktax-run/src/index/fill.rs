//! What the store has and the index has not, and the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::described::Described;
use super::error::{IndexError, Passed};
use super::insert::{Entry, IndexedFile, add};
use super::open::Index;
use crate::store::{Store, StoreError};
use ktax_host::disk::in_parts;
use ktax_host::text::counted;

/// Objects that are read before others may write: some tenths of a second.
const BATCH: usize = 256;

/// The last second of the year 9999.
const LATEST: i64 = 253_402_300_799;

/// To read so many takes half a second.
const MANY: usize = 1024;

impl Index {
    /// Brings the index up to date; `note` is told where that takes a while.
    pub(super) fn fill(&mut self, note: &dyn Fn(&str)) -> Result<Passed, IndexError> {
        let store = self.store.clone();
        let list = |store: &Store| store.objects();
        let read = |store: &Store, path: &Path| Ok(Entry::of_measurement(store.read(path)?));
        let mut passed = self.update("measurement", &store, list, read, note)?;
        let list = |store: &Store| store.results();
        let read = |store: &Store, path: &Path| {
            Ok(Entry::Result(Described::of(&store.read_result(path)?)))
        };
        passed.extend(self.update("result", &store, list, read, note)?);
        self.fill_tags()?;
        Ok(passed)
    }

    /// Makes a table have what these files have.
    fn update(
        &mut self,
        table: &str,
        store: &Store,
        list: impl Fn(&Store) -> Result<Vec<PathBuf>, StoreError>,
        read: impl Fn(&Store, &Path) -> Result<Entry, StoreError> + Sync,
        note: &dyn Fn(&str),
    ) -> Result<Passed, IndexError> {
        let failed = self.failed();
        // Before the files are listed: what another ktax adds meanwhile is not taken for gone.
        let known = stamps(&self.db, table).map_err(&failed)?;
        let stamped = |part: &mut [PathBuf]| -> Vec<_> {
            part.iter_mut().filter_map(|path| file(std::mem::take(path))).collect()
        };
        let there: BTreeMap<String, IndexedFile> =
            in_parts(&mut list(store)?, stamped).into_iter().flatten().collect();
        let is_there = |(name, stamp): &(&String, &String)| {
            there.get(*name).is_some_and(|file| file.stamp == **stamp)
        };
        let gone: Vec<&String> =
            known.iter().filter(|it| !is_there(it)).map(|(name, _)| name).collect();
        let is_new = |file: &&IndexedFile| known.get(&file.name) != Some(&file.stamp);
        let new: Vec<&IndexedFile> = there.values().filter(is_new).collect();
        if !gone.is_empty() {
            forget(&mut self.db, table, &gone).map_err(&failed)?;
        }
        if new.len() >= MANY {
            note(&format!("reading {} into the index of the store", counted(new.len(), table)));
        }
        let mut passed = Passed::new();
        for batch in new.chunks(BATCH) {
            let mut entries = Vec::new();
            let read = |part: &mut [&IndexedFile]| -> Vec<_> {
                part.iter().map(|file| read(store, &file.path)).collect()
            };
            let all = in_parts(&mut batch.to_vec(), read);
            for (file, entry) in batch.iter().zip(all.into_iter().flatten()) {
                match entry {
                    Ok(entry) => entries.push((*file, entry)),
                    Err(error) => passed.push(error),
                }
            }
            add(&mut self.db, &entries).map_err(&failed)?;
        }
        Ok(passed)
    }

    /// Tags change: they are compared, and written where they differ.
    fn fill_tags(&mut self) -> Result<(), IndexError> {
        let failed = self.failed();
        let tags = self.store.tags()?.into_iter();
        let there: BTreeSet<[String; 3]> =
            tags.map(|(name, of)| [name, of.kernel_sha256, of.boot_line]).collect();
        if there != tags_of(&self.db).map_err(&failed)? {
            write_tags(&mut self.db, &there).map_err(&failed)?;
        }
        Ok(())
    }
}

/// A file that is there, by its name without what all have.
fn file(path: PathBuf) -> Option<(String, IndexedFile)> {
    let name = path.file_name()?.to_str()?.split('.').next()?.to_owned();
    // One that is gone meanwhile is gone.
    let found = fs::metadata(&path).ok()?;
    let stamp = format!("{} {}.{:09}", found.len(), found.mtime(), found.mtime_nsec());
    // SQLite and people count years with four digits.
    let kept_at = found.mtime().clamp(0, LATEST);
    Some((name.clone(), IndexedFile { name, path, stamp, kept_at }))
}

fn stamps(db: &Connection, table: &str) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut all = db.prepare(&format!("SELECT object, stamp FROM {table}"))?;
    all.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn forget(db: &mut Connection, table: &str, gone: &[&String]) -> rusqlite::Result<()> {
    let changed = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for name in gone {
        changed.execute(&format!("DELETE FROM {table} WHERE object = ?1"), [name])?;
    }
    // What only they had is gone with them.
    for of in ["subject", "workload", "conditions"] {
        let orphans = format!("DELETE FROM {of} WHERE id NOT IN (SELECT {of} FROM measurement)");
        changed.execute(&orphans, ())?;
    }
    changed.execute("DELETE FROM kernel WHERE id NOT IN (SELECT kernel FROM subject)", ())?;
    changed.commit()
}

fn tags_of(db: &Connection) -> rusqlite::Result<BTreeSet<[String; 3]>> {
    let mut all = db.prepare("SELECT name, kernel_sha256, boot_line FROM tag")?;
    all.query_map((), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?.collect()
}

fn write_tags(db: &mut Connection, tags: &BTreeSet<[String; 3]>) -> rusqlite::Result<()> {
    let changed = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    changed.execute("DELETE FROM tag", ())?;
    for [name, kernel_sha256, boot_line] in tags {
        let tag = [name, kernel_sha256, boot_line];
        changed.execute("INSERT INTO tag VALUES (?1, ?2, ?3)", tag)?;
    }
    changed.commit()
}
