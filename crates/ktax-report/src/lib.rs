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

mod again;
mod bisection;
mod calibration;
mod carried;
mod changes;
mod comparison;
mod counts;
mod curves;
mod effect;
mod error;
mod exits;
mod explained;
mod exports;
mod flame;
mod forest;
mod formats;
mod guests;
mod headline;
mod history;
mod ledger;
mod named;
mod native;
mod number;
mod options;
mod saved;
mod shapes;
mod stat;
mod sweep;
mod times;
mod validation;
mod verdict;
mod versions;
pub mod view;
mod words;

pub use again::search_again;
pub use bisection::{NothingToSearch, elements, place};
pub use error::ReportError;
pub use exits::{Classic, ExitDiff, ExitTables, exits_classic};
pub use explained::Explained;
pub use exports::{EXPORTS, Export};
pub use formats::{
    CSV, FORMATS, Format, HTML, JSON, Listed, MAIL, MARKDOWN, PageError, SITE_MARK, TEXT,
    plain_table, render, render_all, results_of_page, site_index, to_json,
};
pub use history::sparkline;
pub use named::Named;
pub use number::whole;
pub use options::TextOptions;
pub use shapes::Shape;
pub use stat::StatPage;
pub use versions::versions;
pub use view::Report;
