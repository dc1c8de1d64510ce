//! Which rows execute a function, or what a patch changes.

mod error;
mod rows;

pub use error::{TOUCHING, TouchingError};
pub(super) use rows::remark;
pub use rows::{Touched, expand_touching, touching};
