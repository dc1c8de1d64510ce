//! Parses the output of `ktax --json`.

use ktax::model::{
    Bisection, Comparison, ExitTable, History, LedgerTable, SavedResult, StatTable, read_results,
};

/// One number of cycles, without an interval: `1486 cycles`, `12 TSC cycles`.
pub fn lone_cycles(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "TSC").collect();
    let is_lone = |pair: &&[&str]| {
        let digits = pair[0].replace(['.', ',', '(', '~', '+', '-'], "");
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number && pair[1].starts_with("cycle")
    };
    words.windows(2).find(is_lone).map(|pair| pair.join(" "))
}

/// The only result.
#[track_caller]
pub fn result(text: &str) -> SavedResult {
    let mut results = read_results(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(results.len(), 1, "{text}");
    results.remove(0).result
}

#[track_caller]
pub fn comparison(text: &str) -> Comparison {
    match result(text) {
        SavedResult::Comparison(comparison) => *comparison,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn bisection(text: &str) -> Bisection {
    match result(text) {
        SavedResult::Bisection(bisection) => *bisection,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn ledger(text: &str) -> LedgerTable {
    match result(text) {
        SavedResult::Ledger(table) => *table,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn stat(text: &str) -> StatTable {
    match result(text) {
        SavedResult::Stat(table) => *table,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn history(text: &str) -> History {
    match result(text) {
        SavedResult::History(history) => *history,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn exits(text: &str) -> Vec<ExitTable> {
    match result(text) {
        SavedResult::Exits(tables) => tables,
        other => panic!("{other:?}"),
    }
}
