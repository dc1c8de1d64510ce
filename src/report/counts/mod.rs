//! Comparisons of instructions, counted exactly.

mod functions;
mod sides;
mod table;
mod view;

pub use sides::sides;
pub use view::{records, view};
