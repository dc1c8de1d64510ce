use std::ops::RangeInclusive;
use std::path::PathBuf;

use super::cpuid::Feature;

/// The most vCPUs of a guest: as many as fit into the table of `mptable.rs`.
pub const CPUS_MAX: u8 = 16;
/// The least and the most memory of a guest, in MiB: devices begin at 3 GiB.
pub const MEMORY_MIB: RangeInclusive<u64> = 32..=3072;

/// What to boot.
#[derive(Debug, Clone)]
pub struct Config {
    /// A bzImage.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: Option<PathBuf>,
    /// The boot line.
    pub append: String,
    /// The guest's memory, in MiB: one of [`MEMORY_MIB`].
    pub memory_mib: u64,
    /// The number of vCPUs, from 1 to [`CPUS_MAX`].
    pub cpus: u8,
    /// Features of KVM's own that the guest does not see.
    pub without: Vec<Feature>,
    /// Whether to stop this process (SIGSTOP) where the guest marks what is of interest.
    pub stops_at_marks: bool,
}
