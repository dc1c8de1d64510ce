//! What was measured, kept so that it is never measured again: a directory of immutable objects,
//! each named by what it is of; the results that were printed, and the names that a user gives. It
//! may lie on a network file system: nothing is locked, a file appears whole or not at all, and two
//! writers of one object write the same counts.
//!
//! [docs/store.md](../../../docs/store.md) says what the files are.

mod beside;
mod error;
mod files;
mod measured;
mod measurements;
mod object;
mod results;
mod tags;

pub use error::StoreError;
pub use files::{FILE_MAX, Store};
pub use measured::{Group, groups, measured, place_in};
pub use measurements::{Checked, Footprint, Kept};
pub use object::{MEASUREMENT_MAX, PROFILES_MAX, RESULT_MAX, encode_measurement};
pub use tags::{LONGEST as LONGEST_TAG, Tagged};
