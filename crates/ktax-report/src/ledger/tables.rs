//! Tables of a ledger: all additions by workload, and one table for each workload.

use crate::view::{Cell, Kind, Line, Section, Table, Value};
use crate::{effect, number, verdict, words};
use ktax_model::{
    Estimate, LedgerCost, LedgerCosts, LedgerEntry, LedgerExits, LedgerInteraction, LedgerMethod,
    LedgerRow, LedgerTable, LowHigh, METRICS, OpenEnd, TIME, Verdict,
};

/// Title of a matrix of estimated cycles.
pub const CYCLES_TITLE: &str = "estimated cycles %";

/// Mark before an estimate that lacks instructions which the machine's file does not know.
pub const AT_LEAST: &str = "≥";

/// Mark before an estimate that lacks instructions of which the change has fewer.
pub const AT_MOST: &str = "≤";

/// Mark behind an estimate that lacks some that come on top, and others that are saved.
pub const LEFT_OUT: &str = " *";

/// Title of a matrix of counts without estimates.
pub const INSTRUCTIONS_TITLE: &str = "instructions %";

/// Title of a matrix of guests.
pub const TIME_TITLE: &str = "time %";

/// Returns the title of the matrix: what the additions are ranked by.
fn matrix_title(ledger: &LedgerTable) -> &'static str {
    match &ledger.method {
        LedgerMethod::Guests(_) => TIME_TITLE,
        LedgerMethod::Counts { .. } if estimated_machine(ledger).is_some() => CYCLES_TITLE,
        LedgerMethod::Counts { .. } => INSTRUCTIONS_TITLE,
    }
}

/// Returns the estimate of the machine whose cycles are estimated in percent.
pub fn estimated_machine(ledger: &LedgerTable) -> Option<&Estimate> {
    let entries = ledger.rows.iter().flat_map(|row| row.entries.iter().chain(&row.together));
    let costs = entries.filter_map(|entry| entry.costs.as_ref());
    costs.filter_map(|costs| costs.estimate.as_ref()).find(|estimate| estimate.percent.is_some())
}

/// Tells whether counts or the time say that an addition changes the row.
pub fn is_change(costs: &LedgerCosts) -> bool {
    costs.any(Verdict::is_change) || !costs.costly.is_empty()
}

/// Cell of an addition that no verdict calls a change.
const NO_CHANGE: &str = "-";

/// Names the additions, by what they cost where they cost most, in percent.
pub fn additions(ledger: &LedgerTable) -> Vec<&str> {
    let Some(first) = ledger.rows.first() else { return Vec::new() };
    let mut names: Vec<&str> = first.entries.iter().map(|entry| &*entry.name).collect();
    names.sort_by(|a, b| largest_percent(ledger, b).total_cmp(&largest_percent(ledger, a)));
    names
}

/// Returns the largest cost of an addition over the Workloads, in percent.
fn largest_percent(ledger: &LedgerTable, name: &str) -> f64 {
    let entry_rank = |entry: &LedgerEntry| entry.costs.as_ref()?.rank();
    let entries = ledger.rows.iter().flat_map(|row| &row.entries);
    let named = entries.filter(|entry| entry.name == name);
    named.filter_map(entry_rank).fold(f64::NEG_INFINITY, f64::max)
}

/// Table of what each addition costs each Workload; `None` of one Workload, whose own table has it.
pub fn matrix(ledger: &LedgerTable) -> Option<Section> {
    let workload = |row: &str| (row.replacen(':', ":\n", 1), Kind::Number);
    let heads: Vec<(String, Kind)> = [("added".to_owned(), Kind::Name)]
        .into_iter()
        .chain(ledger.rows.iter().map(|row| workload(&row.row)))
        .collect();
    let line = |name: &str| {
        let found = |entries: &[LedgerEntry]| {
            entries.iter().find(|entry| entry.name == name).map(matrix_cell)
        };
        let cells = ledger.rows.iter().map(|row| found(&row.entries).unwrap_or_default());
        Line::new([Cell::from(name)].into_iter().chain(cells))
    };
    let together = ledger.rows.iter().any(|row| row.together.is_some()).then(|| {
        let cells = ledger.rows.iter().map(|row| row.together.as_ref().map(matrix_cell));
        Line::new([Cell::from("together")].into_iter().chain(cells.map(Option::unwrap_or_default)))
    });
    let lines = additions(ledger).into_iter().map(line).chain(together);
    let table = Table::new(heads.iter().map(|(head, kind)| (head.as_str(), *kind))).with(lines);
    (ledger.rows.len() > 1).then(|| Section::Table {
        title: matrix_title(ledger).to_owned(),
        table: Table { splits: true, ..table },
        notes: Vec::new(),
    })
}

