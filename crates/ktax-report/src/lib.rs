//! A result as text for people, JSON and CSV for programs, Markdown for a review, and a page.
//!
//! ```
//! use ktax_report::{FORMATS, TEXT};
//!
//! assert!(FORMATS.iter().any(|format| format.name == TEXT.name));
//! ```
//!
//! Every result is a [`Report`]: it says what its page shows (a `View`), which lines programs get
//! (its `Records`), and what is kept on disk (JSON). Every [`Format`] can print every [`Report`].
//! Whatever came from outside (titles, boot lines, failures, symbols) is escaped by the format: no
//! report can move a cursor, reorder a line or break out of a table cell.

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

pub use bisection::{NothingToSearch, elements, place};
pub use exits::{Classic, ExitDiff, ExitTables, exits_classic};
pub use exports::{EXPORTS, Export};
pub use formats::{
    CSV, FORMATS, Format, HTML, JSON, Listed, MAIL, MARKDOWN, SITE_MARK, TEXT, TextOptions,
    plain_table, render, results_of_page, site_index, to_json,
};
pub use history::sparkline;
pub use native::StatPage;
pub use number::whole;
pub use saved::{Explained, versions};
pub use shapes::Shape;

pub use view::{Document, Report};
