use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::object::{decode, encode, name};
use crate::disk::{is_unfinished, read_limited, write_new_atomically};
use crate::model::{Measurand, Measurement};

/// More than any object has.
const OBJECT_MAX: u64 = 1 << 30;

const OBJECTS: &str = "objects";
const QUARANTINE: &str = "quarantine";
const SUFFIX: &str = ".json.gz";

/// The store of a user.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

/// What became of a measurement that was given to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It is there now.
    New,
    /// It was there already, the same to the last count.
    Same,
    /// What was there has other counts; it was moved from the first path to the second.
    Other(PathBuf, PathBuf),
}

/// What a look at all objects found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Objects that are as they were written.
    pub sound: usize,
    /// Those that are not, and why.
    pub damaged: Vec<(PathBuf, String)>,
}

/// How much the store has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Objects.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were moved aside or never finished.
    pub others: usize,
    /// Their bytes.
    pub other_bytes: u64,
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

    /// Where the object of a measurement is, or would be.
    pub fn path(&self, of: &Measurand) -> PathBuf {
        let name = name(of);
        self.root.join(OBJECTS).join(&name[..2]).join(format!("{name}{SUFFIX}"))
    }

    /// What is known; `None` where it was not measured yet.
    ///
    /// # Errors
    /// The object is damaged, or the store cannot be read.
    pub fn get(&self, of: &Measurand) -> Result<Option<Measurement>, StoreError> {
        let path = self.path(of);
        match read(&path)? {
            None => Ok(None),
            Some(bytes) => self.sound(&path, &bytes).map(Some).map_err(|reason| {
                StoreError::Damaged { object: path.display().to_string(), reason }
            }),
        }
    }

    /// The measurement of an object that is whole and has the name of what it is of.
    fn sound(&self, path: &Path, bytes: &[u8]) -> Result<Measurement, String> {
        let measurement = decode(bytes)?;
        match path == self.path(&measurement.of) {
            true => Ok(measurement),
            false => Err("it has the name of another measurement".to_owned()),
        }
    }

    /// Keeps a measurement.
    ///
    /// # Errors
    /// The store cannot be written. What was there is there still.
    pub fn put(&self, measurement: &Measurement) -> Result<Kept, StoreError> {
        let path = self.path(&measurement.of);
        if let Some(known) = self.get(&measurement.of)? {
            return match known.layouts == measurement.layouts {
                true => Ok(Kept::Same),
                false => Ok(Kept::Other(path.clone(), self.move_aside(&path)?)),
            };
        }
        let dir = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(dir).map_err(StoreError::io("cannot create", dir))?;
        match write_new_atomically(&path, &encode(measurement)) {
            Ok(()) => Ok(Kept::New),
            // Another writer was first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.put(measurement),
            Err(error) => Err(StoreError::io("cannot write", &path)(error)),
        }
    }

    /// Moves an object out of the way and says where it is.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn move_aside(&self, path: &Path) -> Result<PathBuf, StoreError> {
        let dir = self.root.join(QUARANTINE);
        fs::create_dir_all(&dir).map_err(StoreError::io("cannot create", &dir))?;
        let bytes = read(path)?.unwrap_or_default();
        let named = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let numbered = (1_u32..).map(|number| dir.join(format!("{number}-{named}")));
        for to in numbered {
            match write_new_atomically(&to, &bytes) {
                Ok(()) => {
                    fs::remove_file(path).map_err(StoreError::io("cannot remove", path))?;
                    return Ok(to);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::io("cannot write", &to)(error)),
            }
        }
        unreachable!("numbers do not run out")
    }

    /// Every object's path, in the order of their names.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn objects(&self) -> Result<Vec<PathBuf>, StoreError> {
        let is_object = |path: &PathBuf| path.to_string_lossy().ends_with(SUFFIX);
        let mut all: Vec<PathBuf> = self.files(OBJECTS)?.into_iter().filter(is_object).collect();
        all.sort();
        Ok(all)
    }

    /// The measurement of an object.
    ///
    /// # Errors
    /// It is damaged, or it cannot be read.
    pub fn read(&self, path: &Path) -> Result<Measurement, StoreError> {
        let damaged = |reason| StoreError::Damaged { object: path.display().to_string(), reason };
        let bytes = read(path)?.ok_or_else(|| damaged("it is not there".to_owned()))?;
        self.sound(path, &bytes).map_err(damaged)
    }

    /// Looks at every object, and moves damaged ones aside.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn check(&self) -> Result<Checked, StoreError> {
        let mut checked = Checked::default();
        for path in self.objects()? {
            match self.read(&path) {
                Ok(_) => checked.sound += 1,
                Err(StoreError::Damaged { reason, .. }) => {
                    checked.damaged.push((self.move_aside(&path)?, reason));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(checked)
    }

    /// How much there is.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn footprint(&self) -> Result<Footprint, StoreError> {
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |it| it.len());
        let (objects, others) = (self.objects()?, self.leftovers()?);
        Ok(Footprint {
            objects: objects.len(),
            bytes: objects.iter().map(size).sum(),
            others: others.len(),
            other_bytes: others.iter().map(size).sum(),
        })
    }

    /// What killed writers left, and what was moved aside.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn leftovers(&self) -> Result<Vec<PathBuf>, StoreError> {
        let is_left = |path: &PathBuf| path.file_name().is_some_and(is_unfinished);
        let unfinished = self.files(OBJECTS)?.into_iter().filter(is_left);
        Ok(unfinished.chain(self.files(QUARANTINE)?).collect())
    }

    /// The files of a folder and of those below it.
    fn files(&self, folder: &str) -> Result<Vec<PathBuf>, StoreError> {
        let mut found = Vec::new();
        let mut dirs = vec![self.root.join(folder)];
        while let Some(dir) = dirs.pop() {
            let entries = match fs::read_dir(&dir) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                entries => entries.map_err(StoreError::io("cannot read", &dir))?,
            };
            for entry in entries {
                let path = entry.map_err(StoreError::io("cannot read", &dir))?.path();
                if path.is_dir() { dirs.push(path) } else { found.push(path) }
            }
        }
        Ok(found)
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match read_limited(path, OBJECT_MAX) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("cannot read", path)(error)),
    }
}
