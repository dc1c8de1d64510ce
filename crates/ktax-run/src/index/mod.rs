//! An index of the store in SQLite: what a store of thousands of measurements answers at once.
//!
//! It is never the only copy of anything. It lies in the cache, is brought up to date whenever it
//! is opened, and is made again where it is missing, damaged, or of another version. Where no file
//! can be had, it is made in memory.

mod described;
mod error;
mod fill;
mod insert;
mod open;
mod query;

pub use error::{IndexError, Passed};
pub use open::Index;
pub use query::{
    Instrument, KeptMeasurement, StoredMeasurement, StoredPoint, StoredResult, StoredSubject,
};
