use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_model::{
    Estimate, LedgerCosts, LedgerEntry, LedgerMethod, LedgerTable, LowHigh, OpenEnd, Verdict,
};

/// What the matrix has in every place, where a machine's cycles are estimated.
pub const CYCLES_TITLE: &str = "estimated cycles %";

/// Before an estimate that lacks instructions which the machine's file does not know.
pub const AT_LEAST: &str = "≥";

/// The same where the change has fewer of them.
pub const AT_MOST: &str = "≤";

/// Behind an estimate that lacks some that come on top, and others that are saved.
pub const LEFT_OUT: &str = " *";

/// The same, where they are not.
pub const INSTRUCTIONS_TITLE: &str = "instructions %";

/// The same of guests.
pub const TIME_TITLE: &str = "time %";

/// What the additions are ranked by.
pub fn title(ledger: &LedgerTable) -> &'static str {
    match &ledger.method {
        LedgerMethod::Guests(_) => TIME_TITLE,
        LedgerMethod::Counts { .. } if machine(ledger).is_some() => CYCLES_TITLE,
        LedgerMethod::Counts { .. } => INSTRUCTIONS_TITLE,
    }
}

/// The machine whose cycles are estimated in percent.
pub fn machine(ledger: &LedgerTable) -> Option<&Estimate> {
    let entries = ledger.rows.iter().flat_map(|row| row.entries.iter().chain(&row.together));
    let costs = entries.filter_map(|entry| entry.costs.as_ref());
    costs.filter_map(|costs| costs.estimate.as_ref()).find(|estimate| estimate.percent.is_some())
}

/// Whether counts or the time say that it changes the row.
pub fn is_change(costs: &LedgerCosts) -> bool {
    costs.any(Verdict::is_change) || !costs.costly.is_empty()
}

/// Nothing that a verdict calls a change.
const NO_CHANGE: &str = "-";

/// The additions, by what they cost where they cost most, in percent.
pub fn names(ledger: &LedgerTable) -> Vec<&str> {
    let Some(first) = ledger.rows.first() else { return Vec::new() };
    let mut names: Vec<&str> = first.entries.iter().map(|entry| &*entry.name).collect();
    names.sort_by(|a, b| most(ledger, b).total_cmp(&most(ledger, a)));
    names
}

/// The largest cost of an addition over the Workloads, in percent.
fn most(ledger: &LedgerTable, name: &str) -> f64 {
    let of_row = |entry: &LedgerEntry| entry.costs.as_ref()?.rank();
    let entries = ledger.rows.iter().flat_map(|row| &row.entries);
    let named = entries.filter(|entry| entry.name == name);
    named.filter_map(of_row).fold(f64::NEG_INFINITY, f64::max)
}

/// What each addition costs each Workload; nothing of one Workload, whose table says it.
pub fn matrix(ledger: &LedgerTable) -> Option<Section> {
    let workload = |row: &str| (row.replacen(':', ":\n", 1), Kind::Number);
    let heads: Vec<(String, Kind)> = [("added".to_owned(), Kind::Name)]
        .into_iter()
        .chain(ledger.rows.iter().map(|row| workload(&row.row)))
        .collect();
    let line = |name: &str| {
        let of = |entries: &[LedgerEntry]| entries.iter().find(|it| it.name == name).map(cell);
        let cells = ledger.rows.iter().map(|row| of(&row.entries).unwrap_or_default());
        Line::of([Cell::from(name)].into_iter().chain(cells))
    };
    let together = ledger.rows.iter().any(|row| row.together.is_some()).then(|| {
        let cells = ledger.rows.iter().map(|row| row.together.as_ref().map(cell));
        Line::of([Cell::from("together")].into_iter().chain(cells.map(Option::unwrap_or_default)))
    });
    let lines = names(ledger).into_iter().map(line).chain(together);
    let table = Table::of(heads.iter().map(|(head, kind)| (head.as_str(), *kind))).with(lines);
    (ledger.rows.len() > 1).then(|| Section::Table {
        title: title(ledger).to_owned(),
        table: Table { splits: true, ..table },
        notes: Vec::new(),
    })
}

/// The percent; a word where there is none.
fn cell(entry: &LedgerEntry) -> Cell {
    let changes = entry.costs.as_ref().is_some_and(is_change);
    let text = match (&entry.costs, entry.verdict) {
        (_, Verdict::DifferentWork) => "different".to_owned(),
        (None, _) | (_, Verdict::Failed) => "failed".to_owned(),
        (Some(costs), Verdict::TooFewBoots) => percent(costs),
        (Some(costs), _) if changes => percent(costs),
        (Some(_), _) => NO_CHANGE.to_owned(),
    };
    let percent = entry.costs.as_ref().filter(|_| changes).and_then(LedgerCosts::rank);
    Cell { shade: percent.map_or(0, shade), ..Cell::from(text) }
}

/// What the additions are ranked by: an interval of cycles, or one number that was counted.
pub fn percent(costs: &LedgerCosts) -> String {
    match costs.estimated_percent() {
        Some([low, high]) => interval([low, high], costs.open_end()),
        None => number::percent(costs.all.percent),
    }
}

/// An interval, or the only end that is known.
fn interval([low, high]: LowHigh, open: OpenEnd) -> String {
    let between = |low, high| number::percent_range(Some(low), Some(high));
    match open {
        OpenEnd::Neither => between(low, high),
        OpenEnd::Upper => format!("{AT_LEAST}{}", between(low, low)),
        OpenEnd::Lower => format!("{AT_MOST}{}", between(high, high)),
        OpenEnd::Both => format!("{}{LEFT_OUT}", between(low, high)),
    }
}

/// A step for each of 0.1, 1, 5 and 20 %.
fn shade(percent: f64) -> i8 {
    let steps = [0.1, 1.0, 5.0, 20.0].iter().filter(|limit| percent.abs() >= **limit).count() as i8;
    let steps = steps.max(1);
    if percent < 0.0 { -steps } else { steps }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of CR3 that was not timed comes on top, so the upper end says nothing.
    #[test]
    fn an_estimate_that_lacks_instructions_has_one_end() {
        for (open, text) in [
            (OpenEnd::Neither, "+2.43…2.57"),
            (OpenEnd::Upper, "≥+2.43"),
            (OpenEnd::Lower, "≤+2.57"),
            (OpenEnd::Both, "+2.43…2.57 *"),
        ] {
            assert_eq!(interval([2.43, 2.57], open), text);
        }
        assert_eq!(interval([59.6, 75.3], OpenEnd::Upper), "≥+59.6");
    }
}
