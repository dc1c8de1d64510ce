//! The files of a store, whatever they have in them.

use std::fs::{self, DirEntry, FileType};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::error::StoreError;
use ktax_host::disk::{
    is_abandoned, is_not_regular, is_sha256, is_unfinished, move_to_free, read_own,
    write_atomically, write_once,
};

/// More bytes than any file of a store has.
pub const FILE_MAX: u64 = 64 << 20;

pub(super) const OBJECTS: &str = "objects";
pub(super) const RESULTS: &str = "results";
pub(super) const TAGS: &str = "tags";
const QUARANTINE: &str = "quarantine";
const SUFFIX: &str = ".json.gz";

/// The store of a user.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The store in this directory, which need not exist yet.
    pub fn new(root: PathBuf) -> Store {
        Store { root }
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a file of this name is, or would be.
    pub(super) fn named(&self, folder: &str, name: &str) -> PathBuf {
        self.root()
            .join(folder)
            .join(name.get(..2).unwrap_or_default())
            .join(format!("{name}{SUFFIX}"))
    }

    /// The path of a measurement's object by its name.
    pub fn object(&self, name: &str) -> PathBuf {
        self.named(OBJECTS, name)
    }

    /// The path of a result by its name.
    pub fn result_path(&self, name: &str) -> PathBuf {
        self.named(RESULTS, name)
    }

    /// All of a folder, in the order of their names: whatever has the name of one, also a
    /// directory, a link or a FIFO, which no reader takes for one.
    pub(super) fn sorted(&self, folder: &str) -> Result<Vec<PathBuf>, StoreError> {
        // Whatever else lies there is of somebody else.
        let is_one = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let stem = name.strip_suffix(SUFFIX).unwrap_or_default();
            // As text: to compare paths part by part takes many times as long.
            is_sha256(stem) && path.as_os_str() == self.named(folder, stem).as_os_str()
        };
        let mut all = Vec::new();
        for dir in directories(&self.root().join(folder))? {
            all.extend(entries(&dir)?.into_iter().map(|(path, _)| path).filter(is_one));
        }
        all.sort_unstable_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
        Ok(all)
    }

    /// What stands where a folder of files should be, and hides those below it, such as a link.
    pub(super) fn in_the_way(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        for folder in [OBJECTS, RESULTS] {
            let is_folder = |path: &Path| {
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit)
            };
            let all = entries(&self.root().join(folder))?.into_iter();
            let blocked = all.filter(|(path, kind)| is_folder(path) && !kind.is_dir());
            found.extend(blocked.map(|(path, _)| path));
        }
        Ok(found)
    }

    /// Moves a file out of the way and says where it is. Who comes second finds nothing to move,
    /// and is told the same.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn move_aside(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let dir = self.root().join(QUARANTINE);
        fs::create_dir_all(&dir).map_err(StoreError::io("cannot create", &dir))?;
        let named = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut last = dir.join(format!("1-{named}"));
        for number in 1_u32.. {
            let to = dir.join(format!("{number}-{named}"));
            match move_to_free(path, &to) {
                Ok(()) => return Ok(to),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => last = to,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(last),
                Err(error) => return Err(StoreError::io("cannot move", path)(error)),
            }
        }
        unreachable!("numbers do not run out")
    }

    /// What killed writers left, and what was moved aside.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn leftovers(&self) -> Result<Vec<PathBuf>, StoreError> {
        let aside = entries(&self.root().join(QUARANTINE))?.into_iter().map(|(path, _)| path);
        // Whatever else lies there is of somebody else.
        let mut left: Vec<PathBuf> = aside.filter(|path| self.is_set_aside(path)).collect();
        for folder in [OBJECTS, RESULTS, TAGS] {
            let files = self.files(folder)?.into_iter();
            let is_left = |path: &PathBuf| path.file_name().is_some_and(is_unfinished);
            left.extend(files.filter(|path| is_left(path) && is_abandoned(path)));
        }
        Ok(left)
    }

    /// Whether [`Store::move_aside`] has made it.
    fn is_set_aside(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (number, rest) = name.split_once('-').unwrap_or_default();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let is_ours = is_number && rest.strip_suffix(SUFFIX).is_some_and(is_sha256);
        is_ours && path.parent() == Some(&self.root().join(QUARANTINE))
    }

    /// The files of a folder and of those below it.
    pub(super) fn files(&self, folder: &str) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        let mut dirs = vec![self.root().join(folder)];
        while let Some(dir) = dirs.pop() {
            for (path, kind) in entries(&dir)? {
                // A link leads out of the store.
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

/// The directories in a directory; none where that is not there.
fn directories(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let all = entries(dir)?.into_iter();
    Ok(all.filter(|(_, kind)| kind.is_dir()).map(|(path, _)| path).collect())
}

/// What is in a directory, and of which type it is; nothing where the directory is not there.
fn entries(dir: &Path) -> Result<Vec<(PathBuf, FileType)>, StoreError> {
    let failed = |error| StoreError::io("cannot read", dir)(error);
    let all = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        all => all.map_err(failed)?,
    };
    let typed = |entry: io::Result<DirEntry>| {
        let entry = entry?;
        Ok((entry.path(), entry.file_type()?))
    };
    all.map(typed).collect::<io::Result<_>>().map_err(failed)
}

/// The bytes of a file; `None` where there is none. What is no regular file is damaged.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match read_own(path, FILE_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        // No ktax writes such a one.
        Err(error) if error.kind() == ErrorKind::FileTooLarge || is_not_regular(&error) => {
            Err(StoreError::damaged(path)(error.to_string()))
        }
        Err(error) => Err(StoreError::io("cannot read", path)(error)),
    }
}

/// Writes a file that is never changed again; whether it was new.
pub(super) fn write_new(path: &Path, bytes: &[u8]) -> Result<bool, StoreError> {
    make_dir_of(path)?;
    write_once(path, bytes).map_err(StoreError::io("cannot write", path))
}

/// Writes a file that takes the place of what was there.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    make_dir_of(path)?;
    write_atomically(path, bytes).map_err(StoreError::io("cannot write", path))
}

fn make_dir_of(path: &Path) -> Result<(), StoreError> {
    let dir = path.parent().unwrap_or(path);
    fs::create_dir_all(dir).map_err(StoreError::io("cannot create", dir))
}
