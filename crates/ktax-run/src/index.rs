//! Index of the store in SQLite, for answers about thousands of measurements at once.
//!
//! The index has no data of its own. Its file is in the cache, and is updated whenever it is
//! opened. A file that is missing, damaged or of another version is made again. If no file can be
//! made, the index is in memory.

mod fill;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ktax_host::disk::sha256;
use ktax_model::{Error, ErrorKind, Machine, Result};
use rusqlite::{Connection, ErrorCode, Params, Row, TransactionBehavior};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::store::{Store, StoreError};

const SCHEMA: &str = include_str!("index/schema.sql");

/// Version of [`SCHEMA`]. The file's name has the version, so that two versions of ktax do not
/// rebuild the same file alternately.
const VERSION: i32 = 2;

/// SQLite's application id: `ktax` in ASCII, by which file(1) recognises the file.
const APPLICATION_ID: i32 = 0x6b74_6178;

/// Time to wait for a lock of another ktax; a batch is written in a small part of this time.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Types of network file systems, from `linux/magic.h`: 9P, Ceph, CIFS and SMB, FUSE, GPFS, Lustre,
/// NFS. SQLite's write-ahead log uses shared memory, which several machines do not have.
const NETWORK_FILE_SYSTEMS: [u32; 8] = [
    0x0102_1997,
    0x00c3_6400,
    0xff53_4d42,
    0xfe53_4d42,
    0x6573_5546,
    0x4750_4653,
    0x0bd0_0bd0,
    0x6969,
];

/// The index of a store.
pub struct Index {
    db: Connection,
    pub(super) store: Store,
    path: Option<PathBuf>,
}

impl Index {
    /// Opens and updates the index of a store; the index is in memory if `cache` cannot have its
    /// file. Also returns the files of the store that could not be read. Calls `note` if the update
    /// is long.
    pub fn open(
        cache: &Path,
        store: &Store,
        note: &dyn Fn(&str),
    ) -> Result<(Index, UnreadableFiles)> {
        let path = index_file(cache, store.root());
        let open = |db: rusqlite::Result<Connection>, path: Option<&Path>| -> Result<_> {
            let (store, path) = (store.clone(), path.map(Path::to_owned));
            let db = db.map_err(sqlite_error(path.as_deref()))?;
            let mut index = Index { db, store, path };
            let unreadable = index.fill(note)?;
            Ok((index, unreadable))
        };
        match open(open_on_disk(&path), Some(&path)) {
            // The file is not damaged: another process holds its lock for long.
            Err(error) if error.kind == ErrorKind::IndexInUse => {
                return open(open_in_memory(), None);
            }
            Err(error) if error.kind == ErrorKind::IndexDamaged => {}
            result => return result,
        }
        // A damaged file is removed and made again once.
        remove_index(&path);
        match open(open_on_disk(&path), Some(&path)) {
            Err(error) if matches!(error.kind, ErrorKind::IndexInUse | ErrorKind::IndexDamaged) => {
                open(open_in_memory(), None)
            }
            result => result,
        }
    }

    /// File of the index; `None` if the index is in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Converts an error of SQLite to an error with the path of the file.
    pub(super) fn error_converter(&self) -> impl Fn(rusqlite::Error) -> Error + use<> {
        sqlite_error(self.path.as_deref())
    }
}

fn sqlite_error(path: Option<&Path>) -> impl Fn(rusqlite::Error) -> Error + use<> {
    let path = path.map_or("in memory".to_owned(), |path| path.display().to_string());
    move |reason| {
        let kind = if is_busy(&reason) { ErrorKind::IndexInUse } else { ErrorKind::IndexDamaged };
        Error::host(format!("cannot use the index {path}: {reason}"))
            .next("remove this file; ktax then makes it again")
            .kind(kind)
    }
}

fn index_file(cache: &Path, store: &Path) -> PathBuf {
    let store = fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
    let name = sha256(store.as_os_str().as_encoded_bytes());
    cache.join("index").join(format!("{}-{VERSION}.sqlite", &name[..16]))
}