/// Cell of the matrix: the percent, or a word where there is none.
fn matrix_cell(entry: &LedgerEntry) -> Cell {
    let changes = entry.costs.as_ref().is_some_and(is_change);
    let text = match (&entry.costs, entry.verdict) {
        (_, Verdict::DifferentWork) => "different".to_owned(),
        (None, _) | (_, Verdict::Failed) => "failed".to_owned(),
        (Some(costs), Verdict::TooFewBoots) => ranked_percent(costs),
        (Some(costs), _) if changes => ranked_percent(costs),
        (Some(_), _) => NO_CHANGE.to_owned(),
    };
    let percent = entry.costs.as_ref().filter(|_| changes).and_then(LedgerCosts::rank);
    Cell { shade: percent.map_or(0, shade_step), ..Cell::from(text) }
}

/// Formats the rank of an addition: an interval of cycles, or one number that was counted.
fn ranked_percent(costs: &LedgerCosts) -> String {
    match costs.estimated_percent() {
        Some([low, high]) => interval_text([low, high], costs.open_end()),
        None => number::percent(costs.all.percent),
    }
}

/// Formats an interval, or the only end that is known.
fn interval_text([low, high]: LowHigh, open: OpenEnd) -> String {
    let between = |low, high| number::percent_range(Some(low), Some(high));
    match open {
        OpenEnd::Neither => between(low, high),
        OpenEnd::Upper => format!("{AT_LEAST}{}", between(low, low)),
        OpenEnd::Lower => format!("{AT_MOST}{}", between(high, high)),
        OpenEnd::Both => format!("{}{LEFT_OUT}", between(low, high)),
    }
}

/// Shade of a cell: a step for each of 0.1, 1, 5 and 20 %.
fn shade_step(percent: f64) -> i8 {
    let steps = [0.1, 1.0, 5.0, 20.0].iter().filter(|limit| percent.abs() >= **limit).count() as i8;
    let steps = steps.max(1);
    if percent < 0.0 { -steps } else { steps }
}

