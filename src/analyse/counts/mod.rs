//! Counts: Layouts of both Sides, paired, judged by the exact rule.

mod functions;
mod gather;
mod notes;
mod rows;
mod source;

pub use functions::plain;
pub use rows::counts;
pub use source::CountsRuns;
