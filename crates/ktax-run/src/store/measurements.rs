//! Measurements, and what is known of all that a store has.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::StoreError;
use super::files::{OBJECTS, Store, read, write_new};
use super::object::{
    MEASUREMENT_MAX, check, decode, encode_measurement, format, measurement, name,
};
use ktax_model::{FORMAT, Measurand, Measurement};

/// What became of a measurement that was given to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It is there now.
    New,
    /// It was there already, the same to the last count.
    Same,
    /// What is at this path has other counts.
    Other(PathBuf),
}

/// What a look at everything found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Measurements and results that are as they were written.
    pub sound: usize,
    /// Those that are not, where they are now, and why.
    pub damaged: Vec<(PathBuf, String)>,
    /// Those of which nobody knows, because they cannot be read or moved aside, and why.
    pub unknown: Vec<String>,
    /// Those of another version of ktax.
    pub others: usize,
}

/// How much the store has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Measurements.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Results.
    pub results: usize,
    /// Their bytes.
    pub result_bytes: u64,
    /// Files that were moved aside or never finished.
    pub others: usize,
    /// Their bytes.
    pub other_bytes: u64,
}

impl Store {
    /// Where the object of a measurement is, or would be.
    pub fn path(&self, of: &Measurand) -> PathBuf {
        self.named(OBJECTS, &name(of))
    }

    /// What is known; `None` where it was not measured yet.
    ///
    /// # Errors
    /// The object is damaged, or the store cannot be read.
    pub fn get(&self, of: &Measurand) -> Result<Option<Measurement>, StoreError> {
        let path = self.path(of);
        match read(&path)? {
            None => Ok(None),
            Some(bytes) => self.sound(&path, &bytes).map(Some),
        }
    }

    /// The measurement of an object that is whole and has the name of what it is of.
    fn sound(&self, path: &Path, bytes: &[u8]) -> Result<Measurement, StoreError> {
        let damaged = StoreError::damaged(path);
        let json = decode(bytes, MEASUREMENT_MAX).map_err(&damaged)?;
        let parsed = measurement(&json);
        // Another version's has other fields, so that it may be none to this one.
        let found = parsed.as_ref().map_or_else(|_| format(&json), |it| Ok(it.format));
        match found.map_err(&damaged)? {
            FORMAT => {}
            found => return Err(StoreError::other_version(path, found)),
        }
        let measurement = parsed.map_err(&damaged)?;
        check(&measurement).map_err(&damaged)?;
        match path == self.path(&measurement.of) {
            true => Ok(measurement),
            false => Err(damaged("it has the name of another measurement".to_owned())),
        }
    }

    /// Keeps a measurement. What was there is there still.
    ///
    /// # Errors
    /// It is none that ktax makes, or the store cannot be written.
    pub fn put(&self, measurement: &Measurement) -> Result<Kept, StoreError> {
        check(measurement).map_err(|reason| StoreError::Unsound {
            row: measurement.of.workload.row.clone(),
            reason,
        })?;
        let path = self.path(&measurement.of);
        let as_known = |known: Measurement| match known.layouts == measurement.layouts {
            true => Kept::Same,
            false => Kept::Other(path.clone()),
        };
        if let Some(known) = self.get(&measurement.of)? {
            return Ok(as_known(known));
        }
        if write_new(&path, &encode_measurement(measurement))? {
            return Ok(Kept::New);
        }
        // Another writer was first; what is no file is damaged.
        let known = self.get(&measurement.of)?.map(as_known);
        known.ok_or_else(|| StoreError::damaged(&path)("it is gone".to_owned()))
    }

    /// Every object's path, in the order of their names.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn objects(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.sorted(OBJECTS)
    }

    /// The measurement of an object.
    ///
    /// # Errors
    /// It is damaged, or it cannot be read.
    pub fn read(&self, path: &Path) -> Result<Measurement, StoreError> {
        match read(path)? {
            None => Err(StoreError::damaged(path)("it is not there".to_owned())),
            Some(bytes) => self.sound(path, &bytes),
        }
    }

    /// Looks at everything, and moves what is damaged aside; what another version of ktax wrote
    /// stays.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn check(&self) -> Result<Checked, StoreError> {
        let mut checked = Checked::default();
        let mut add = |path: PathBuf, found: Result<(), StoreError>| match found {
            Ok(()) => checked.sound += 1,
            Err(StoreError::OtherVersion { .. }) => checked.others += 1,
            Err(StoreError::Damaged { object, reason }) => match self.move_aside(&path) {
                Ok(to) => checked.damaged.push((to, reason)),
                Err(unmoved) => {
                    checked.unknown.push(format!("{object} is damaged: {reason}; {unmoved}"));
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
        for path in self.in_the_way()? {
            let path = path.display();
            let said = format!("{path} is not a directory: files below it are not read; remove it");
            checked.unknown.push(said);
        }
        Ok(checked)
    }

    /// How much there is.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn footprint(&self) -> Result<Footprint, StoreError> {
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |it| it.len());
        let all = [self.objects()?, self.results()?, self.leftovers()?];
        let [objects, results, others] = all.each_ref().map(Vec::len);
        let [bytes, result_bytes, other_bytes] =
            all.each_ref().map(|paths| paths.iter().map(size).sum());
        Ok(Footprint { objects, bytes, results, result_bytes, others, other_bytes })
    }
}
