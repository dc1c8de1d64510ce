//! A search for what carries a difference.

mod name;
mod records;
mod report;
mod view;

pub use name::place;
