//! A search for what carries a difference.

mod name;
mod nothing;
mod records;
mod report;
mod view;

pub use name::{elements, place};
pub use nothing::NothingToSearch;
