//! Updates the index: adds new files of the store, and removes those that the store no longer has.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Index, UnreadableFiles};
use crate::store::{Store, StoreError};
use ktax_host::disk::map_parts;
use ktax_host::text::counted;
use ktax_model::{
    Comparison, ComparisonMethod, GuestSide, LedgerMethod, LedgerTable, METRICS, Measurement,
    Result, Saved, SavedResult, Side, Sides, Signature, fact,
};
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::json;

/// Number of objects that are read and written at a time, in some tenths of a second. Between
/// batches other processes can write.
const BATCH_FILES: usize = 256;

/// Last second of the year 9999: SQLite's dates have years of four digits.
const MAX_TIME: i64 = 253_402_300_799;

/// Number of new files from which the update is reported; reading them takes half a second.
const REPORTED_FILES: usize = 1024;

impl Index {
    /// Updates the index, and returns the files that could not be read. Calls `note` if the update
    /// is long.
    pub(super) fn fill(&mut self, note: &dyn Fn(&str)) -> Result<UnreadableFiles> {
        let store = self.store.clone();
        let list = |store: &Store| store.objects();
        let read = |store: &Store, path: &Path| Ok(IndexEntry::from_measurement(store.read(path)?));
        let mut unreadable = self.update_table("measurement", &store, list, read, note)?;
        let list = |store: &Store| store.results();
        let read = |store: &Store, path: &Path| {
            Ok(IndexEntry::Result(ResultEntry::describe(&store.read_result(path)?)))
        };
        unreadable.extend(self.update_table("result", &store, list, read, note)?);
        self.update_tags()?;
        Ok(unreadable)
    }

    /// Updates a table from the files that `list` returns.
    fn update_table(
        &mut self,
        table: &str,
        store: &Store,
        list: impl Fn(&Store) -> Result<Vec<PathBuf>, StoreError>,
        read: impl Fn(&Store, &Path) -> Result<IndexEntry, StoreError> + Sync,
        note: &dyn Fn(&str),
    ) -> Result<UnreadableFiles> {
        let to_error = self.error_converter();
        // The table is read before the files are listed, so that a file that another ktax adds
        // meanwhile does not look removed.
        let known = read_stamps(&self.db, table).map_err(&to_error)?;
        let stamped = |part: &mut [PathBuf]| -> Vec<_> {
            part.iter_mut().filter_map(|path| stored_file(std::mem::take(path))).collect()
        };
        let files: BTreeMap<String, IndexedFile> =
            map_parts(&mut list(store)?, stamped).into_iter().flatten().collect();
        let is_unchanged = |(name, stamp): &(&String, &String)| {
            files.get(*name).is_some_and(|file| file.stamp == **stamp)
        };
        let removed: Vec<&String> =
            known.iter().filter(|file| !is_unchanged(file)).map(|(name, _)| name).collect();
        let is_new = |file: &&IndexedFile| known.get(&file.name) != Some(&file.stamp);
        let new: Vec<&IndexedFile> = files.values().filter(is_new).collect();
        if !removed.is_empty() {
            delete_objects(&mut self.db, table, &removed).map_err(&to_error)?;
        }
        if new.len() >= REPORTED_FILES {
            note(&format!("reading {} into the index of the store", counted(new.len(), table)));
        }
        let mut unreadable = UnreadableFiles::new();
        for batch in new.chunks(BATCH_FILES) {
            let mut entries = Vec::new();
            let read = |part: &mut [&IndexedFile]| -> Vec<_> {
                part.iter().map(|file| read(store, &file.path)).collect()
            };
            let found = map_parts(&mut batch.to_vec(), read);
            for (file, entry) in batch.iter().zip(found.into_iter().flatten()) {
                match entry {
                    Ok(entry) => entries.push((*file, entry)),
                    Err(error) => unreadable.push(error),
                }
            }
            add_entries(&mut self.db, &entries).map_err(&to_error)?;
        }
        Ok(unreadable)
    }

    /// Replaces the tags, if the store's tags differ.
    fn update_tags(&mut self) -> Result<()> {
        let to_error = self.error_converter();
        let tags = self.store.tags()?.into_iter();
        let stored_tags: BTreeSet<[String; 3]> =
            tags.map(|(name, subject)| [name, subject.kernel_sha256, subject.boot_line]).collect();
        if stored_tags != read_tags(&self.db).map_err(&to_error)? {
            write_tags(&mut self.db, &stored_tags).map_err(&to_error)?;
        }
        Ok(())
    }
}

