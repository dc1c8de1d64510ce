//! Exit tables in files: recordings of ktax, traces as text, and files that kernels write.
//!
//! Files come from anywhere: every text is a table or an error, and never a guess.

mod e500;
mod error;
mod hint;
mod hv;
mod kvm_stat;
mod line;
mod lines;
mod read;
mod reason;
mod recorded;
mod trace;
mod unread;

pub use error::ExitsError;
pub(super) use read::is_cumulative;
pub use read::{FILE_MAX, FileKind, kind, read};
pub use recorded::of_results;
