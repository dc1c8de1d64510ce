//! Counts: Boots to the freeze, Runs from there.

mod boots;
mod measure;

pub use boots::{CountsBoots, traced};
