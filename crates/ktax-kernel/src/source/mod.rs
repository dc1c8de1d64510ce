//! Builds kernels from source, and finds what differs between two sources.
//!
//! ```text
//! directory ┐
//! revision  ├─► tree (git) ─► patched tree ─┐
//! package   ┘      start + options ─────────┴─► key ─► cached? ─► lane: check out, make ─► Kernel
//! ```
//!
//! The key is a hash of all that a kernel depends on: the content of the tree, the start of the
//! configuration, the options, the compiler and the architecture. The cache has one kernel for each
//! key, whatever the source was called. It also has one for each finished configuration, because
//! different options can lead to the same one.

mod configure;
mod debian;
mod difference;
mod directory;
mod git;
mod history;
mod kconfig;
mod lane;
mod make;
mod obtain;
mod options;
mod patches;
mod recipe;
mod record;
mod space;
mod start;
mod tools;
mod tree;
mod trees;

pub use difference::{options_between, with_options};
pub use history::{commits, that_touch};
pub(super) use obtain::{check, check_files, obtain};
pub use patches::{is_built_in, patch};
