//! Counts: Layouts of both Sides, paired, judged by the exact rule.

mod functions;
mod gather;
mod notes;
mod rows;

pub use rows::counts;