fn open_on_disk(path: &Path) -> rusqlite::Result<Connection> {
    let dir = path.parent().unwrap_or(path);
    // An error here is reported when the file is opened.
    let _ = fs::create_dir_all(dir);
    if !can_lock(dir) {
        return Err(rusqlite::Error::InvalidPath(dir.to_owned()));
    }
    let mut db = Connection::open(path)?;
    db.busy_timeout(LOCK_TIMEOUT)?;
    let is_network = rustix::fs::statfs(dir)
        .is_ok_and(|stats| NETWORK_FILE_SYSTEMS.contains(&(stats.f_type as u32)));
    let journal = if is_network { "TRUNCATE" } else { "WAL" };
    db.pragma_update(None, "journal_mode", journal)?;
    // Rows that are lost in a crash are added by the next update.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    make_tables(&mut db)?;
    Ok(db)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn open_in_memory() -> rusqlite::Result<Connection> {
    let mut db = Connection::open_in_memory()?;
    make_tables(&mut db)?;
    Ok(db)
}

/// Returns true if files in a directory can be locked. On a file system without locks, SQLite would
/// wait as for a file in use.
fn can_lock(dir: &Path) -> bool {
    let probe = fs::File::options().write(true).create(true).truncate(false).open(dir.join("lock"));
    let lock = |file| rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive);
    match probe.as_ref().map(lock) {
        Ok(Ok(()) | Err(Errno::AGAIN | Errno::ACCESS)) => true,
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Makes the tables of a new file, and refuses a file of another version.
fn make_tables(db: &mut Connection) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number = |name| transaction.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, VERSION) => {}
        (0, 0) => {
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.pragma_update(None, "user_version", VERSION)?;
        }
        _ => return Err(rusqlite::Error::InvalidQuery),
    }
    transaction.commit()
}

/// Removes the file of the index and its journals. Errors are ignored; the index is then in memory.
fn remove_index(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(PathBuf::from(name));
    }
}

/// Errors of the store's files that are damaged or of another version.
pub type UnreadableFiles = Vec<StoreError>;

/// A kernel with a boot line that was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSubject {
    pub kernel_sha256: String,
    /// Name of the Kernel: its release, else its build-id.
    pub kernel: String,
    /// Sources of the image: `debian:NAME=VERSION`, or a path. An image may have several sources.
    pub sources: Vec<String>,
    /// Names by which users requested the kernel.
    pub requested_names: Vec<String>,
    pub boot_line: String,
    /// Number of rows that were measured.
    pub rows: usize,
    /// Time of the newest measurement, in seconds since 1970.
    pub kept_at: i64,
}

/// A result in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    pub object: String,
    /// `comparison`, `ledger`, `bisection`.
    pub kind: String,
    pub title: String,
    /// Sentence with the main answer.
    pub headline: String,
    pub rows: Vec<String>,
    pub kernels: Vec<String>,
    /// Time when the object was stored, in seconds since 1970.
    pub kept_at: i64,
    /// Local date when the result was stored: `2026-01-31`.
    pub kept_on: String,
    /// Local time when the result was stored: `14:03`.
    pub kept_time: String,
}

/// A measurement of a subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMeasurement {
    pub object: String,
    /// Id of the conditions; only counts with the same id can be compared.
    pub conditions: i64,
    /// Id of the workload; equal workloads have one id.
    pub workload: i64,
    pub row: String,
    /// Time when the object was stored, in seconds since 1970.
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
    /// Time when the object was stored, in seconds since 1970.
    pub kept_at: i64,
}

/// A version of the guest programs with a QEMU, and the objects that they measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instrument {
    pub guest: String,
    pub qemu: String,
    pub objects: Vec<String>,
    pub bytes: u64,
    /// Time of the newest object, in seconds since 1970.
    pub kept_at: i64,
}

/// A measurement of a row in a history of kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredPoint {
    pub measurement: StoredMeasurement,
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
    /// Count of the Metric under each Layout, for all operations.
    pub raw: Vec<u64>,
    /// Count of all work under each Layout; the threshold is a share of it.
    pub whole: Vec<u64>,
    /// Modules that were loaded, each with its parameters.
    pub modules: Vec<String>,
    /// SHA-256 of the user's programs; empty without programs.
    pub programs: String,
}

