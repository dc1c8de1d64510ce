//! Counts: Boots to the freeze, Runs from there.

mod driver;
mod measure;

pub use driver::CountsDriver;
