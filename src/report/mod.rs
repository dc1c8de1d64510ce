//! A [`Comparison`] as text for people, JSON and CSV for programs, Markdown for a review.
//!
//! Whatever came from outside (titles, boot lines, failures, symbols) goes through [`escape()`]
//! first: no report can move a cursor, reorder a line or break out of a table cell.

mod bisection;
mod csv;
mod exits;
mod json;
mod ledger;
mod markdown;
mod native;
mod number;
mod shapes;
mod stat;
mod text;
mod timed;
mod view;

use thiserror::Error;

use crate::model::Comparison;

pub use bisection::{bisection, place};
pub use exits::{Classic, exits, exits_classic, exits_diff, guests, guests_compared};
pub use json::json;
pub use ledger::ledger;
pub use native::native;
pub use shapes::Shape;
pub use stat::{command_line, stat};
pub use text::{paragraph, table};
pub use timed::timed;

/// What a report can be. Adding one is one file, and one line in [`render`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Text(TextOptions),
    /// Everything, as in `comparison.json`.
    Json,
    /// One line for each row and metric, with all samples.
    Csv,
    /// For a mail or a review, as GitHub renders it.
    Markdown,
    /// In the shape of a published table.
    Shape(Shape, TextOptions),
}

/// How [`Format::Text`] looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that a line may have; less than 40 counts as 40.
    pub width: u16,
    /// Whether verdicts are coloured.
    pub colour: bool,
}

impl Default for TextOptions {
    /// What a document has: 100 columns, no colour.
    fn default() -> Self {
        TextOptions { width: 100, colour: false }
    }
}

/// Why a report cannot be made. No Comparison that ktax writes gets here.
#[derive(Debug, Error)]
pub enum ReportError {
    #[error("cannot write as JSON: {0}; make it again, a comparison with `ktax analyse DIR`")]
    Json(#[from] serde_json::Error),
    #[error("cannot write the comparison as CSV: {0}; make it again with `ktax analyse DIR`")]
    Csv(String),
}

/// The report, ending in a newline.
pub fn render(comparison: &Comparison, format: &Format) -> Result<String, ReportError> {
    match format {
        Format::Text(options) => Ok(text::render(comparison, *options)),
        Format::Json => json(comparison),
        Format::Csv => csv::render(comparison),
        Format::Markdown => Ok(markdown::render(comparison)),
        Format::Shape(shape, options) => Ok(shape.render(comparison, *options)),
    }
}
