use std::path::Path;

use crate::flow::error::Error;
use crate::index::Index;
use crate::model::Measurement;
use crate::store::{Store, StoreError};
use crate::text::counted;

/// A store with its index.
pub struct Stored {
    pub(super) store: Store,
    pub(super) index: Index,
}

impl Stored {
    /// Opens the store in a directory, and brings its index in the cache up to date; `note` is told
    /// what could not be read, and where it takes a while.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(root: &Path, cache: &Path, note: &dyn Fn(&str)) -> Result<Stored, Error> {
        let store = Store::new(root.to_owned());
        let (index, passed) = Index::open(cache, &store, note)?;
        if let Some(first) = passed.first() {
            let files = counted(passed.len(), "file");
            note(&format!("{files} of the store cannot be read: {first}"));
        }
        Ok(Stored { store, index })
    }

    /// The file of the index, for other programs; `None` where it is in memory.
    pub fn index_path(&self) -> Option<&Path> {
        self.index.path()
    }

    pub(super) fn measurement(&self, object: &str) -> Result<Measurement, StoreError> {
        self.store.read(&self.store.object(object))
    }
}