impl Index {
    /// All subjects, unsorted.
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
        let mut subjects = self.query(ALL, (), |row| {
            Ok(StoredSubject {
                kernel_sha256: row.get(0)?,
                kernel: row.get(1)?,
                sources: texts(row.get(2)?),
                requested_names: texts(row.get(3)?),
                boot_line: row.get(4)?,
                rows: usize::try_from(row.get::<_, i64>(5)?).unwrap_or(0),
                kept_at: row.get(6)?,
            })
        })?;
        // Results may have other names of the same images.
        const NAMES: &str = "SELECT DISTINCT kernel_sha256, asked, source FROM alias";
        for [sha256, name, source] in
            self.query(NAMES, (), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
        {
            let sha256: String = sha256;
            for subject in subjects.iter_mut().filter(|subject| subject.kernel_sha256 == sha256) {
                insert_sorted(&mut subject.requested_names, &name);
                insert_sorted(&mut subject.sources, &source);
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
        self.query(ALL, (), |row| {
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

    /// Names of all measured rows, sorted.
    pub fn rows(&self) -> Result<Vec<String>> {
        self.query("SELECT DISTINCT row FROM workload ORDER BY row", (), |row| row.get(0))
    }

    /// Measurements of a subject.
    pub fn measurements(
        &self,
        kernel_sha256: &str,
        boot_line: &str,
    ) -> Result<Vec<StoredMeasurement>> {
        const QUERY: &str = "\
            SELECT measurement.object, measurement.conditions, measurement.workload, workload.row, \
              measurement.kept_at \
            FROM measurement JOIN workload ON workload.id = measurement.workload \
            JOIN subject ON subject.id = measurement.subject \
            JOIN kernel ON kernel.id = subject.kernel \
            WHERE kernel.sha256 = ?1 AND subject.boot_line = ?2 ORDER BY measurement.object";
        self.query(QUERY, [kernel_sha256, boot_line], measurement)
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
        self.query(ALL, (), |row| {
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

    /// All instruments, the one of the newest object first. `bytes` is 0.
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
            self.query(ALL, (), |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
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
        const QUERY: &str = "\
            SELECT measurement.object, measurement.conditions, measurement.workload, workload.row, \
              measurement.kept_at, kernel.sha256, kernel.name, subject.boot_line, \
              workload.operation, workload.ops, conditions.qemu, conditions.guest, \
              json_extract(conditions.json, '$.machine'), conditions.seed, measurement.signature, \
              (SELECT coalesce(group_concat(raw, ' '), '') FROM (SELECT raw FROM value \
                WHERE measurement = measurement.id AND metric = ?2 ORDER BY layout)), \
              (SELECT coalesce(group_concat(whole, ' '), '') FROM (SELECT whole FROM value \
                WHERE measurement = measurement.id AND metric = ?2 ORDER BY layout)), \
              coalesce(json_extract(conditions.json, '$.key.modules'), '[]'), \
              coalesce(json_extract(conditions.json, '$.key.programs'), '') \
            FROM measurement JOIN workload ON workload.id = measurement.workload \
            JOIN subject ON subject.id = measurement.subject \
            JOIN kernel ON kernel.id = subject.kernel \
            JOIN conditions ON conditions.id = measurement.conditions \
            WHERE ?1 IS NULL OR workload.row = ?1 ORDER BY measurement.object";
        let counts = |text: String| text.split(' ').filter_map(|word| word.parse().ok()).collect();
        self.query(QUERY, (row, metric), |row| {
            Ok(StoredPoint {
                measurement: measurement(row)?,
                kernel_sha256: row.get(5)?,
                kernel: row.get(6)?,
                boot_line: row.get(7)?,
                operation: row.get(8)?,
                ops: u64::try_from(row.get::<_, i64>(9)?).unwrap_or(1),
                qemu: row.get(10)?,
                guest: row.get(11)?,
                machine: parse_machine(&row.get::<_, String>(12)?),
                seed: row.get::<_, String>(13)?.parse().unwrap_or(0),
                signature: row.get(14)?,
                raw: counts(row.get(15)?),
                whole: counts(row.get(16)?),
                modules: serde_json::from_str(&row.get::<_, String>(17)?).unwrap_or_default(),
                programs: row.get(18)?,
            })
        })
    }

    /// Runs a query, and converts each row of its result.
    fn query<T>(
        &self,
        sql: &str,
        params: impl Params,
        convert: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut statement = self.db.prepare(sql).map_err(self.error_converter())?;
        let rows = statement.query_map(params, convert).map_err(self.error_converter())?;
        rows.collect::<rusqlite::Result<_>>().map_err(self.error_converter())
    }
}

/// Converts the first five columns of a query for measurements.
fn measurement(row: &Row<'_>) -> rusqlite::Result<StoredMeasurement> {
    Ok(StoredMeasurement {
        object: row.get(0)?,
        conditions: row.get(1)?,
        workload: row.get(2)?,
        row: row.get(3)?,
        kept_at: row.get(4)?,
    })
}

/// Inserts a name into a sorted list, unless the list has the name.
fn insert_sorted(names: &mut Vec<String>, name: &str) {
    if let Err(index) = names.binary_search_by(|known| known.as_str().cmp(name)) {
        names.insert(index, name.to_owned());
    }
}

/// Parses the machine of a measurement; the default machine if the index is damaged.
fn parse_machine(json: &str) -> Machine {
    serde_json::from_str(json).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{MachineModel, Model};

    #[test]
    fn machines_are_parsed_with_their_model_and_damaged_ones_are_the_default() {
        let zen3 = include_str!("../../../machines/zen3.toml");
        let zen3: MachineModel = toml::from_str(zen3).unwrap();
        let (title, sources) = (String::new(), Vec::new());
        let zen3 = Model::Machine(Box::new(MachineModel { title, sources, ..zen3 }));
        for model in [None, Some(Model::Coherence), Some(zen3)] {
            let made = Machine { model, ..Machine::with_cpus(4) };
            assert_eq!(parse_machine(&serde_json::to_string(&made).unwrap()), made);
        }
        assert_eq!(parse_machine("{\"cpu\": 4}"), Machine::default());
    }
}