/// Name without the suffix, and metadata of a file; `None` if the file does not exist.
fn stored_file(path: PathBuf) -> Option<(String, IndexedFile)> {
    let name = path.file_name()?.to_str()?.split('.').next()?.to_owned();
    // The file may have been removed since it was listed.
    let metadata = fs::metadata(&path).ok()?;
    let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
    let stamp = format!("{} {seconds}.{nanoseconds:09}", metadata.len());
    let kept_at = metadata.mtime().clamp(0, MAX_TIME);
    Some((name.clone(), IndexedFile { name, path, stamp, kept_at }))
}

/// Stamps of the objects in a table.
fn read_stamps(db: &Connection, table: &str) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = db.prepare(&format!("SELECT object, stamp FROM {table}"))?;
    statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Deletes objects from a table, with the rows of other tables that only they used.
fn delete_objects(db: &mut Connection, table: &str, names: &[&String]) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for name in names {
        transaction.execute(&format!("DELETE FROM {table} WHERE object = ?1"), [name])?;
    }
    for table in ["subject", "workload", "conditions"] {
        let orphans =
            format!("DELETE FROM {table} WHERE id NOT IN (SELECT {table} FROM measurement)");
        transaction.execute(&orphans, ())?;
    }
    transaction.execute("DELETE FROM kernel WHERE id NOT IN (SELECT kernel FROM subject)", ())?;
    transaction.commit()
}

fn read_tags(db: &Connection) -> rusqlite::Result<BTreeSet<[String; 3]>> {
    let mut statement = db.prepare("SELECT name, kernel_sha256, boot_line FROM tag")?;
    statement.query_map((), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?.collect()
}

fn write_tags(db: &mut Connection, tags: &BTreeSet<[String; 3]>) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("DELETE FROM tag", ())?;
    for [name, kernel_sha256, boot_line] in tags {
        let tag = [name, kernel_sha256, boot_line];
        transaction.execute("INSERT INTO tag VALUES (?1, ?2, ?3)", tag)?;
    }
    transaction.commit()
}

/// A file of the store.
pub(super) struct IndexedFile {
    pub name: String,
    pub path: PathBuf,
    /// Size and modification time, by which a replaced file is detected.
    pub stamp: String,
    /// Modification time, in seconds since 1970.
    pub kept_at: i64,
}

/// Content of a file of the store, for the index.
pub(super) enum IndexEntry {
    Measurement(Box<Measurement>),
    Result(ResultEntry),
}

impl IndexEntry {
    /// Entry of a measurement. Its profiles are dropped, because they are not in the index.
    pub fn from_measurement(mut measurement: Measurement) -> IndexEntry {
        measurement.layouts.iter_mut().for_each(|layout| layout.profile = String::new());
        IndexEntry::Measurement(Box::new(measurement))
    }
}

/// Adds entries. Entries that another ktax has added meanwhile are not replaced.
fn add_entries(
    db: &mut Connection,
    entries: &[(&IndexedFile, IndexEntry)],
) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (file, entry) in entries {
        match entry {
            IndexEntry::Measurement(measurement) => {
                add_measurement(&transaction, file, measurement)?
            }
            IndexEntry::Result(result) => add_result(&transaction, file, result)?,
        }
    }
    transaction.commit()
}

fn add_result(db: &Connection, file: &IndexedFile, entry: &ResultEntry) -> rusqlite::Result<()> {
    let ResultEntry { kind, title, headline, rows, kernels, aliases } = entry;
    let (rows, kernels) = (rows.join("\n"), kernels.join("\n"));
    db.prepare_cached(
        "INSERT OR IGNORE INTO result (object, stamp, kind, title, headline, rows, kernels, \
         kept_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        file.name,
        file.stamp,
        kind,
        title,
        headline,
        rows,
        kernels,
        file.kept_at
    ])?;
    let query = "SELECT id FROM result WHERE object = ?1";
    let result: i64 = db.query_row(query, [&file.name], |row| row.get(0))?;
    let mut alias = db.prepare_cached("INSERT OR IGNORE INTO alias VALUES (?1, ?2, ?3, ?4)")?;
    for [sha256, asked, source] in aliases {
        alias.execute(params![result, sha256, asked, source])?;
    }
    Ok(())
}

