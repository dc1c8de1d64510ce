/// The free disk space that a comparison can need, in GiB: packages of kernels, and a snapshot of
/// each boot. Every message that tells to free some names this much.
pub const FREE_DISK_GIB: u64 = 2;
