//! Everything, for programs.

use serde::Serialize;

use super::format::{Format, each};
use crate::error::ReportError;
use ktax_host::text::escape_json;

/// What is kept on disk, safe to print on a terminal; of several an array.
pub const FORMAT: Format = Format {
    name: "json",
    file: None,
    write: |report, _| to_json(&report.saved()),
    several: |all, options| {
        let all = each(all, FORMAT, options)?;
        let all: Vec<&str> = all.iter().map(|one| one.trim_end()).collect();
        Ok(format!("[\n{}\n]\n", all.join(",\n")))
    },
};

/// Pretty JSON of anything, safe to print on a terminal.
///
/// # Errors
/// A value that JSON cannot hold.
pub fn to_json(value: &impl Serialize) -> Result<String, ReportError> {
    Ok(escape_json(&serde_json::to_string_pretty(value)?) + "\n")
}