fn add_measurement(
    db: &Connection,
    file: &IndexedFile,
    measurement: &Measurement,
) -> rusqlite::Result<()> {
    let subject = subject_id(db, measurement)?;
    let conditions = conditions_id(db, measurement)?;
    let workload = workload_id(db, measurement)?;
    // Signatures of the layouts; only planned signatures are stored, because others are failures.
    let signatures: Vec<&Signature> =
        measurement.layouts.iter().map(|layout| &layout.sample.signature).collect();
    let inserted = db
        .prepare_cached(
            "INSERT OR IGNORE INTO measurement (object, stamp, subject, conditions, workload, \
             asked, source, signature, kept_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            file.name,
            file.stamp,
            subject,
            conditions,
            workload,
            measurement.subject.kernel,
            measurement.kernel.source,
            json!(signatures).to_string(),
            file.kept_at
        ])?;
    if inserted == 0 {
        return Ok(());
    }
    let added = db.last_insert_rowid();
    let mut value = db.prepare_cached("INSERT INTO value VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for metric in &METRICS {
        for (layout, measured) in (0_i64..).zip(&measurement.layouts) {
            if !metric.is_measured_in(&measured.sample) {
                continue;
            }
            let [raw, whole] =
                [metric.raw_count(&measured.sample), metric.threshold_base(&measured.sample)]
                    .map(clamp_to_i64);
            value.execute(params![added, metric.name, layout, raw, whole])?;
        }
    }
    Ok(())
}

/// Id of the subject's row. The update without an effect makes SQLite return an existing row's id.
fn subject_id(db: &Connection, measurement: &Measurement) -> rusqlite::Result<i64> {
    let kernel = &measurement.kernel;
    let kernel_id: i64 = db
        .prepare_cached(
            "INSERT INTO kernel (sha256, name, package_date, arch) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (sha256) DO UPDATE SET sha256 = sha256 RETURNING id",
        )?
        .query_row(
            params![
                measurement.measurand.kernel_sha256,
                kernel.name(),
                kernel.package_date,
                kernel.arch.name()
            ],
            |row| row.get(0),
        )?;
    db.prepare_cached(
        "INSERT INTO subject (kernel, boot_line) VALUES (?1, ?2) \
         ON CONFLICT (kernel, boot_line) DO UPDATE SET boot_line = boot_line RETURNING id",
    )?
    .query_row(params![kernel_id, measurement.measurand.boot_line], |row| row.get(0))
}

/// Id of the row of a measurement's conditions.
fn conditions_id(db: &Connection, measurement: &Measurement) -> rusqlite::Result<i64> {
    let measurand = &measurement.measurand;
    let json =
        json!({ "key": measurand.key, "machine": measurand.machine, "layouts": measurand.layouts })
            .to_string();
    let layouts = i64::try_from(measurand.layouts.len()).unwrap_or(i64::MAX);
    db.prepare_cached(
        "INSERT INTO conditions (json, engine, qemu, machine, cpu, memory_mib, guest, layouts, \
         seed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
         ON CONFLICT (json) DO UPDATE SET json = json RETURNING id",
    )?
    .query_row(
        params![
            json,
            measurand.key.engine,
            measurand.key.qemu,
            measurand.key.machine_type,
            measurand.machine.cpu,
            measurand.machine.memory_mib,
            measurand.key.guest,
            layouts,
            measurement.seed.to_string()
        ],
        |row| row.get(0),
    )
}

/// Id of the row of a measurement's workload.
fn workload_id(db: &Connection, measurement: &Measurement) -> rusqlite::Result<i64> {
    let workload = &measurement.measurand.workload;
    db.prepare_cached(
        "INSERT INTO workload (json, row, operation, ops) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (json) DO UPDATE SET json = json RETURNING id",
    )?
    .query_row(
        params![
            json!(workload).to_string(),
            workload.row,
            workload.operation,
            clamp_to_i64(workload.ops)
        ],
        |row| row.get(0),
    )
}

