//! Whether what was estimated is what was measured.

mod records;
mod report;
mod view;
