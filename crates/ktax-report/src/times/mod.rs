//! Comparisons of times of pairs.

mod details;
mod header;
mod records;
mod remarks;
mod table;
mod view;

pub use records::records;
pub use view::view;