/// Converts a count for SQLite, whose largest integer no real count reaches.
fn clamp_to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Summary of a result for the index.
pub(super) struct ResultEntry {
    pub kind: &'static str,
    pub title: String,
    pub headline: String,
    pub rows: Vec<String>,
    /// Names of the kernels that were measured.
    pub kernels: Vec<String>,
    /// SHA-256 of each image, the name by which the user requested the image, and the image's
    /// source. A measurement has only the names of its own run.
    pub aliases: Vec<[String; 3]>,
}

impl ResultEntry {
    pub fn describe(saved: &Saved) -> ResultEntry {
        let headline = saved.headline.clone();
        let (kind, title, rows, kernels) = match &saved.result {
            SavedResult::Comparison(comparison) => {
                let rows = comparison.rows.iter().map(|row| row.row.clone()).collect();
                ("comparison", comparison.title.clone(), rows, compared_kernels(comparison))
            }
            SavedResult::Ledger(ledger) => {
                let rows = ledger.rows.iter().map(|row| row.row.clone()).collect();
                ("ledger", ledger.title.clone(), rows, ledger_kernels(ledger))
            }
            // A bisection does not store its kernels, only commits, options, patches or parameters.
            SavedResult::Bisection(bisection) => {
                ("bisection", bisection.title.clone(), vec![bisection.row.clone()], Vec::new())
            }
            SavedResult::Stat(_) => ("stat", String::new(), Vec::new(), Vec::new()),
            SavedResult::Native(_) => ("workloads", String::new(), Vec::new(), Vec::new()),
            SavedResult::Exits(_) => ("exits", String::new(), Vec::new(), Vec::new()),
            SavedResult::Calibration(_) => ("calibration", String::new(), Vec::new(), Vec::new()),
            SavedResult::Validation(validation) => {
                let rows = validation.rows.iter().map(|row| row.row.clone()).collect();
                ("validation", validation.title.clone(), rows, Vec::new())
            }
            SavedResult::History(_) => ("history", String::new(), Vec::new(), Vec::new()),
            SavedResult::ExitDiff(_) => ("exits diff", String::new(), Vec::new(), Vec::new()),
        };
        let aliases = kernel_aliases(&saved.result);
        ResultEntry { kind, title, headline, rows, kernels, aliases }
    }
}

/// Names of the compared kernels; empty for other results.
fn kernel_aliases(result: &SavedResult) -> Vec<[String; 3]> {
    let counts = match result {
        SavedResult::Comparison(comparison) => comparison.counts(),
        _ => None,
    };
    counts.map_or(Vec::new(), |counts| {
        let alias = |side| {
            let kernel = counts.kernels.get(side).clone();
            [kernel.sha256, counts.asked.subjects.get(side).kernel.clone(), kernel.source]
        };
        Side::BOTH.map(alias).to_vec()
    })
}

fn compared_kernels(comparison: &Comparison) -> Vec<String> {
    match &comparison.method {
        ComparisonMethod::Counts(counts) => {
            let Sides { base, change } = &counts.kernels;
            [base, change].map(|kernel| kernel.name().to_owned()).to_vec()
        }
        // The plan has the kernels of guests. The running kernel is in the facts of the machine.
        ComparisonMethod::Times(times) => {
            let planned = times.plan.kernels.values().map(|kernel| kernel.name().to_owned());
            let facts = Side::BOTH.map(|side| times.facts.get(side).get(fact::KERNEL).cloned());
            planned.chain(facts.into_iter().flatten()).collect()
        }
        ComparisonMethod::Guests(guests) => {
            let sides = [Some(&guests.plan.asked.base), guests.plan.asked.change.as_ref()];
            let names = sides.into_iter().flatten().filter_map(guest_kernel_name);
            [guests.plan.host_kernel.name().to_owned()].into_iter().chain(names).collect()
        }
    }
}

fn ledger_kernels(ledger: &LedgerTable) -> Vec<String> {
    match &ledger.method {
        LedgerMethod::Counts { base, .. } => vec![base.0.clone()],
        LedgerMethod::Guests(plan) => {
            let guest = guest_kernel_name(&plan.asked.base);
            [plan.host_kernel.name().to_owned()].into_iter().chain(guest).collect()
        }
    }
}

fn guest_kernel_name(side: &GuestSide) -> Option<String> {
    Some(side.kernel.as_ref()?.name().to_owned())
}