const COUNTS_COLUMNS: [(&str, Kind); 7] = [
    ("added", Kind::Words),
    ("cycles %", Kind::Number),
    ("delta insn", Kind::Number),
    ("delta %", Kind::Number),
    ("MDE %", Kind::Number),
    ("REP", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// Table of one Workload: the additions, the most expensive first, then all together.
pub fn counts_section(row: &LedgerRow) -> Section {
    let entries = || row.entries.iter().chain(&row.together);
    let table = Table::new(COUNTS_COLUMNS).with(entries().map(counts_line));
    let has_rep = entries().any(|entry| rep_cost(entry).is_some_and(|rep| rep.delta != 0.0));
    let has_cycles = entries()
        .any(|entry| entry.costs.as_ref().is_some_and(|costs| costs.estimated_percent().is_some()));
    let table = match (has_cycles, has_rep) {
        (true, true) => Table { gives_way: vec![vec![3], vec![4]], ..table },
        (true, false) => Table { gives_way: vec![vec![3], vec![4]], ..table.without(&[5]) },
        (false, true) => Table { gives_way: vec![vec![2], vec![3]], ..table.without(&[1]) },
        (false, false) => Table { gives_way: vec![vec![3]], ..table.without(&[1, 5]) },
    };
    let costly = entries().filter_map(costly_note).collect::<Vec<_>>();
    let costly = (!costly.is_empty())
        .then(|| format!("Costly instructions per operation: {}.", costly.join("; ")));
    Section::Table {
        title: format!("{}, {} instructions", row.row, number::count(row.base)),
        table,
        notes: costly
            .into_iter()
            .chain(row.interactions.iter().filter_map(counts_interaction))
            .collect(),
    }
}

/// Costly instructions of an addition: `pti cr3-write +2.00`; `None` if it changes none.
fn costly_note(entry: &LedgerEntry) -> Option<String> {
    let costs = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed)?;
    let deltas = costs.costly.iter().map(|(kind, delta)| (kind.name().to_owned(), *delta));
    let deltas = words::deltas(&deltas.collect());
    let left_out: Vec<&str> = costs.left_out().collect();
    let left_out = match left_out.is_empty() {
        true => String::new(),
        false => format!(" ({} not in the estimate)", left_out.join(", ")),
    };
    (!costs.costly.is_empty()).then(|| format!("{} {deltas}{left_out}", entry.name))
}

/// Line of one addition; only the verdict where it was not measured.
fn counts_line(entry: &LedgerEntry) -> Line {
    let measured = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed);
    let both = measured.and_then(|costs| Some((costs, costs.metric(METRICS[0].name)?)));
    let cells = both.map_or_else(Default::default, |(costs, instructions)| {
        let LedgerCost { base, delta, percent, detectable, verdict } = instructions;
        [
            ranked_percent(costs),
            number::delta(*delta),
            number::percent(*percent),
            effect::detectable_text(*base, *detectable, *verdict),
            rep_cost(entry).map(|rep| number::delta(rep.delta)).unwrap_or_default(),
        ]
    });
    let rep = rep_cost(entry).map(|rep| rep.verdict);
    let verdict: Cell = verdict::decided_cell(entry.verdict, &entry.decided_by, rep);
    Line::new([entry.name.clone()].into_iter().chain(cells)).and(verdict)
}

fn rep_cost(entry: &LedgerEntry) -> Option<&LedgerCost> {
    entry.costs.as_ref()?.metric(verdict::REP)
}

fn counts_interaction(one: &LedgerInteraction) -> Option<String> {
    let what = if one.metric == verdict::REP { "REP iterations" } else { "instructions" };
    let (by, percent) =
        (number::count(one.beyond.delta.abs()), number::percent(one.beyond.percent));
    let than = if one.beyond.delta < 0.0 { "fewer" } else { "more" };
    one.beyond.verdict.is_change().then(|| {
        format!(
            "Together they cost {by} {what} {than} than the sum of their costs ({percent} %): they \
             are not independent."
        )
    })
}

const GUESTS_COLUMNS: [(&str, Kind); 5] = [
    ("added", Kind::Words),
    ("delta %", Kind::Number),
    ("MDE %", Kind::Number),
    ("verdict", Kind::Verdict),
    ("exits", Kind::Number),
];

/// Columns of [`guests_record`], and two that only some lines have.
pub const GUESTS_FIELDS: [&str; 12] = [
    "workload",
    "added",
    "base_ns",
    "delta_ns",
    "percent",
    "detectable_ns",
    "verdict",
    "exits_base",
    "exits_change",
    "exits_by_reason",
    "interaction_ns",
    "why",
];

/// Table of one row: what each addition does to the time, and how many exits of each reason it
/// adds.
pub fn guests_section(row: &LedgerRow) -> Section {
    let reasons = moved_reasons(row);
    let columns =
        GUESTS_COLUMNS.into_iter().chain(reasons.iter().map(|name| (*name, Kind::Number)));
    let lines = row.entries.iter().chain(&row.together).map(|entry| guests_line(entry, &reasons));
    Section::Table {
        title: format!("{}, {} µs", row.row, number::measured(row.base / number::US)),
        table: Table { splits: true, ..Table::new(columns).with(lines) },
        notes: row.interactions.iter().filter_map(guests_interaction).collect(),
    }
}

