//! Comparisons of instructions, counted exactly.

mod awaited;
mod branches;
mod bridge;
mod coherence;
mod costs;
mod details;
mod estimates;
mod functions;
mod kinds;
mod locks;
mod overall;
mod parallel;
mod paths;
mod scalability;
mod sides;
mod table;
mod view;
mod waits;

pub use costs::costs;
pub use kinds::kinds;
pub use paths::paths;
pub use sides::sides;
pub use view::{records, view};
