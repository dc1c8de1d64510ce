//! A page for a browser: one file that needs no network and no script, and is the archive of what
//! it shows.
//!
//! Text goes through [`text::t`], which is the only way from outside into the page.

mod article;
#[cfg(test)]
mod contrast;
mod data;
mod document;
mod flame_file;
mod index;
mod picture;
mod section;
mod spot;
mod svg;
mod table;
mod text;
mod verdict;

use super::format::Format;

pub use data::{PageError, results_of_page};
pub use flame_file::flame_file;
pub use index::{Listed, SITE_MARK, index as site_index};

/// Opens in any browser, prints on paper.
pub const FORMAT: Format = Format {
    name: "html",
    file: Some("report.html"),
    write: |report, _| document::document(&[report]),
    several: |all, _| document::document(all),
};
