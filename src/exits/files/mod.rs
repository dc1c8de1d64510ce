//! Exit tables in files: recordings of ktax, traces as text, and files that kernels write.
//!
//! Files come from anywhere: every text is a table or an error, and never a guess.

mod e500;
mod error;
mod hv;
mod lines;
mod read;
mod recorded;
mod trace;

pub use error::ExitsError;
pub(super) use read::is_cumulative;
pub use read::{FILE_MAX, is_trace, read};
pub use recorded::of_results;
