//! Times: pairs become a Comparison; and the question after each pair whether to go on.

mod blocks;
mod boots;
mod crossings;
pub mod noise;
mod pairs;
mod row;

pub use blocks::{in_blocks, is_drawn, of_blocks, turns};
pub use pairs::{Progress, estimates, never_ran, progress, times, wants_more, why_ended};
