use std::path::PathBuf;

/// From where functions were called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paths {
    /// Is counted.
    Followed,
    /// Is not known: to measure what that takes.
    LeftOut,
    /// Is not known, and costly instructions are not counted: to measure what both take.
    LeftOutWithCostly,
    /// Is counted, and written to this new file at instructions that are drawn, with registers and
    /// stack: for a test that unwinds them.
    Drawn(PathBuf),
}
