//! A result as text for people, JSON and CSV for programs, Markdown for a review, and a page.
//!
//! ```
//! use ktax_report::{FORMATS, TEXT};
//!
//! assert!(FORMATS.iter().any(|format| format.name == TEXT.name));
//! ```
//!
//! Every result is a [`Report`]. A report has a page for people (its `View`), lines for programs
//! (its `Records`) and a form that is kept on disk (JSON). Every [`Format`] can print every
//! [`Report`]. Formats escape text from outside (titles, boot lines, failures, symbols), so that no
//! text can move the cursor, reorder a line or break out of a table cell.

mod bisection;
mod calibration;
mod changes;
mod counts;
mod effect;
mod exits;
mod exports;
mod formats;
mod guests;
mod history;
mod ledger;
mod native;
mod number;
mod pictures;
mod saved;
mod shapes;
mod times;
pub mod view;
mod words;

pub use bisection::{NothingToSearch, elements, point_name};
pub use exits::{ClassicColumns, ExitDiff, ExitTables, exits_classic};
pub use exports::{EXPORTS, Export};
pub use formats::{
    CSV, FORMATS, Format, HTML, JSON, MAIL, MARKDOWN, PageEntry, SITE_MARK, TEXT, TextOptions,
    plain_table, render, results_of_page, site_index, to_json,
};
pub use history::sparkline;
pub use native::StatPage;
pub use number::whole;
pub use saved::{ExplainedRow, versions};
pub use shapes::Shape;

pub use view::{Document, Report};
