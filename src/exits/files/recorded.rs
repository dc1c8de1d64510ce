//! Exit tables that ktax wrote: `ktax exits record --out`, and what `--json` prints.

use super::error::ExitsError;
use crate::model::{ExitTable, SavedResult, read_results};

pub(super) fn is_one(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && text.contains("\"format\"")
}

/// The tables of all results.
pub(super) fn read(text: &str) -> Result<Vec<ExitTable>, ExitsError> {
    let mut tables = Vec::new();
    for saved in read_results(text)? {
        match saved.result {
            SavedResult::Exits(those) => tables.extend(those),
            _ => return Err(ExitsError::OtherResult),
        }
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FORMAT, SavedError};

    #[test]
    fn a_later_format_is_told_by_its_number() {
        let found = FORMAT + 1;
        let error = read(&format!("[{{\"format\": {found}, \"since\": 7}}]")).unwrap_err();
        assert_eq!(error, ExitsError::Saved(SavedError::Format { found }));
    }
}
