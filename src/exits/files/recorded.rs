//! What `ktax exits record --out` wrote.

use super::ExitsError;
use crate::model::{ExitTable, FORMAT};

pub(super) fn is_one(text: &str) -> bool {
    text.trim_start().starts_with('[') && text.contains("\"format\"")
}

pub(super) fn read(text: &str) -> Result<Vec<ExitTable>, ExitsError> {
    let damaged = |error: serde_json::Error| ExitsError::Damaged {
        line: error.line(),
        what: error.to_string(),
    };
    let tables: Vec<ExitTable> = serde_json::from_str(text).map_err(damaged)?;
    match tables.iter().find(|table| table.format != FORMAT) {
        Some(table) => Err(ExitsError::Format { found: table.format }),
        None => Ok(tables),
    }
}
