//! Fills the index: adds files that are new in the store, and removes those that are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Index, Passed};
use crate::store::{Store, StoreError};
use ktax_host::disk::in_parts;
use ktax_host::text::counted;
use ktax_model::{
    Comparison, ComparisonMethod, GuestSide, LedgerMethod, LedgerTable, METRICS, Measurement,
    Result, Saved, SavedResult, Side, Sides, Signature, fact,
};
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::json;

/// Number of objects that are read before other processes may write: some tenths of a second.
const BATCH: usize = 256;

/// Last second of the year 9999.
const LATEST: i64 = 253_402_300_799;

/// Number of files from which reading is reported: it takes half a second.
const MANY: usize = 1024;

impl Index {
    /// Brings the index up to date; `note` is told if that takes a while.
    pub(super) fn fill(&mut self, note: &dyn Fn(&str)) -> Result<Passed> {
        let store = self.store.clone();
        let list = |store: &Store| store.objects();
        let read = |store: &Store, path: &Path| Ok(IndexEntry::from_measurement(store.read(path)?));
        let mut passed = self.update("measurement", &store, list, read, note)?;
        let list = |store: &Store| store.results();
        let read = |store: &Store, path: &Path| {
            Ok(IndexEntry::Result(ResultEntry::describe(&store.read_result(path)?)))
        };
        passed.extend(self.update("result", &store, list, read, note)?);
        self.fill_tags()?;
        Ok(passed)
    }

    /// Updates a table to these files.
    fn update(
        &mut self,
        table: &str,
        store: &Store,
        list: impl Fn(&Store) -> Result<Vec<PathBuf>, StoreError>,
        read: impl Fn(&Store, &Path) -> Result<IndexEntry, StoreError> + Sync,
        note: &dyn Fn(&str),
    ) -> Result<Passed> {
        let failed = self.failed();
        // Read before the files are listed: what another ktax adds meanwhile must not look removed.
        let known = read_stamps(&self.db, table).map_err(&failed)?;
        let stamped = |part: &mut [PathBuf]| -> Vec<_> {
            part.iter_mut().filter_map(|path| stored_file(std::mem::take(path))).collect()
        };
        let there: BTreeMap<String, IndexedFile> =
            in_parts(&mut list(store)?, stamped).into_iter().flatten().collect();
        let is_there = |(name, stamp): &(&String, &String)| {
            there.get(*name).is_some_and(|file| file.stamp == **stamp)
        };
        let gone: Vec<&String> =
            known.iter().filter(|file| !is_there(file)).map(|(name, _)| name).collect();
        let is_new = |file: &&IndexedFile| known.get(&file.name) != Some(&file.stamp);
        let new: Vec<&IndexedFile> = there.values().filter(is_new).collect();
        if !gone.is_empty() {
            forget_objects(&mut self.db, table, &gone).map_err(&failed)?;
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
            let found = in_parts(&mut batch.to_vec(), read);
            for (file, entry) in batch.iter().zip(found.into_iter().flatten()) {
                match entry {
                    Ok(entry) => entries.push((*file, entry)),
                    Err(error) => passed.push(error),
                }
            }
            add_entries(&mut self.db, &entries).map_err(&failed)?;
        }
        Ok(passed)
    }

    /// Updates the tags if they differ, because tags can change.
    fn fill_tags(&mut self) -> Result<()> {
        let failed = self.failed();
        let tags = self.store.tags()?.into_iter();
        let there: BTreeSet<[String; 3]> =
            tags.map(|(name, subject)| [name, subject.kernel_sha256, subject.boot_line]).collect();
        if there != read_tags(&self.db).map_err(&failed)? {
            write_tags(&mut self.db, &there).map_err(&failed)?;
        }
        Ok(())
    }
}

/// An existing file, by its name without the suffix.
fn stored_file(path: PathBuf) -> Option<(String, IndexedFile)> {
    let name = path.file_name()?.to_str()?.split('.').next()?.to_owned();
    // A file that was removed meanwhile is skipped.
    let found = fs::metadata(&path).ok()?;
    let stamp = format!("{} {}.{:09}", found.len(), found.mtime(), found.mtime_nsec());
    // SQLite and people count years with four digits.
    let kept_at = found.mtime().clamp(0, LATEST);
    Some((name.clone(), IndexedFile { name, path, stamp, kept_at }))
}

fn read_stamps(db: &Connection, table: &str) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = db.prepare(&format!("SELECT object, stamp FROM {table}"))?;
    statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

fn forget_objects(db: &mut Connection, table: &str, gone: &[&String]) -> rusqlite::Result<()> {
    let changed = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for name in gone {
        changed.execute(&format!("DELETE FROM {table} WHERE object = ?1"), [name])?;
    }
    // Rows that only these objects used go with them.
    for table in ["subject", "workload", "conditions"] {
        let orphans =
            format!("DELETE FROM {table} WHERE id NOT IN (SELECT {table} FROM measurement)");
        changed.execute(&orphans, ())?;
    }
    changed.execute("DELETE FROM kernel WHERE id NOT IN (SELECT kernel FROM subject)", ())?;
    changed.commit()
}

fn read_tags(db: &Connection) -> rusqlite::Result<BTreeSet<[String; 3]>> {
    let mut statement = db.prepare("SELECT name, kernel_sha256, boot_line FROM tag")?;
    statement.query_map((), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?.collect()
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

/// A file of the store.
pub(super) struct IndexedFile {
    pub name: String,
    pub path: PathBuf,
    /// Size and time of writing: another file of the same name differs in it.
    pub stamp: String,
    /// Time of writing, seconds since 1970.
    pub kept_at: i64,
}

/// Content of a file of the store, for the index.
pub(super) enum IndexEntry {
    Measurement(Box<Measurement>),
    Result(ResultEntry),
}

impl IndexEntry {
    /// Takes a measurement without its profiles, which are not in the index.
    pub fn from_measurement(mut measurement: Measurement) -> IndexEntry {
        measurement.layouts.iter_mut().for_each(|layout| layout.profile = String::new());
        IndexEntry::Measurement(Box::new(measurement))
    }
}

/// Adds entries; those that another ktax has added meanwhile stay.
fn add_entries(
    db: &mut Connection,
    entries: &[(&IndexedFile, IndexEntry)],
) -> rusqlite::Result<()> {
    let changed = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (file, entry) in entries {
        match entry {
            IndexEntry::Measurement(measurement) => add_measurement(&changed, file, measurement)?,
            IndexEntry::Result(result) => add_result(&changed, file, result)?,
        }
    }
    changed.commit()
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
    // Signatures of each layout: one that is not the planned one is a failure.
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

/// Id of the subject's row. An update that changes nothing lets SQLite return the row that was
/// there.
fn subject_id(db: &Connection, measurement: &Measurement) -> rusqlite::Result<i64> {
    let kernel = &measurement.kernel;
    let known: i64 = db
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
    .query_row(params![known, measurement.measurand.boot_line], |row| row.get(0))
}

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

/// The largest number of SQLite is a bound; no region has so many instructions.
fn clamp_to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Summary of a result, so that it need not be opened.
pub(super) struct ResultEntry {
    pub kind: &'static str,
    pub title: String,
    pub headline: String,
    pub rows: Vec<String>,
    /// Names of the kernels that were measured.
    pub kernels: Vec<String>,
    /// SHA-256 of images, each with the requested name and the source. A measurement has only the
    /// names under which it was made.
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
            // A bisection keeps no kernel: its elements are commits, options, patches or
            // parameters.
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
        // The plan names the kernels of guests; the running kernel is a fact of the machine.
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
