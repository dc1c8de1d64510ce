//! Files that a user names, and their limits.

use std::path::Path;

use super::error::Error;
use crate::disk::{read_limited, read_text};

/// More than an experiment, a ledger or a patch has. Some files have no end, such as `/dev/zero`.
const FILE_MAX: u64 = 64 << 20;

/// A result has never been a hundredth of this.
pub(super) const RESULT_MAX: u64 = 1 << 30;

/// The text of a file; `wanted` says what it should be.
///
/// # Errors
/// The file cannot be read, is too large, or is no text.
pub fn text(path: &Path, wanted: &'static str) -> Result<String, Error> {
    read_text(path, FILE_MAX).map_err(|reason| unreadable(path, wanted, reason))
}

/// The bytes of such a file.
pub(super) fn bytes(path: &Path, wanted: &'static str) -> Result<Vec<u8>, Error> {
    read_limited(path, FILE_MAX).map_err(|reason| unreadable(path, wanted, reason))
}

/// Why such a file is not read.
pub(super) fn unreadable(path: &Path, wanted: &'static str, reason: std::io::Error) -> Error {
    Error::Unreadable { path: path.display().to_string(), reason, wanted }
}
