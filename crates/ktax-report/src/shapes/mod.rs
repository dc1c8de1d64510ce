//! A [`Comparison`] in the shape of a table that was published, to lay beside it.

mod counters;
mod lmbench;
mod pages;

pub use counters::native_counters;

use super::formats::Page;
use super::options::TextOptions;
use ktax_model::{Comparison, Row};

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
    /// The table, ending in a newline, and below it which rows it has no place for; what the
    /// Comparison has no rows for is left out.
    pub fn render(self, comparison: &Comparison, options: TextOptions) -> String {
        let table = match self {
            Shape::Lmbench => lmbench::render(comparison, options),
            Shape::Counters => counters::render(comparison, options),
            Shape::Pages => pages::render(comparison, options),
        };
        let rows = comparison.rows.iter().filter(|row| !self.has(comparison, row));
        let omitted: Vec<&str> = rows.map(|row| row.row.as_str()).collect();
        if omitted.is_empty() {
            return table;
        }
        let said = format!(
            "Omitted, because these tables have no place for them: {}. To print all rows, type \
             `ktax report` without --layout.",
            omitted.join(", ")
        );
        table + "\n" + &Page::new(options).paragraph(&said)
    }

    /// Whether a row has a place.
    fn has(self, comparison: &Comparison, row: &Row) -> bool {
        match self {
            Shape::Lmbench => lmbench::has(comparison, row),
            Shape::Counters => true,
            Shape::Pages => pages::has(comparison, row),
        }
    }
}
