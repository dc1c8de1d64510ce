//! For a terminal.

mod command;
mod draw;
mod page;
mod plain;
mod sections;
mod write;

pub use command::command_lines;
pub use page::Page;
pub use plain::{numbers, plain_table};
pub use sections::section;
pub use write::{FORMAT, header, legend, of_what_is_shown};
