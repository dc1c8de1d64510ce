//! From a file of the store to rows of tables.

use std::path::PathBuf;

use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::json;

use super::described::Described;
use ktax_model::{METRICS, Measurement, Signature};

/// A file of the store, as the index knows it.
pub(super) struct IndexedFile {
    pub name: String,
    pub path: PathBuf,
    /// Its size, and when it was written: another file of that name has another one.
    pub stamp: String,
    /// When it was written, seconds since 1970.
    pub kept_at: i64,
}

/// What a file of the store adds.
pub(super) enum Entry {
    Measurement(Box<Measurement>),
    Result(Described),
}

impl Entry {
    /// What profiles say by function is not in the index.
    pub fn of_measurement(mut measurement: Measurement) -> Entry {
        measurement.layouts.iter_mut().for_each(|layout| layout.profile = String::new());
        Entry::Measurement(Box::new(measurement))
    }
}

/// Adds these; what another ktax has added meanwhile stays.
pub(super) fn add(db: &mut Connection, entries: &[(&IndexedFile, Entry)]) -> rusqlite::Result<()> {
    let changed = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (file, entry) in entries {
        match entry {
            Entry::Measurement(of) => add_measurement(&changed, file, of)?,
            Entry::Result(of) => add_result(&changed, file, of)?,
        }
    }
    changed.commit()
}

fn add_result(db: &Connection, file: &IndexedFile, of: &Described) -> rusqlite::Result<()> {
    let Described { kind, title, headline, rows, kernels, aliases } = of;
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
    let of_file = "SELECT id FROM result WHERE object = ?1";
    let result: i64 = db.query_row(of_file, [&file.name], |row| row.get(0))?;
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
    let subject = subject(db, measurement)?;
    let conditions = conditions(db, measurement)?;
    let workload = workload(db, measurement)?;
    // Of each layout: one whose signature is not the planned one has failed.
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
        for (layout, of) in (0_i64..).zip(&measurement.layouts) {
            if !(metric.is_in)(&of.sample) {
                continue;
            }
            let [raw, whole] = [metric.raw(&of.sample), metric.whole(&of.sample)].map(signed);
            value.execute(params![added, metric.name, layout, raw, whole])?;
        }
    }
    Ok(())
}

/// Its number. An update that changes nothing lets SQLite return the row that was there.
fn subject(db: &Connection, measurement: &Measurement) -> rusqlite::Result<i64> {
    let kernel = &measurement.kernel;
    let known: i64 = db
        .prepare_cached(
            "INSERT INTO kernel (sha256, name, package_date, arch) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (sha256) DO UPDATE SET sha256 = sha256 RETURNING id",
        )?
        .query_row(
            params![
                measurement.of.kernel_sha256,
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
    .query_row(params![known, measurement.of.boot_line], |row| row.get(0))
}

fn conditions(db: &Connection, measurement: &Measurement) -> rusqlite::Result<i64> {
    let of = &measurement.of;
    let json = json!({ "key": of.key, "machine": of.machine, "layouts": of.layouts }).to_string();
    let layouts = i64::try_from(of.layouts.len()).unwrap_or(i64::MAX);
    db.prepare_cached(
        "INSERT INTO conditions (json, engine, qemu, machine, cpu, memory_mib, guest, layouts, \
         seed) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
         ON CONFLICT (json) DO UPDATE SET json = json RETURNING id",
    )?
    .query_row(
        params![
            json,
            of.key.engine,
            of.key.qemu,
            of.key.machine,
            of.machine.cpu,
            of.machine.memory_mib,
            of.key.guest,
            layouts,
            measurement.seed.to_string()
        ],
        |row| row.get(0),
    )
}

fn workload(db: &Connection, measurement: &Measurement) -> rusqlite::Result<i64> {
    let of = &measurement.of.workload;
    db.prepare_cached(
        "INSERT INTO workload (json, row, operation, ops) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (json) DO UPDATE SET json = json RETURNING id",
    )?
    .query_row(params![json!(of).to_string(), of.row, of.operation, signed(of.ops)], |row| {
        row.get(0)
    })
}

/// SQLite has no number above this; no region has so many instructions.
fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
