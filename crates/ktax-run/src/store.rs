//! Store of measurements for reuse: a directory of immutable objects, each named by the hash of its
//! measurand. The store also has results as they were printed, and the user's tags.
//!
//! The store may be on a network file system: no file is locked, each file is written atomically,
//! and two writers of an object write the same counts. `docs/store.md` describes the files.

mod object;

pub use object::{
    MEASUREMENT_MAX, PROFILES_MAX, RESULT_MAX, SideRow, encode_measurement, measured, side_rows,
    write_stored,
};

use std::fs::{DirEntry, File, FileType};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use ktax_host::disk::{
    is_abandoned, is_not_regular, is_sha256, is_unfinished, move_without_replacing, read_own,
    sha256, write_atomically, write_once,
};
use ktax_model::{Blame, FORMAT, Measurand, Measurement, Saved, SavedError, read_results};
use object::{
    check_measurement, object_name, pack, parse_format, parse_measurement, to_json, unpack,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum size of a file in a store, in bytes.
pub const FILE_MAX: u64 = 64 << 20;

const OBJECTS: &str = "objects";
const RESULTS: &str = "results";
const TAGS: &str = "tags";
const QUARANTINE: &str = "quarantine";
const SUFFIX: &str = ".json.gz";

/// The store of a user.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Store in a directory, which need not exist yet.
    pub fn new(root: PathBuf) -> Store {
        Store { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Path of a file by its folder and name. The file need not exist.
    pub(super) fn file_path(&self, folder: &str, name: &str) -> PathBuf {
        self.root()
            .join(folder)
            .join(name.get(..2).unwrap_or_default())
            .join(format!("{name}{SUFFIX}"))
    }

    /// Path of a measurement's object by the object's name.
    pub fn object_path(&self, name: &str) -> PathBuf {
        self.file_path(OBJECTS, name)
    }

    /// Path of a result by its name.
    pub fn result_path(&self, name: &str) -> PathBuf {
        self.file_path(RESULTS, name)
    }

    /// Sorted entries of a folder that are named like objects. Such an entry may be a directory, a
    /// link or a FIFO, which readers refuse.
    fn sorted_objects(&self, folder: &str) -> Result<Vec<PathBuf>, StoreError> {
        // Other files in the folder do not belong to ktax.
        let is_object = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let stem = name.strip_suffix(SUFFIX).unwrap_or_default();
            // Comparing paths by their parts would take many times as long.
            is_sha256(stem) && path.as_os_str() == self.file_path(folder, stem).as_os_str()
        };
        let mut paths = Vec::new();
        for dir in directories(&self.root().join(folder))? {
            paths.extend(entries(&dir)?.into_iter().map(|(path, _)| path).filter(is_object));
        }
        paths.sort_unstable_by(|a, b| a.as_os_str().cmp(b.as_os_str()));
        Ok(paths)
    }

    /// Entries that are named like a folder of files but are no directories, such as links.
    fn invalid_folders(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        for folder in [OBJECTS, RESULTS] {
            let is_folder = |path: &Path| {
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit)
            };
            let entries = entries(&self.root().join(folder))?.into_iter();
            let invalid = entries.filter(|(path, kind)| is_folder(path) && !kind.is_dir());
            found.extend(invalid.map(|(path, _)| path));
        }
        Ok(found)
    }

    /// Moves a file into quarantine and returns its new path. If another process has moved it
    /// already, returns the path of the last file of this name in quarantine.
    pub fn move_aside(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let dir = self.root().join(QUARANTINE);
        fs::create_dir_all(&dir).map_err(StoreError::io("cannot create", &dir))?;
        let named = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut last = dir.join(format!("1-{named}"));
        for number in 1_u32.. {
            let to = dir.join(format!("{number}-{named}"));
            match move_without_replacing(path, &to) {
                Ok(()) => return Ok(to),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = to,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(last),
                Err(error) => return Err(StoreError::io("cannot move", path)(error)),
            }
        }
        unreachable!("numbers do not run out")
    }

    /// Unfinished files of killed writers, and files in quarantine.
    pub fn leftovers(&self) -> Result<Vec<PathBuf>, StoreError> {
        let entries = entries(&self.root().join(QUARANTINE))?.into_iter().map(|(path, _)| path);
        // Other files in the folder do not belong to ktax.
        let mut leftovers: Vec<PathBuf> =
            entries.filter(|path| self.is_quarantined(path)).collect();
        for folder in [OBJECTS, RESULTS, TAGS] {
            let files = self.files(folder)?.into_iter();
            let has_unfinished_name = |path: &PathBuf| path.file_name().is_some_and(is_unfinished);
            leftovers.extend(files.filter(|path| has_unfinished_name(path) && is_abandoned(path)));
        }
        Ok(leftovers)
    }

    /// Returns true if [`Store::move_aside`] made this file.
    fn is_quarantined(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (number, rest) = name.split_once('-').unwrap_or_default();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let has_our_name = is_number && rest.strip_suffix(SUFFIX).is_some_and(is_sha256);
        has_our_name && path.parent() == Some(&self.root().join(QUARANTINE))
    }

    /// Files of a folder and of all folders below it.
    pub(super) fn files(&self, folder: &str) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        let mut dirs = vec![self.root().join(folder)];
        while let Some(dir) = dirs.pop() {
            for (path, kind) in entries(&dir)? {
                // Links are not followed, because they may lead out of the store.
                match kind {
                    kind if kind.is_dir() => dirs.push(path),
                    kind if kind.is_file() => found.push(path),
                    _ => {}
                }
            }
        }
        Ok(found)
    }
}

