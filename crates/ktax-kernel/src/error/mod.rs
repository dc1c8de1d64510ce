//! Why a kernel could not be had, and who can do something about it.
//!
//! Each message says what failed, why, and what to type next. Foreign text in it is escaped where
//! the error is made, so that it cannot move a terminal's cursor.

mod build;
mod cache;
mod kernel;

pub use build::BuildError;
pub(crate) use cache::{full_disk_in, is_full};
pub use kernel::KernelError;
