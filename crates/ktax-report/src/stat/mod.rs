//! What the kernel counts of a command: the two-column table of 2009, and its postscript.

mod headline;
mod numbers;
mod records;
mod remarks;
mod report;
mod table;
mod view;

pub use report::StatPage;
