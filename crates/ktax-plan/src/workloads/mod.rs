//! Workload definitions, and the rows that are made of them.

mod definitions;
mod document;
mod fits;
mod native;
mod param;
mod quantity;
mod rows;
mod select;
mod touched;

pub use definitions::{Definition, definition, definitions, names, with_definitions};
pub use document::Document;
pub use fits::{check_for_guest, check_for_times, check_memory};
pub use native::{native_names, native_rows};
pub use param::{Param, ParamValue};
pub use select::{each_once, find, select};
pub use touched::{TouchedTable, TouchingRow};
