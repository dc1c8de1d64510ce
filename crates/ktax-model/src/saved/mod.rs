//! Results as JSON, on disk and on stdout: what each file says of itself, and the only reader.

mod error;
mod exits;
mod read;
mod result;

pub use error::SavedError;
pub use exits::{EXIT_REASONS_MAX, ExitFault, check_exits};
pub use read::read_results;
pub use result::{Saved, SavedResult};
