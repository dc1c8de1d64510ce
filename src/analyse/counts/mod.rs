//! Counts: Layouts of both Sides, paired, judged by the exact rule.

mod costly;
mod functions;
mod gather;
mod notes;
mod paths;
mod plain;
mod rows;
mod source;

pub use paths::row_paths;
pub use plain::plain;
pub use rows::counts;
pub use source::CountsRuns;
