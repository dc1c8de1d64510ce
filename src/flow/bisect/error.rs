// The messages say what the fields are.
#![allow(missing_docs)]

use thiserror::Error;

use crate::model::Blame;
use crate::stats::exact::MIN_LAYOUTS;
use crate::text::shell_path;

/// Why a search cannot begin, or cannot go on.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BisectError {
    #[error(
        "bisect needs exactly one row, but {rows} are selected; name one, such as -w fork-exit"
    )]
    Rows { rows: usize },
    #[error("a verdict needs at least {MIN_LAYOUTS} layouts, not {layouts}; remove --layouts")]
    FewLayouts { layouts: u32 },
    #[error(
        "{path} has a search already; resume it with `ktax bisect run {}`, or give --out a new \
         name",
        shell_path(.path)
    )]
    Begun { path: String },
    #[error(
        "{path} is not a directory of a search: {reason}; `ktax bisect start --help` says how to \
         start one"
    )]
    NotASearch { path: String, reason: String },
    #[error("{patch} is not what it was when the search began; start again in a new directory")]
    EditedPatch { patch: String },
    /// The kernels are the first digits of their hashes: where they are the same, QEMU or ktax is
    /// another.
    #[error(
        "the base is not what it was when the search began (its kernel is {now}, was {then}; or \
         QEMU or ktax is another): start again in a new directory"
    )]
    OtherBase { now: String, then: String },
}

impl BisectError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        Blame::User
    }
}
