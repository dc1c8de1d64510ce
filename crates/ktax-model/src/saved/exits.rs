// The messages say what the fields are.
#![allow(missing_docs)]

use std::collections::BTreeSet;

use thiserror::Error;

use crate::ExitTable;

/// No architecture has a tenth of this. A text with more has addresses among its reasons.
pub const EXIT_REASONS_MAX: usize = 4096;

/// What no recorder writes into an exit table.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ExitFault {
    #[error(
        "the rows of its table {table} add up to {rows_ns} ns, more than its wall time of \
         {wall_ns} ns"
    )]
    TooMuch { table: usize, rows_ns: u128, wall_ns: u64 },
    #[error("its table {table} has two rows for the reason {reason:?}")]
    Twice { table: usize, reason: String },
    #[error("its table {table} has more than {EXIT_REASONS_MAX} reasons")]
    Reasons { table: usize },
}

/// Refuses exit tables that no recorder writes, wherever they come from.
///
/// # Errors
/// The first fault.
pub fn check_exits<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Result<(), ExitFault> {
    tables.into_iter().enumerate().try_for_each(|(at, table)| check(at + 1, table))
}

fn check(number: usize, table: &ExitTable) -> Result<(), ExitFault> {
    if table.rows.len() > EXIT_REASONS_MAX {
        return Err(ExitFault::Reasons { table: number });
    }
    let mut reasons = BTreeSet::new();
    if let Some(twice) = table.rows.iter().find(|row| !reasons.insert(&row.reason)) {
        return Err(ExitFault::Twice { table: number, reason: twice.reason.clone() });
    }
    let wall_ns = table.account.as_ref().map_or(0, |account| account.wall_ns);
    let rows_ns = table.rows.iter().map(|row| u128::from(row.time_ns())).sum();
    match wall_ns > 0 && rows_ns > u128::from(wall_ns) {
        true => Err(ExitFault::TooMuch { table: number, rows_ns, wall_ns }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExitAccount, ExitRow};

    fn faults(rows: &[(&str, u64)], wall_ns: u64) -> Result<(), ExitFault> {
        let row = |(reason, sum_ns): &(&str, u64)| ExitRow {
            reason: (*reason).into(),
            count: 1,
            sum_ns: Some(*sum_ns),
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
        let (rows, warnings) = (rows.iter().map(row).collect(), vec![]);
        let account = Some(account);
        check_exits([&ExitTable { of, source, rows, warnings, account, ..ExitTable::default() }])
    }

    #[test]
    fn rows_longer_than_the_wall_time_are_refused() {
        assert_eq!(faults(&[("IO", 60), ("HLT", 40)], 100), Ok(()));
        let rows_ns = u128::from(u64::MAX) + 40;
        let fault = ExitFault::TooMuch { table: 1, rows_ns, wall_ns: 100 };
        assert_eq!(faults(&[("IO", u64::MAX), ("HLT", 40)], 100), Err(fault));
    }

    #[test]
    fn a_reason_that_is_there_twice_is_refused() {
        let fault = ExitFault::Twice { table: 1, reason: "IO".into() };
        assert_eq!(faults(&[("IO", 6), ("IO", 4)], 100), Err(fault));
    }

    #[test]
    fn more_reasons_than_any_architecture_has_are_refused() {
        let names: Vec<String> = (0..=EXIT_REASONS_MAX).map(|at| at.to_string()).collect();
        let rows: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        assert_eq!(faults(&rows[1..], 0), Ok(()));
        assert_eq!(faults(&rows, 0), Err(ExitFault::Reasons { table: 1 }));
    }
}