/// Subdirectories of a directory; empty if the directory does not exist.
fn directories(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let found = entries(dir)?.into_iter();
    Ok(found.filter(|(_, kind)| kind.is_dir()).map(|(path, _)| path).collect())
}

/// Entries of a directory with their types; empty if the directory does not exist.
fn entries(dir: &Path) -> Result<Vec<(PathBuf, FileType)>, StoreError> {
    let failed = |error| StoreError::io("cannot read", dir)(error);
    let listing = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.map_err(failed)?,
    };
    let typed = |entry: io::Result<DirEntry>| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?))
    };
    listing.map(typed).collect::<io::Result<_>>().map_err(failed)
}

/// Bytes of a file; `None` if the file does not exist. A file that is not regular is damaged.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match read_own(path, FILE_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // ktax writes no such file.
        Err(error) if error.kind() == ErrorKind::FileTooLarge || is_not_regular(&error) => {
            Err(StoreError::damaged(path)(error.to_string()))
        }
        Err(error) => Err(StoreError::io("cannot read", path)(error)),
    }
}

/// Writes a file that does not exist yet, and returns whether it was written.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<bool, StoreError> {
    create_parent(path)?;
    write_once(path, bytes).map_err(StoreError::io("cannot write", path))
}

/// Writes or replaces a file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    create_parent(path)?;
    write_atomically(path, bytes).map_err(StoreError::io("cannot write", path))
}

fn create_parent(path: &Path) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(path);
    fs::create_dir_all(dir).map_err(StoreError::io("cannot create", dir))
}

/// Outcome of [`Store::put`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutOutcome {
    /// The measurement is new and was written.
    New,
    /// The store had the measurement already, with the same counts.
    Same,
    /// The store has other counts of this measurand, in the object at this path.
    Other(PathBuf),
}

/// Result of [`Store::check`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreCheck {
    /// Number of measurements and results without an error.
    pub sound: usize,
    /// Damaged files: the path in quarantine, and the reason.
    pub damaged: Vec<(PathBuf, String)>,
    /// Messages about files that could not be read, or not be moved into quarantine.
    pub unknown: Vec<String>,
    /// Number of files in the format of another version of ktax.
    pub others: usize,
}

/// Size of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Number of measurements.
    pub objects: usize,
    /// Bytes of the measurements.
    pub bytes: u64,
    /// Number of results.
    pub results: usize,
    /// Bytes of the results.
    pub result_bytes: u64,
    /// Number of files in quarantine and of unfinished files.
    pub others: usize,
    /// Bytes of these files.
    pub other_bytes: u64,
}

