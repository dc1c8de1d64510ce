//! A Kernel from source: a tree, patches, options; built in the cache, once.
//!
//! ```text
//! directory ┐
//! revision  ├─► tree (git) ─► patched tree ─┐
//! package   ┘      start + options ─────────┴─► key ─► cached? ─► lane: check out, make ─► Kernel
//! ```
//!
//! The key is what the kernel depends on: the tree's content, the start, the options, the compiler
//! with the architecture that it is for.
//! What is asked for twice is built once, whichever way it is named; so are two wishes of which
//! Kconfig makes the same configuration.

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
mod poll;
mod recipe;
mod record;
mod space;
mod start;
mod tools;
mod tree;
mod trees;

pub use difference::{options_between, with_options};
pub use history::{commits, that_touch};
pub(super) use obtain::{check, obtain};
