//! A [`Comparison`] in the shape of a table that was published, to lay beside it.

mod counters;
mod lmbench;
mod pages;

pub use counters::native_counters;

use super::options::TextOptions;
use crate::model::Comparison;

/// Whose shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The three tables of the LSM paper of 2002, with the rows of lmbench's summary that it
    /// leaves out below.
    Lmbench,
    /// The performance counters of the PARAVIRT mail of 2009.
    Counters,
    /// The fork test of the shared page tables of 2002.
    Pages,
}

impl Shape {
    /// The table, ending in a newline; what the Comparison has no rows for is left out.
    pub fn render(self, comparison: &Comparison, options: TextOptions) -> String {
        match self {
            Shape::Lmbench => lmbench::render(comparison, options),
            Shape::Counters => counters::render(comparison, options),
            Shape::Pages => pages::render(comparison, options),
        }
    }
}