impl Store {
    /// Path of the object of a measurand. The object need not exist.
    pub fn path(&self, measurand: &Measurand) -> PathBuf {
        self.file_path(OBJECTS, &object_name(measurand))
    }

    /// Reads the measurement of a measurand; `None` if the store does not have it. An error if the
    /// object is damaged.
    pub fn get(&self, measurand: &Measurand) -> Result<Option<Measurement>, StoreError> {
        let path = self.path(measurand);
        match read(&path)? {
            None => Ok(None),
            Some(bytes) => self.checked_measurement(&path, &bytes).map(Some),
        }
    }

    /// Parses the bytes of an object, and checks its seal, its counts and its name.
    fn checked_measurement(&self, path: &Path, bytes: &[u8]) -> Result<Measurement, StoreError> {
        let damaged = StoreError::damaged(path);
        let json = unpack(bytes, MEASUREMENT_MAX).map_err(&damaged)?;
        let parsed = parse_measurement(&json);
        // An object of another version may have other fields and not parse, so its format is read
        // alone.
        let found = parsed
            .as_ref()
            .map_or_else(|_| parse_format(&json), |measurement| Ok(measurement.format));
        match found.map_err(&damaged)? {
            FORMAT => {}
            found => return Err(StoreError::other_version(path, found)),
        }
        let measurement = parsed.map_err(&damaged)?;
        check_measurement(&measurement).map_err(&damaged)?;
        match path == self.path(&measurement.measurand) {
            true => Ok(measurement),
            false => Err(damaged("it has the name of another measurement".to_owned())),
        }
    }

    /// Stores a measurement. An object that exists already is not replaced.
    pub fn put(&self, measurement: &Measurement) -> Result<PutOutcome, StoreError> {
        check_measurement(measurement).map_err(|reason| StoreError::Unsound {
            row: measurement.measurand.workload.row.clone(),
            reason,
        })?;
        let path = self.path(&measurement.measurand);
        let comparison = |stored: Measurement| match stored.layouts == measurement.layouts {
            true => PutOutcome::Same,
            false => PutOutcome::Other(path.clone()),
        };
        if let Some(stored) = self.get(&measurement.measurand)? {
            return Ok(comparison(stored));
        }
        if write_new(&path, &encode_measurement(measurement))? {
            return Ok(PutOutcome::New);
        }
        // Another writer was first. If its file does not exist now, the store is damaged.
        let outcome = self.get(&measurement.measurand)?.map(comparison);
        outcome.ok_or_else(|| StoreError::damaged(&path)("it was removed".to_owned()))
    }

    /// Paths of all objects, in the order of their names.
    pub fn objects(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.sorted_objects(OBJECTS)
    }

    /// Reads the measurement of an object; an error if the object is damaged.
    pub fn read(&self, path: &Path) -> Result<Measurement, StoreError> {
        match read(path)? {
            None => Err(StoreError::damaged(path)("it does not exist".to_owned())),
            Some(bytes) => self.checked_measurement(path, &bytes),
        }
    }

    /// Checks all files and moves damaged files into quarantine. Files of other versions of ktax
    /// are not moved.
    pub fn check(&self) -> Result<StoreCheck, StoreError> {
        let mut checked = StoreCheck::default();
        let mut add = |path: PathBuf, found: Result<(), StoreError>| match found {
            Ok(()) => checked.sound += 1,
            Err(StoreError::OtherVersion { .. }) => checked.others += 1,
            Err(StoreError::Damaged { object, reason }) => match self.move_aside(&path) {
                Ok(to) => checked.damaged.push((to, reason)),
                Err(move_error) => {
                    checked.unknown.push(format!("{object} is damaged: {reason}; {move_error}"));
                }
            },
            Err(error) => checked.unknown.push(error.to_string()),
        };
        for path in self.objects()? {
            let found = self.read(&path).map(drop);
            add(path, found);
        }
        for path in self.results()? {
            let found = self.read_result(&path).map(drop);
            add(path, found);
        }
        for path in self.invalid_folders()? {
            let path = path.display();
            let reason =
                format!("{path} is not a directory: files below it are not read; remove it");
            checked.unknown.push(reason);
        }
        Ok(checked)
    }

