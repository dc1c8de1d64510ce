//! Exit tables that ktax wrote: `ktax exits record --out`, and what `--json` prints.

use super::error::ExitsError;
use ktax_model::{ExitTable, Saved, SavedResult, read_results};

pub(super) fn is_one(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[']) && text.contains("\"format\"")
}

pub(super) fn read(text: &str) -> Result<Vec<ExitTable>, ExitsError> {
    of_results(read_results(text)?)
}

/// The tables of all results: recordings, and comparisons of guests.
pub fn of_results(results: Vec<Saved>) -> Result<Vec<ExitTable>, ExitsError> {
    let mut tables = Vec::new();
    for saved in results {
        let those = match saved.result {
            SavedResult::Exits(those) => those,
            SavedResult::Comparison(comparison) => comparison.exit_tables(),
            SavedResult::ExitDiff(pair) => vec![pair.base, pair.change],
            _ => Vec::new(),
        };
        if those.is_empty() {
            return Err(ExitsError::OtherResult);
        }
        tables.extend(those);
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{FORMAT, SavedError};

    #[test]
    fn a_later_format_is_told_by_its_number() {
        let found = FORMAT + 1;
        let error = read(&format!("[{{\"format\": {found}, \"since\": 7}}]")).unwrap_err();
        assert_eq!(error, ExitsError::Saved(SavedError::Format { found }));
    }
}
