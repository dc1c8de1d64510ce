//! Everything, for programs.

use serde::Serialize;

use super::ReportError;
use crate::text::escape_json;

/// Pretty JSON, safe to print on a terminal.
pub fn json(value: &impl Serialize) -> Result<String, ReportError> {
    Ok(escape_json(&serde_json::to_string_pretty(value)?) + "\n")
}
