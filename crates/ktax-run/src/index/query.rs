//! Queries of the index.

use std::collections::BTreeSet;

use rusqlite::{Params, Row};

use super::Index;
use ktax_model::{Machine, Model, Result};

/// A kernel with a boot line, of which the store has measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSubject {
    pub kernel_sha256: String,
    /// The Kernel's name: its release, else its build-id.
    pub kernel: String,
    /// Sources of the image: `debian:NAME=VERSION`, or a path. One image may have several.
    pub sources: Vec<String>,
    /// Names under which the kernel was asked for.
    pub asked: Vec<String>,
    pub boot_line: String,
    /// Rows that were measured.
    pub rows: usize,
    /// Time of the newest measurement, seconds since 1970.
    pub kept_at: i64,
}

/// A result that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    pub object: String,
    /// `comparison`, `ledger`, `bisection`.
    pub kind: String,
    pub title: String,
    /// Answer in a sentence.
    pub headline: String,
    pub rows: Vec<String>,
    pub kernels: Vec<String>,
    /// Time when it was kept, seconds since 1970.
    pub kept_at: i64,
    /// Local date when it was kept: `2026-01-31`.
    pub kept_on: String,
    /// Local time of that day: `14:03`.
    pub kept_time: String,
}

/// A measurement of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMeasurement {
    pub object: String,
    /// Id of the conditions; only counts with the same id compare.
    pub conditions: i64,
    /// Id of the workload; equal workloads have one id.
    pub workload: i64,
    pub row: String,
    /// Time when it was kept, seconds since 1970.
    pub kept_at: i64,
}

/// A measurement with its kernel, QEMU and guest programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptMeasurement {
    pub object: String,
    pub row: String,
    pub kernel_sha256: String,
    pub kernel: String,
    pub boot_line: String,
    pub qemu: String,
    pub guest: String,
    /// Time when it was kept, seconds since 1970.
    pub kept_at: i64,
}

/// Guest programs on a QEMU, and the objects that they measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instrument {
    pub guest: String,
    pub qemu: String,
    pub objects: Vec<String>,
    pub bytes: u64,
    /// Time of the newest object, seconds since 1970.
    pub kept_at: i64,
}

/// A measurement of a row in a history of kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPoint {
    pub of: StoredMeasurement,
    pub kernel_sha256: String,
    pub kernel: String,
    pub boot_line: String,
    /// Description of one operation.
    pub operation: String,
    /// Operations in one measurement.
    pub ops: u64,
    pub qemu: String,
    pub guest: String,
    /// The guest's memory and CPU model.
    pub machine: Machine,
    /// Random seed of the Layouts.
    pub seed: u64,
    /// Work signature in each Layout.
    pub signature: String,
    /// The Metric in each Layout, of all operations.
    pub raw: Vec<u64>,
    /// Counts that the threshold is a share of, in each Layout.
    pub whole: Vec<u64>,
    /// The kernel's modules that were loaded, each with its parameters.
    pub modules: Vec<String>,
    /// SHA-256 of the user's programs; empty if there were none.
    pub programs: String,
}

