//! The formats of a [`Report`](super::Report): a file each, which shows its `View`, its `Records`
//! or its JSON.
//!
//! A new format is a file with a `FORMAT` in it, and a line in the list below.

mod format;

pub use format::{Format, render, render_all};

format::formats! {
    mod text;
    mod markdown;
    mod csv;
    mod json;
    mod html;
    mod mail;
}

pub use self::csv::FORMAT as CSV;
pub use html::{
    FORMAT as HTML, Listed, PageError, SITE_MARK, flame_file, results_of_page, site_index,
};
pub use json::{FORMAT as JSON, to_json};
pub use mail::FORMAT as MAIL;
pub use markdown::FORMAT as MARKDOWN;
pub use text::{FORMAT as TEXT, Page, numbers, plain_table};
