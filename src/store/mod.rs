//! What was measured, kept so that it is never measured again: a directory of immutable objects,
//! each named by what it is of. It may lie on a network file system: nothing is locked, an object
//! appears whole or not at all, and two writers of one object write the same bytes.
//!
//! [docs/store.md](../../docs/store.md) says what the files are.

mod error;
mod measured;
mod object;
mod place;

pub use error::StoreError;
pub use measured::{Group, groups, measured, place_in};
pub use place::{Checked, Footprint, Kept, Store};
