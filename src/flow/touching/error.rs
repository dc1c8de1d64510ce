// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use crate::patch::PatchError;
use crate::text::escape;

/// Why no rows can be named that execute something.
#[derive(Debug, Error)]
pub enum TouchingError {
    /// The function is in no row.
    #[error(
        "no row executes a function {name:?}{} on {kernel}, where the compiler may have inlined \
         it; name a function that calls it, or a patch or a C file",
        .near.as_ref().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
    )]
    UnknownFunction { name: String, near: Option<String>, kernel: String },
    /// The file is not a patch.
    #[error("cannot use the patch {}: {reason}", escape(.patch))]
    NotAPatch { patch: String, reason: PatchError },
    /// Rows are to be selected by a patch, and there is none.
    #[error(
        "{TOUCHING} selects the rows that execute what a patch changes, but the change has no \
         patch; give it with --patch, or choose other rows with -w"
    )]
    NoPatch,
    /// No row executes what the patches change.
    #[error(
        "no row executes what {} changes{functions}; choose rows with -w, or measure a program of \
         your own behind --",
        escape(.patches)
    )]
    NoRow { patches: String, functions: String },
}

/// The selector of rows for `-w`.
pub const TOUCHING: &str = "@touching";
