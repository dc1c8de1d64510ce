//! Comparisons of instructions, counted exactly.

mod bridge;
mod coherence;
mod details;
mod functions;
mod overall;
mod parallel;
mod scalability;
mod sides;
mod table;
mod view;

pub use sides::sides;
pub use view::{records, view};
