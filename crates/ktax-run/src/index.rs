//! Index of the store in SQLite, for answers about thousands of measurements at once.
//!
//! It is never the only copy of anything. It lies in the cache, is brought up to date whenever it
//! is opened, and is made again if it is missing, damaged, or of another version. If there can be
//! no file, it is made in memory.

mod fill;
mod query;

pub use query::{
    Instrument, KeptMeasurement, StoredMeasurement, StoredPoint, StoredResult, StoredSubject,
};

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::store::{Store, StoreError};
use ktax_host::disk::sha256;
use ktax_model::{Error, ErrorKind, Result};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use rustix::fs::FlockOperation;
use rustix::io::Errno;

const SCHEMA: &str = include_str!("index/schema.sql");

/// Version of [`SCHEMA`]. It is part of the file's name, so that two versions of ktax do not
/// rebuild one file in turns.
const VERSION: i32 = 2;

/// `ktax` in ASCII, for file(1).
const APPLICATION_ID: i32 = 0x6b74_6178;

/// Time to wait for another ktax, which writes a batch in a small part of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Types of file systems that several machines share, from `linux/magic.h`: 9P, Ceph, CIFS and SMB,
/// FUSE, GPFS, Lustre, NFS. Write-ahead logging needs the memory of one machine.
const SHARED: [u32; 8] = [
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
    /// Opens the index of a store and brings it up to date; in memory if there can be no file in
    /// `cache`. Returns the files that could not be read. `note` is told if it takes a while.
    pub fn open(cache: &Path, store: &Store, note: &dyn Fn(&str)) -> Result<(Index, Passed)> {
        let path = index_file(cache, store.root());
        let open = |db: rusqlite::Result<Connection>, path: Option<&Path>| -> Result<_> {
            let (store, path) = (store.clone(), path.map(Path::to_owned));
            let db = db.map_err(sqlite_error(path.as_deref()))?;
            let mut index = Index { db, store, path };
            let passed = index.fill(note)?;
            Ok((index, passed))
        };
        match open(open_on_disk(&path), Some(&path)) {
            // Another process has used the file for long: the file is whole, and that process keeps
            // it.
            Err(error) if error.kind == ErrorKind::IndexInUse => {
                return open(open_in_memory(), None);
            }
            Err(error) if error.kind == ErrorKind::IndexDamaged => {}
            opened => return opened,
        }
        // A damaged file is removed and made again once.
        remove_index(&path);
        match open(open_on_disk(&path), Some(&path)) {
            Err(error) if matches!(error.kind, ErrorKind::IndexInUse | ErrorKind::IndexDamaged) => {
                open(open_in_memory(), None)
            }
            opened => opened,
        }
    }

    /// File of the index; `None` if it is in memory.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Wraps an error of SQLite with the path of the file.
    pub(super) fn failed(&self) -> impl Fn(rusqlite::Error) -> Error + use<> {
        sqlite_error(self.path.as_deref())
    }
}

fn sqlite_error(path: Option<&Path>) -> impl Fn(rusqlite::Error) -> Error + use<> {
    let path = path.map_or("in memory".to_owned(), |path| path.display().to_string());
    move |reason| {
        let kind = if is_busy(&reason) { ErrorKind::IndexInUse } else { ErrorKind::IndexDamaged };
        Error::host(format!("cannot use the index {path}: {reason}"))
            .next("remove this file, and ktax makes it again")
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
    // If this fails, so does opening the file.
    let _ = fs::create_dir_all(dir);
    if !can_lock(dir) {
        return Err(rusqlite::Error::InvalidPath(dir.to_owned()));
    }
    let mut db = Connection::open(path)?;
    db.busy_timeout(PATIENCE)?;
    let is_shared =
        rustix::fs::statfs(dir).is_ok_and(|stats| SHARED.contains(&(stats.f_type as u32)));
    let journal = if is_shared { "TRUNCATE" } else { "WAL" };
    db.pragma_update(None, "journal_mode", journal)?;
    // Rows that a crash loses are added again.
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

/// Whether a file here can be locked. SQLite mistakes a file system without locks for a file in
/// use, and waits.
fn can_lock(dir: &Path) -> bool {
    let probe = fs::File::options().write(true).create(true).truncate(false).open(dir.join("lock"));
    let lock = |file| rustix::fs::fcntl_lock(file, FlockOperation::NonBlockingLockExclusive);
    match probe.as_ref().map(lock) {
        Ok(Ok(()) | Err(Errno::AGAIN | Errno::ACCESS)) => true,
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Makes the tables of a new file, and refuses files that are not of this version.
fn make_tables(db: &mut Connection) -> rusqlite::Result<()> {
    let made = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number = |name| made.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    match (number("application_id")?, number("user_version")?) {
        (APPLICATION_ID, VERSION) => {}
        (0, 0) => {
            made.execute_batch(SCHEMA)?;
            made.pragma_update(None, "application_id", APPLICATION_ID)?;
            made.pragma_update(None, "user_version", VERSION)?;
        }
        _ => return Err(rusqlite::Error::InvalidQuery),
    }
    made.commit()
}

/// Removes the index and its files of write-ahead logging. A file that cannot be removed is not
/// used.
fn remove_index(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = fs::remove_file(PathBuf::from(name));
    }
}

/// Files of the store that could not be read, because they are damaged or of another version.
pub type Passed = Vec<StoreError>;