impl Index {
    /// All subjects, in no particular order.
    pub fn subjects(&self) -> Result<Vec<StoredSubject>> {
        const ALL: &str = "\
            SELECT kernel.sha256, kernel.name, json_group_array(DISTINCT measurement.source), \
              json_group_array(DISTINCT measurement.asked), subject.boot_line, \
              count(DISTINCT workload.row), max(measurement.kept_at) \
            FROM subject JOIN kernel ON kernel.id = subject.kernel \
            JOIN measurement ON measurement.subject = subject.id \
            JOIN workload ON workload.id = measurement.workload \
            GROUP BY subject.id";
        let texts = |json: String| -> Vec<String> {
            let mut texts: Vec<String> = serde_json::from_str(&json).unwrap_or_default();
            texts.sort();
            texts
        };
        let mut subjects = self.all(ALL, (), |row| {
            Ok(StoredSubject {
                kernel_sha256: row.get(0)?,
                kernel: row.get(1)?,
                sources: texts(row.get(2)?),
                asked: texts(row.get(3)?),
                boot_line: row.get(4)?,
                rows: usize::try_from(row.get::<_, i64>(5)?).unwrap_or(0),
                kept_at: row.get(6)?,
            })
        })?;
        // Results may have other names for the same images.
        const NAMES: &str = "SELECT DISTINCT kernel_sha256, asked, source FROM alias";
        for [sha256, asked, source] in
            self.all(NAMES, (), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
        {
            let sha256: String = sha256;
            for subject in subjects.iter_mut().filter(|subject| subject.kernel_sha256 == sha256) {
                add(&mut subject.asked, &asked);
                add(&mut subject.sources, &source);
            }
        }
        Ok(subjects)
    }

    /// All results, the newest first.
    pub fn results(&self) -> Result<Vec<StoredResult>> {
        const ALL: &str = "\
            SELECT object, kind, title, headline, rows, kernels, kept_at, \
              date(kept_at, 'unixepoch', 'localtime'), \
              strftime('%H:%M', kept_at, 'unixepoch', 'localtime') \
            FROM result ORDER BY kept_at DESC, object";
        let lines = |text: String| text.lines().map(str::to_owned).collect();
        self.all(ALL, (), |row| {
            Ok(StoredResult {
                object: row.get(0)?,
                kind: row.get(1)?,
                title: row.get(2)?,
                headline: row.get(3)?,
                rows: lines(row.get(4)?),
                kernels: lines(row.get(5)?),
                kept_at: row.get(6)?,
                kept_on: row.get(7)?,
                kept_time: row.get(8)?,
            })
        })
    }

    pub fn rows(&self) -> Result<Vec<String>> {
        self.all("SELECT DISTINCT row FROM workload ORDER BY row", (), |row| row.get(0))
    }

    pub fn measurements(
        &self,
        kernel_sha256: &str,
        boot_line: &str,
    ) -> Result<Vec<StoredMeasurement>> {
        const OF: &str = "\
            SELECT measurement.object, measurement.conditions, measurement.workload, workload.row, \
              measurement.kept_at \
            FROM measurement JOIN workload ON workload.id = measurement.workload \
            JOIN subject ON subject.id = measurement.subject \
            JOIN kernel ON kernel.id = subject.kernel \
            WHERE kernel.sha256 = ?1 AND subject.boot_line = ?2 ORDER BY measurement.object";
        self.all(OF, [kernel_sha256, boot_line], measurement)
    }

    /// All measurements, sorted by row, kernel and boot line.
    pub fn kept(&self) -> Result<Vec<KeptMeasurement>> {
        const ALL: &str = "\
            SELECT measurement.object, workload.row, kernel.sha256, kernel.name, \
              subject.boot_line, conditions.qemu, conditions.guest, measurement.kept_at \
            FROM measurement JOIN workload ON workload.id = measurement.workload \
            JOIN subject ON subject.id = measurement.subject \
            JOIN kernel ON kernel.id = subject.kernel \
            JOIN conditions ON conditions.id = measurement.conditions \
            ORDER BY kernel.name, subject.boot_line, workload.row, measurement.object";
        self.all(ALL, (), |row| {
            Ok(KeptMeasurement {
                object: row.get(0)?,
                row: row.get(1)?,
                kernel_sha256: row.get(2)?,
                kernel: row.get(3)?,
                boot_line: row.get(4)?,
                qemu: row.get(5)?,
                guest: row.get(6)?,
                kept_at: row.get(7)?,
            })
        })
    }

    /// Guest programs and QEMUs, those that measured last first; sizes are not filled in.
    pub fn instruments(&self) -> Result<Vec<Instrument>> {
        let mut instruments: Vec<Instrument> = Vec::new();
        for measurement in self.kept()? {
            let is_same = |instrument: &&mut Instrument| {
                instrument.guest == measurement.guest && instrument.qemu == measurement.qemu
            };
            match instruments.iter_mut().find(is_same) {
                Some(known) => {
                    known.kept_at = known.kept_at.max(measurement.kept_at);
                    known.objects.push(measurement.object);
                }
                None => instruments.push(Instrument {
                    guest: measurement.guest,
                    qemu: measurement.qemu,
                    objects: vec![measurement.object],
                    bytes: 0,
                    kept_at: measurement.kept_at,
                }),
            }
        }
        instruments.sort_by_key(|instrument| {
            (std::cmp::Reverse(instrument.kept_at), instrument.guest.clone())
        });
        Ok(instruments)
    }

    /// Names of the results that compare one of these kernels in one of these rows.
    pub fn results_of(&self, measured: &BTreeSet<(String, String)>) -> Result<Vec<String>> {
        const ALL: &str = "\
            SELECT DISTINCT result.object, alias.kernel_sha256, result.rows \
            FROM result JOIN alias ON alias.result = result.id ORDER BY result.object";
        let rows: Vec<[String; 3]> =
            self.all(ALL, (), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
        let is_compared = |[_, sha256, rows]: &[String; 3]| {
            rows.lines().any(|row| measured.contains(&(sha256.clone(), row.to_owned())))
        };
        let mut found: Vec<String> =
            rows.into_iter().filter(is_compared).map(|[object, ..]| object).collect();
        found.dedup();
        Ok(found)
    }

    /// All measurements of a row, or of all rows, with the values of a Metric.
    pub fn points(&self, row: Option<&str>, metric: &str) -> Result<Vec<StoredPoint>> {
        const OF: &str = "\
            SELECT measurement.object, measurement.conditions, measurement.workload, workload.row, \
              measurement.kept_at, kernel.sha256, kernel.name, subject.boot_line, \
              workload.operation, workload.ops, conditions.qemu, conditions.guest, \
              conditions.memory_mib, conditions.cpu, conditions.seed, measurement.signature, \
              (SELECT coalesce(group_concat(raw, ' '), '') FROM (SELECT raw FROM value \
                WHERE measurement = measurement.id AND metric = ?2 ORDER BY layout)), \
              (SELECT coalesce(group_concat(whole, ' '), '') FROM (SELECT whole FROM value \
                WHERE measurement = measurement.id AND metric = ?2 ORDER BY layout)), \
              coalesce(json_extract(conditions.json, '$.key.modules'), '[]'), \
              coalesce(json_extract(conditions.json, '$.key.programs'), ''), \
              coalesce(json_extract(conditions.json, '$.key.cpus'), 1), \
              json_extract(conditions.json, '$.key.quantum'), \
              json_extract(conditions.json, '$.key.model') \
            FROM measurement JOIN workload ON workload.id = measurement.workload \
            JOIN subject ON subject.id = measurement.subject \
            JOIN kernel ON kernel.id = subject.kernel \
            JOIN conditions ON conditions.id = measurement.conditions \
            WHERE ?1 IS NULL OR workload.row = ?1 ORDER BY measurement.object";
        let counts = |text: String| text.split(' ').filter_map(|word| word.parse().ok()).collect();
        self.all(OF, (row, metric), |row| {
            Ok(StoredPoint {
                of: measurement(row)?,
                kernel_sha256: row.get(5)?,
                kernel: row.get(6)?,
                boot_line: row.get(7)?,
                operation: row.get(8)?,
                ops: u64::try_from(row.get::<_, i64>(9)?).unwrap_or(1),
                qemu: row.get(10)?,
                guest: row.get(11)?,
                machine: Machine {
                    memory_mib: row.get(12)?,
                    cpu: row.get(13)?,
                    cpus: row.get(20)?,
                    quantum: row.get(21)?,
                    model: model(row.get(22)?),
                },
                seed: row.get::<_, String>(14)?.parse().unwrap_or(0),
                signature: row.get(15)?,
                raw: counts(row.get(16)?),
                whole: counts(row.get(17)?),
                modules: serde_json::from_str(&row.get::<_, String>(18)?).unwrap_or_default(),
                programs: row.get(19)?,
            })
        })
    }

    fn all<T>(
        &self,
        sql: &str,
        given: impl Params,
        make: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut query = self.db.prepare(sql).map_err(self.failed())?;
        let rows = query.query_map(given, make).map_err(self.failed())?;
        rows.collect::<rusqlite::Result<_>>().map_err(self.failed())
    }
}

fn measurement(row: &Row<'_>) -> rusqlite::Result<StoredMeasurement> {
    Ok(StoredMeasurement {
        object: row.get(0)?,
        conditions: row.get(1)?,
        workload: row.get(2)?,
        row: row.get(3)?,
        kept_at: row.get(4)?,
    })
}

/// Inserts a name in order, unless it is there.
fn add(names: &mut Vec<String>, name: &str) {
    if let Err(index) = names.binary_search_by(|known| known.as_str().cmp(name)) {
        names.insert(index, name.to_owned());
    }
}

/// Parses a model: SQLite gives a name unchanged, and a machine as JSON.
fn model(text: Option<String>) -> Option<Model> {
    let text = text?;
    serde_json::from_str(&text).or_else(|_| serde_json::from_value(text.into())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::MachineModel;

    #[test]
    fn a_model_is_a_name_or_a_machine() {
        assert_eq!(model(None), None);
        assert_eq!(model(Some("coherence".to_owned())), Some(Model::Coherence));
        assert_eq!(model(Some("nothing".to_owned())), None);
        let zen3 = include_str!("../../../../machines/zen3.toml");
        let machine: MachineModel = toml::from_str(zen3).unwrap();
        let (title, sources) = (String::new(), Vec::new());
        let machine = Model::Machine(Box::new(MachineModel { title, sources, ..machine }));
        let text = serde_json::to_string(&machine).unwrap();
        assert_eq!(model(Some(text)), Some(machine));
    }
}
