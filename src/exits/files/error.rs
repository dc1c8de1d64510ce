use thiserror::Error;

use crate::model::Blame;

/// No architecture has a tenth of this. A text with more has addresses among its reasons.
pub const REASONS_MAX: usize = 4096;

/// Why a file has no table.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ExitsError {
    #[error(
        "it has no exit timing that ktax knows; ktax reads recordings of `ktax exits record`, the \
         text of `perf script` and `trace-cmd report` with KVM's events, and KVM's debugfs files \
         `timing` (e500) and `timings` (book3s HV)"
    )]
    Unknown,
    #[error(
        "its events do not show when a guest was entered and left; record kvm:kvm_entry and \
         kvm:kvm_exit, or syscalls:sys_enter_ioctl and kvm:kvm_userspace_exit"
    )]
    NoPairs,
    #[error(
        "it has file format {found}, which this ktax does not read; record again with this ktax"
    )]
    Format { found: u32 },
    #[error(
        "the rows of its table {table} add up to {rows_ns} ns, more than its wall time of \
         {wall_ns} ns; record again"
    )]
    TooMuch { table: usize, rows_ns: u128, wall_ns: u64 },
    #[error("its table {table} has two rows for the reason {reason:?}; record again")]
    Twice { table: usize, reason: String },
    #[error(
        "its exits have more than {REASONS_MAX} reasons, so ktax does not know this kernel's \
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
