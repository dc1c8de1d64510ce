//! The largest files that ktax reads into memory, in bytes.

/// The largest image: a vmlinux with debug information fits.
pub(super) const IMAGE_MAX: u64 = 1 << 30;
/// The largest config.
pub(super) const CONFIG_MAX: u64 = 4 << 20;
/// The largest loadable module.
pub(super) const MODULE_MAX: u64 = 64 << 20;