/// Returns the reasons of which any addition changes the count, the one that changes most first.
fn moved_reasons(row: &LedgerRow) -> Vec<&str> {
    let entries = row.entries.iter().chain(&row.together);
    let all = entries.filter_map(|entry| entry.costs.as_ref()).flat_map(|costs| &costs.exits);
    let mut most: Vec<(&str, u64)> = Vec::new();
    for exits in all {
        let moved = exits.base.abs_diff(exits.change);
        match most.iter_mut().find(|(reason, _)| *reason == exits.reason) {
            Some((_, known)) => *known = moved.max(*known),
            None => most.push((&exits.reason, moved)),
        }
    }
    most.retain(|(_, moved)| *moved > 0);
    most.sort_by_key(|(_, moved)| std::cmp::Reverse(*moved));
    most.into_iter().map(|(reason, _)| reason).collect()
}

/// Line of one addition; only the verdict where it was not measured.
fn guests_line(entry: &LedgerEntry, reasons: &[&str]) -> Line {
    let Some(costs) = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed) else {
        let nothing = [entry.name.clone(), String::new(), String::new()].map(Cell::from);
        return Line::new(nothing).and(Cell::verdict(entry.verdict, ""));
    };
    let LedgerCost { base, percent, detectable, verdict, .. } = &costs.all;
    let detectable = effect::detectable_text(*base, *detectable, *verdict);
    let counts = reasons.iter().map(|reason| {
        let exits = costs.exits.iter().find(|exits| exits.reason == *reason);
        exits.map_or_else(|| signed_count(0), |exits| signed_count(exits_delta(exits)))
    });
    let all = signed_count(costs.exits.iter().map(exits_delta).sum());
    let before = [entry.name.clone(), number::percent(*percent), detectable].map(Cell::from);
    let verdict = Cell::verdict(entry.verdict, "");
    Line::new(before.into_iter().chain([verdict, all.into()]).chain(counts.map(Cell::from)))
}

fn exits_delta(exits: &LedgerExits) -> i64 {
    let by = i64::try_from(exits.change.abs_diff(exits.base)).unwrap_or(i64::MAX);
    if exits.change < exits.base { -by } else { by }
}

/// Formats a difference of counts: `+1 204`, `-3`, `0`.
fn signed_count(count: i64) -> String {
    let sign = match count {
        0 => "",
        1.. => "+",
        ..0 => "-",
    };
    format!("{sign}{}", number::whole(count.unsigned_abs() as f64))
}

fn guests_interaction(one: &LedgerInteraction) -> Option<String> {
    let (by, percent) = (
        number::measured(one.beyond.delta.abs() / number::US),
        number::percent(one.beyond.percent),
    );
    let than = if one.beyond.delta < 0.0 { "less" } else { "more" };
    one.beyond.verdict.is_change().then(|| {
        format!(
            "Together they take {by} µs {than} than the sum of what each takes ({percent} %): they \
             are not independent."
        )
    })
}

/// Returns the values of one addition to one row.
pub fn guests_record(row: &LedgerRow, entry: &LedgerEntry) -> Vec<Value> {
    let costs = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed);
    let time = costs.and_then(|costs| costs.metric(TIME));
    let sum = |count: fn(&LedgerExits) -> u64| {
        Value::from(costs.map(|costs| costs.exits.iter().map(count).sum::<u64>()))
    };
    let by_reason = costs.map(|costs| {
        let one = |exits: &LedgerExits| format!("{}:{:+}", exits.reason, exits_delta(exits));
        costs.exits.iter().map(one).collect::<Vec<_>>().join(" ")
    });
    vec![
        (&row.row).into(),
        (&entry.name).into(),
        time.map(|time| time.base).into(),
        time.map(|time| time.delta).into(),
        time.and_then(|time| time.percent).into(),
        time.and_then(|time| time.detectable).into(),
        entry.verdict.text().into(),
        sum(|exits| exits.base),
        sum(|exits| exits.change),
        by_reason.as_deref().into(),
    ]
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
            assert_eq!(interval_text([2.43, 2.57], open), text);
        }
        assert_eq!(interval_text([59.6, 75.3], OpenEnd::Upper), "≥+59.6");
    }
}
