//! Results of every kind, as they were printed: each is named by the SHA-256 of its JSON.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::error::StoreError;
use super::files::{RESULTS, Store, read, write_new};
use super::object::{RESULT_MAX, decode, encode, json_of};
use ktax_host::disk::sha256;
use ktax_model::{Saved, SavedError, read_results};

impl Store {
    /// Keeps a result; whether it was new. A damaged one in its place is moved aside.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put_result(&self, saved: &Saved) -> Result<bool, StoreError> {
        self.put_at(saved, None)
    }

    /// Keeps results that were made together: they have one time, so that their order does not
    /// depend on how long it takes to write them.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put_results(&self, all: impl IntoIterator<Item = Saved>) -> Result<(), StoreError> {
        let now = SystemTime::now();
        all.into_iter().try_for_each(|saved| self.put_at(&saved, Some(now)).map(drop))
    }

    fn put_at(&self, saved: &Saved, time: Option<SystemTime>) -> Result<bool, StoreError> {
        // What tells it from others beside it says nothing here.
        let json = json_of(&Saved { name: String::new(), ..saved.clone() });
        let (path, bytes) = (self.named(RESULTS, &sha256(&json)), encode(&json));
        match read(&path) {
            Ok(Some(there)) if decode(&there, RESULT_MAX).is_ok_and(|it| it == json) => {
                return Ok(false);
            }
            Ok(None) => {}
            // Its name is the hash of what is in it: any other bytes are wrong.
            Ok(Some(_)) | Err(StoreError::Damaged { .. }) => drop(self.move_aside(&path)?),
            Err(error) => return Err(error),
        }
        let is_new = write_new(&path, &bytes)?;
        if let (true, Some(time)) = (is_new, time) {
            let dated = File::open(&path).and_then(|file| file.set_modified(time));
            dated.map_err(StoreError::io("cannot date", &path))?;
        }
        Ok(is_new)
    }

    /// Every result's path, in the order of their names.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn results(&self) -> Result<Vec<PathBuf>, StoreError> {
        self.sorted(RESULTS)
    }

    /// A result.
    ///
    /// # Errors
    /// It is damaged, or it cannot be read.
    pub fn read_result(&self, path: &Path) -> Result<Saved, StoreError> {
        let damaged = StoreError::damaged(path);
        match read(path)? {
            None => Err(damaged("it is not there".to_owned())),
            Some(bytes) => match self.sound_result(path, &bytes).map_err(damaged)? {
                Err(SavedError::Format { found }) => Err(StoreError::other_version(path, found)),
                saved => saved.map_err(|error| StoreError::damaged(path)(error.to_string())),
            },
        }
    }

    /// The result of a file that is whole and has the name of what is in it.
    fn sound_result(&self, path: &Path, bytes: &[u8]) -> Result<Result<Saved, SavedError>, String> {
        let json = decode(bytes, RESULT_MAX)?;
        if path != self.named(RESULTS, &sha256(&json)) {
            return Err("it has the name of another result".to_owned());
        }
        let text = String::from_utf8(json).map_err(|error| error.to_string())?;
        // There is never none.
        let one = |mut all: Vec<Saved>| all.pop().ok_or(SavedError::Untagged);
        Ok(read_results(&text).and_then(one))
    }
}
