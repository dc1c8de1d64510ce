//! Text from outside, made harmless before anyone sees it. Every escaper in ktax is here, and all
//! of them agree on [`is_dangerous`]. And counts and sizes with their units.
//!
//! | For | Use |
//! |---|---|
//! | a line on a terminal | [`escape`] |
//! | a message of several lines | [`escape_lines`] |
//! | a path | [`escape_path`] |
//! | a command to type, a path or a word in one | [`shell_line`], [`shell_path`], [`shell_word`] |
//! | bytes from a guest or a program | [`escape_bytes`], [`escape_byte_lines`] |
//! | HTML, Markdown, Markdown code | [`html`], [`markdown`], [`code`] |
//! | a cell of CSV | [`csv_cell`] |
//! | JSON that may be printed on a terminal | [`escape_json`] |
//! | a terminal without UTF-8 | [`ascii()`], behind one of the others |

mod ascii;
mod bytes;
mod cell;
mod counted;
mod dangerous;
mod hashes;
mod json;
mod markup;
mod near;
mod shell;
mod size;
mod terminal;
#[cfg(test)]
mod tests;

pub use ascii::ascii;
pub use bytes::{escape_byte_lines, escape_bytes};
pub use cell::csv_cell;
pub use counted::{counted, counted_as};
pub use dangerous::is_dangerous;
pub use hashes::short_hashes;
pub use json::escape_json;
pub use markup::{code, html, markdown};
pub use near::nearest;
pub use shell::{shell_line, shell_path, shell_word};
pub use size::binary_size;
pub use terminal::{escape, escape_lines, escape_path};
