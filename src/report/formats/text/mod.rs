//! For a terminal.

mod draw;
mod page;
mod plain;
mod sections;
mod write;

pub use page::Page;
pub use plain::{numbers, plain_table};
pub use sections::section;
pub use write::{FORMAT, header, legend, of_what_is_shown};
