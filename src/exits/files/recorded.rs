//! Reads the files of `ktax exits record --out`.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::error::ExitsError;
use crate::model::{ExitTable, FORMAT};

/// The field that every format has.
#[derive(Deserialize)]
struct AnyTable {
    format: u32,
}

pub(super) fn is_one(text: &str) -> bool {
    text.trim_start().starts_with('[') && text.contains("\"format\"")
}

pub(super) fn read(text: &str) -> Result<Vec<ExitTable>, ExitsError> {
    let damaged = |error: serde_json::Error| ExitsError::Damaged {
        line: error.line(),
        what: error.to_string(),
    };
    // The format comes first, since a later one has fields that this one does not know.
    let formats: Vec<AnyTable> = serde_json::from_str(text).map_err(damaged)?;
    if let Some(other) = formats.iter().find(|table| table.format != FORMAT) {
        return Err(ExitsError::Format { found: other.format });
    }
    let tables: Vec<ExitTable> = serde_json::from_str(text).map_err(damaged)?;
    for (at, table) in tables.iter().enumerate() {
        check(at + 1, table)?;
    }
    Ok(tables)
}

/// Refuses a table that no recorder writes.
fn check(number: usize, table: &ExitTable) -> Result<(), ExitsError> {
    let mut reasons = BTreeSet::new();
    if let Some(twice) = table.rows.iter().find(|row| !reasons.insert(&row.reason)) {
        return Err(ExitsError::Twice { table: number, reason: twice.reason.clone() });
    }
    let wall_ns = table.account.as_ref().map_or(0, |account| account.wall_ns);
    let rows_ns = table.rows.iter().map(|row| u128::from(row.sum_ns)).sum();
    match wall_ns > 0 && rows_ns > u128::from(wall_ns) {
        true => Err(ExitsError::TooMuch { table: number, rows_ns, wall_ns }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ExitAccount, ExitRow};

    fn text(rows: [(&str, u64); 2], wall_ns: u64) -> String {
        let row = |(reason, sum_ns): (&str, u64)| ExitRow {
            reason: reason.into(),
            count: 1,
            sum_ns,
            ..ExitRow::default()
        };
        let account = ExitAccount {
            wall_ns,
            open: vec![],
            lost: 0,
            unpaired: 0,
            missed_switches: 0,
            recorder: None,
        };
        let (of, source) = (String::new(), "a test".to_owned());
        let (rows, warnings) = (rows.map(row).to_vec(), vec![]);
        let account = Some(account);
        let table = ExitTable { format: FORMAT, of, source, rows, warnings, account };
        serde_json::to_string(&[table]).unwrap()
    }

    #[test]
    fn rows_longer_than_the_wall_time_are_refused() {
        assert!(read(&text([("IO", 60), ("HLT", 40)], 100)).is_ok());
        let error = read(&text([("IO", u64::MAX), ("HLT", 40)], 100)).unwrap_err();
        let rows_ns = u128::from(u64::MAX) + 40;
        assert_eq!(error, ExitsError::TooMuch { table: 1, rows_ns, wall_ns: 100 });
    }

    #[test]
    fn a_reason_that_is_there_twice_is_refused() {
        let error = read(&text([("IO", 6), ("IO", 4)], 100)).unwrap_err();
        assert_eq!(error, ExitsError::Twice { table: 1, reason: "IO".into() });
    }

    #[test]
    fn a_later_format_is_told_by_its_number() {
        let found = FORMAT + 1;
        let error = read(&format!("[{{\"format\": {found}, \"since\": 7}}]")).unwrap_err();
        assert_eq!(error, ExitsError::Format { found });
    }
}