    /// Size of the store.
    pub fn footprint(&self) -> Result<Footprint, StoreError> {
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
        let lists = [self.objects()?, self.results()?, self.leftovers()?];
        let [objects, results, others] = lists.each_ref().map(Vec::len);
        let [bytes, result_bytes, other_bytes] =
            lists.each_ref().map(|paths| paths.iter().map(size).sum());
        Ok(Footprint { objects, bytes, results, result_bytes, others, other_bytes })
    }
}

impl Store {
    /// Stores a result and returns whether it was new. A damaged file of its name is moved into
    /// quarantine.
    pub fn put_result(&self, saved: &Saved) -> Result<bool, StoreError> {
        self.put_result_at(saved, None)
    }

    /// Stores results that were made together. All get the same modification time, so that their
    /// order does not depend on the time that writing takes.
    pub fn put_results(&self, results: impl IntoIterator<Item = Saved>) -> Result<(), StoreError> {
        let now = SystemTime::now();
        results.into_iter().try_for_each(|saved| self.put_result_at(&saved, Some(now)).map(drop))
    }

    fn put_result_at(&self, saved: &Saved, time: Option<SystemTime>) -> Result<bool, StoreError> {
        // The name distinguishes results of one run and is not part of the content.
        let json = to_json(&Saved { name: String::new(), ..saved.clone() });
        let (path, bytes) = (self.file_path(RESULTS, &sha256(&json)), pack(&json));
        match read(&path) {
            Ok(Some(bytes)) if unpack(&bytes, RESULT_MAX).is_ok_and(|stored| stored == json) => {
                return Ok(false);
            }
            Ok(None) => {}
            // The name is the hash of the content, so a file with other content is damaged.
            Ok(Some(_)) | Err(StoreError::Damaged { .. }) => drop(self.move_aside(&path)?),
            Err(error) => return Err(error),
        }
        let is_new = write_new(&path, &bytes)?;
        if let (true, Some(time)) = (is_new, time) {
            let modified = File::open(&path).and_then(|file| file.set_modified(time));
            modified.map_err(StoreError::io("cannot set the time of", &path))?;
        }
        Ok(is_new)
    }

    /// Paths of all results, in the order of their names.
    pub fn results(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.sorted_objects(RESULTS)
    }

    /// Reads a result; an error if the file is damaged.
    pub fn read_result(&self, path: &Path) -> Result<Saved, StoreError> {
        let damaged = StoreError::damaged(path);
        match read(path)? {
            None => Err(damaged("it does not exist".to_owned())),
            Some(bytes) => match self.checked_result(path, &bytes).map_err(damaged)? {
                Err(SavedError::Format { found }) => Err(StoreError::other_version(path, found)),
                saved => saved.map_err(|error| StoreError::damaged(path)(error.to_string())),
            },
        }
    }

    /// Parses the bytes of a result's file, and checks its seal and its name.
    fn checked_result(
        &self,
        path: &Path,
        bytes: &[u8],
    ) -> Result<Result<Saved, SavedError>, String> {
        let json = unpack(bytes, RESULT_MAX)?;
        if path != self.file_path(RESULTS, &sha256(&json)) {
            return Err("it has the name of another result".to_owned());
        }
        let text = String::from_utf8(json).map_err(|error| error.to_string())?;
        // `read_results` returns at least one result.
        let last = |mut results: Vec<Saved>| results.pop().ok_or(SavedError::Untagged);
        Ok(read_results(&text).and_then(last))
    }
}

/// Maximum number of characters of a tag, so that tags fit into tables.
pub const MAX_TAG_LENGTH: usize = 64;

/// Subject of a tag: a kernel's image with a boot line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaggedSubject {
    pub kernel_sha256: String,
    pub boot_line: String,
}

impl Store {
    /// Gives a tag to a subject. Another subject that has the tag loses it.
    pub fn tag(&self, name: &str, subject: &TaggedSubject) -> Result<(), StoreError> {
        write(&self.tag_path(name)?, &to_json(subject))
    }

