use thiserror::Error;

use ktax_model::{Blame, EXIT_REASONS_MAX, ExitFault, SavedError};

/// Why a file has no table.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ExitsError {
    #[error(
        "it has no exit timing that ktax knows; ktax reads recordings of `ktax exits record`, the \
         text of `perf kvm stat report`, of `perf script` and `trace-cmd report` with KVM's \
         events, and KVM's debugfs files `timing` (e500) and `timings` (book3s HV)"
    )]
    Unknown,
    #[error("it is empty; record again, or copy the whole file again")]
    Empty,
    #[error("it is {what}; {next}")]
    Recognised { what: String, next: String },
    #[error("it is {what}, and has no exit of a guest; {next}")]
    NoExits { what: String, next: String },
    #[error("{0}; record again with this version of ktax")]
    Saved(#[from] SavedError),
    #[error("it has no exit tables but another result; print it with `ktax report`")]
    OtherResult,
    #[error("{0}; record again")]
    Table(#[from] ExitFault),
    #[error(
        "its exits have more than {EXIT_REASONS_MAX} reasons, so ktax does not know this kernel's \
         text; record on its host with `ktax exits record`"
    )]
    Reasons,
    #[error("line {line}: {what}; copy the whole file again")]
    Damaged { line: usize, what: String },
}

impl ExitsError {
    /// Who can do something about it: the user, who gave the file.
    pub fn blame(&self) -> Blame {
        Blame::User
    }
}

/// An error about a line that is not of the format.
pub fn damaged(line: usize, what: &str) -> ExitsError {
    ExitsError::Damaged { line, what: what.to_owned() }
}
