//! Counts: Layouts of both Sides, paired, judged by the exact rule.

mod effects;
mod functions;
mod gather;
mod kinds;
mod notes;
mod operations;
mod paths;
mod place;
mod plain;
mod program_work;
mod rows;
mod scale;
mod sizes;
mod source;
mod waits;

pub(super) use functions::deltas as function_deltas;
pub use paths::row_paths;
pub use plain::plain;
pub use rows::counts;
pub use source::CountsRuns;