    /// Removes a tag and returns whether it existed.
    pub fn untag(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.tag_path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io("cannot remove", &path)(error)),
        }
    }

    /// All tags in alphanumeric order, each with its subject. Files that are not tags are skipped.
    pub fn tags(&self) -> Result<Vec<(String, TaggedSubject)>, StoreError> {
        let mut tags = Vec::new();
        for path in self.files(TAGS)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !is_tag_name(name) || path != self.root().join(TAGS).join(name) {
                continue;
            }
            let tagged = read(&path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let tagged = tagged.filter(|tagged: &TaggedSubject| is_sha256(&tagged.kernel_sha256));
            tags.extend(tagged.map(|tagged| (name.to_owned(), tagged)));
        }
        alphanumeric_sort::sort_slice_by_str_key(&mut tags, |(name, _)| name.as_str());
        Ok(tags)
    }

    fn tag_path(&self, name: &str) -> Result<PathBuf, StoreError> {
        match is_tag_name(name) {
            true => Ok(self.root().join(TAGS).join(name)),
            false => Err(StoreError::NoTag { name: name.to_owned() }),
        }
    }
}

/// Returns true if a tag is a file name that is not hidden and needs no quotes in a shell.
fn is_tag_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    (1..=MAX_TAG_LENGTH).contains(&name.len())
        && name.bytes().all(is_allowed)
        && name.as_bytes()[0].is_ascii_alphanumeric()
}

/// Errors of the store.
#[derive(Debug, Error)]
pub enum StoreError {
    #[error(
        "{operation} {path}: {reason}; check the permissions and the free disk space of the store"
    )]
    Io { operation: &'static str, path: String, reason: io::Error },
    #[error("{object} is damaged: {reason}; `ktax store fsck` moves it aside")]
    Damaged { object: String, reason: String },
    #[error(
        "{path} has format {found}, and this ktax reads format {FORMAT}; use the ktax that wrote it"
    )]
    OtherVersion { path: String, found: u32 },
    #[error(
        "{object} and {other} have other counts of {row}; nothing was changed: measure it again \
         with --verify-store 100, which finds out which of them is wrong"
    )]
    Differs { row: String, object: String, other: String },
    #[error(
        "{row} has other counts than the store has of it: {object} {became}, and {directory} has \
         the new ones; one of the two was not measured as ktax measures: compare them, and measure \
         a third time with --no-store"
    )]
    Mismatch { row: String, object: String, became: String, directory: String },
    #[error("{row} cannot be kept: {reason}; measure it again")]
    Unsound { row: String, reason: String },
    #[error(
        "{name:?} cannot be a tag; use letters, digits and . _ + -, beginning with a letter or a \
         digit, at most 64"
    )]
    NoTag { name: String },
    #[error(transparent)]
    RunDir(#[from] ktax_model::Error),
}

impl From<StoreError> for ktax_model::Error {
    fn from(error: StoreError) -> ktax_model::Error {
        ktax_model::Error::blamed(error.blame(), error.to_string())
    }
}

impl StoreError {
    /// Error of an operation on a path.
    pub(super) fn io(
        operation: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.display().to_string();
        move |reason| StoreError::Io { operation, path, reason }
    }

    /// Error about a file whose content was changed.
    pub(super) fn damaged(path: &std::path::Path) -> impl Fn(String) -> StoreError + use<> {
        let object = path.display().to_string();
        move |reason| StoreError::Damaged { object: object.clone(), reason }
    }

    /// Error about a file in the format of another version of ktax.
    fn other_version(path: &std::path::Path, found: u32) -> StoreError {
        StoreError::OtherVersion { path: path.display().to_string(), found }
    }

    /// Party that can fix the error.
    pub fn blame(&self) -> Blame {
        match self {
            StoreError::RunDir(error) => error.blame,
            StoreError::NoTag { .. } | StoreError::OtherVersion { .. } => Blame::User,
            _ => Blame::Host,
        }
    }
}
