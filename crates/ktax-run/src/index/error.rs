// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use crate::store::StoreError;

/// Files of the store that could not be read: they are damaged, or of another version.
pub type Passed = Vec<StoreError>;

/// Why the index cannot be used.
#[derive(Debug, Error)]
pub enum IndexError {
    #[error("cannot use the index {path}: {reason}; remove this file, and ktax makes it again")]
    Sqlite { path: String, reason: rusqlite::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
}
