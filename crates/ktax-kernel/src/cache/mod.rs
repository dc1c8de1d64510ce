//! The kernel cache.
//!
//! ```text
//! CACHE/kernels/<sha256 of the image>/{image,config-<sha256>,module-<sha256>,origin.json}
//! CACHE/kernels/by-package/<name>_<version>.json
//! CACHE/kernels/tmp/            downloads, files that are being written, apt's index of its lists
//! CACHE/builds/                 what `kernel/source` needs to build again quickly
//! ```
//!
//! ktax writes each file in `tmp/`, syncs it and renames it, so a reader sees a whole file or none.
//! The directory of an image is named after its content, so two processes that write one at the
//! same time write the same bytes. ktax replaces a damaged file and does not remove it, because
//! another process may be reading it. [`ktax_host::cache`] removes whole kernels, if nobody uses
//! them. ktax hashes every image, config and module that it reads, and makes the Identity from the
//! bytes each time: it trusts no file of the cache.

mod at_hand;
mod files;
mod kernel;
mod store;

pub use at_hand::{at_hand, cached, place};
pub use kernel::Kernel;
pub(super) use store::Cache;
