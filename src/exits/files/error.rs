use thiserror::Error;

/// No architecture has a tenth of it: more are texts that hold addresses.
pub(super) const REASONS_MAX: usize = 4096;

/// Why a file has no table.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ExitsError {
    #[error(
        "it has no exit timing that ktax knows; it reads recordings of `ktax exits record`, the \
         text of `perf script` and `trace-cmd report` with KVM's events, and KVM's debugfs files \
         `timing` (e500) and `timings` (book3s HV)"
    )]
    Unknown,
    #[error(
        "its events do not tell when a guest was entered and left; record kvm:kvm_entry and \
         kvm:kvm_exit, or syscalls:sys_enter_ioctl and kvm:kvm_userspace_exit"
    )]
    NoPairs,
    #[error("it is of file format {found}; record it with this ktax")]
    Format { found: u32 },
    #[error(
        "its table {table} has rows of {rows_ns} ns within {wall_ns} ns of wall time; record again"
    )]
    TooMuch { table: usize, rows_ns: u128, wall_ns: u64 },
    #[error("its table {table} has two rows for {reason:?}; record again")]
    Twice { table: usize, reason: String },
    #[error(
        "its exits have more than {REASONS_MAX} reasons, so that ktax does not know this kernel's \
         text for them; record on its host with `ktax exits record`"
    )]
    Reasons,
    #[error("line {line}: {what}; copy the file again, whole")]
    Damaged { line: usize, what: String },
}
