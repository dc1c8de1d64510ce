//! Which part of what base and change differ in carries the difference.

mod error;
mod outcome;
mod search;
mod start;
mod store;

pub use error::BisectError;
pub use outcome::Search;
pub use start::{resume, start};
