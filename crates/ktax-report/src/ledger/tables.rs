//! Tables of a ledger: a matrix of additions and Workloads, and one table for each Workload.

use crate::ledger::RecordLine;
use crate::view::{Cell, Columns, Fields, Records, Section, Table, Value};
use crate::{effect, number, words};
use ktax_model::{
    Estimate, LedgerCost, LedgerCosts, LedgerEntry, LedgerExits, LedgerInteraction, LedgerMethod,
    LedgerRow, LedgerTable, LowHigh, METRICS, OpenEnd, TIME, Verdict,
};

/// Title of a matrix of estimated cycles.
pub const CYCLES_TITLE: &str = "estimated cycles %";

/// Mark before an estimate that leaves out instructions of which the addition executes more,
/// because the machine's file has no cost for them.
pub const AT_LEAST: &str = "≥";

/// Mark before an estimate that leaves out instructions of which the addition executes fewer.
pub const AT_MOST: &str = "≤";

/// Mark after an estimate that leaves out instructions of both kinds.
pub const LEFT_OUT: &str = " *";

/// Title of a matrix of counts without estimates.
pub const INSTRUCTIONS_TITLE: &str = "instructions %";

/// Title of a matrix of guests.
pub const TIME_TITLE: &str = "time %";

/// Returns the title of the matrix: the unit in which the additions are ranked.
fn matrix_title(ledger: &LedgerTable) -> &'static str {
    match &ledger.method {
        LedgerMethod::Guests(_) => TIME_TITLE,
        LedgerMethod::Counts { .. } if estimated_machine(ledger).is_some() => CYCLES_TITLE,
        LedgerMethod::Counts { .. } => INSTRUCTIONS_TITLE,
    }
}

/// Returns an estimate that names the machine; `None` if no estimate has percentages.
pub fn estimated_machine(ledger: &LedgerTable) -> Option<&Estimate> {
    let entries = ledger.rows.iter().flat_map(|row| row.entries.iter().chain(&row.combination));
    let costs = entries.filter_map(|entry| entry.costs.as_ref());
    costs.filter_map(|costs| costs.estimate.as_ref()).find(|estimate| estimate.percent.is_some())
}

/// Tells whether an addition changes the row, by a verdict or by costly instructions.
pub fn is_change(costs: &LedgerCosts) -> bool {
    costs.has_verdict(Verdict::is_change) || !costs.costly.is_empty()
}

/// Text of a cell without a change.
const NO_CHANGE: &str = "-";

/// Returns the names of the additions, sorted by their largest cost in any row, the largest first.
pub fn additions(ledger: &LedgerTable) -> Vec<&str> {
    let Some(first) = ledger.rows.first() else { return Vec::new() };
    let mut names: Vec<&str> = first.entries.iter().map(|entry| &*entry.name).collect();
    names.sort_by(|one, other| {
        largest_percent(ledger, other).total_cmp(&largest_percent(ledger, one))
    });
    names
}

/// Returns the largest cost of an addition over the Workloads, in percent.
fn largest_percent(ledger: &LedgerTable, name: &str) -> f64 {
    let entry_rank = |entry: &LedgerEntry| entry.costs.as_ref()?.rank();
    let entries = ledger.rows.iter().flat_map(|row| &row.entries);
    let named = entries.filter(|entry| entry.name == name);
    named.filter_map(entry_rank).fold(f64::NEG_INFINITY, f64::max)
}

/// Matrix of the cost of each addition in each Workload; empty for one Workload, because its own
/// table has the costs.
pub fn matrix(ledger: &LedgerTable) -> Section {
    const TOGETHER: &str = "together";
    let has_together = ledger.rows.iter().any(|row| row.combination.is_some());
    let names = additions(ledger).into_iter().map(|name| (name, false));
    let names = names.chain(has_together.then_some((TOGETHER, true)));
    let names: Vec<(&str, bool)> = names.filter(|_| ledger.rows.len() > 1).collect();
    let mut columns = Columns::new(&names);
    columns.name("added", |(name, _)| name);
    for row in &ledger.rows {
        columns.number(&row.row.replacen(':', ":\n", 1), |(name, is_together)| {
            let mut entries = row.entries.iter();
            let entry = entries.find(|entry| !is_together && entry.name == name);
            entry.or(row.combination.as_ref().filter(|_| is_together)).map(matrix_cell)
        });
    }
    Table { can_split: true, ..columns.table() }.with_title(matrix_title(ledger))
}

/// Returns the costs of an addition; `None` if it was not measured.
pub fn measured_costs(entry: &LedgerEntry) -> Option<&LedgerCosts> {
    entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed)
}

/// Returns a cell of the matrix: a percentage, or a word if there is none.
fn matrix_cell(entry: &LedgerEntry) -> Cell {
    let has_changed = entry.costs.as_ref().is_some_and(is_change);
    let text = match (&entry.costs, entry.verdict) {
        (_, Verdict::DifferentWork) => "different".to_owned(),
        (None, _) | (_, Verdict::Failed) => "failed".to_owned(),
        (Some(costs), Verdict::TooFewBoots) => ranked_percent(costs),
        (Some(costs), _) if has_changed => ranked_percent(costs),
        (Some(_), _) => NO_CHANGE.to_owned(),
    };
    let percent = entry.costs.as_ref().filter(|_| has_changed).and_then(LedgerCosts::rank);
    Cell { shade: percent.map_or(0, shade_step), ..Cell::from(text) }
}

/// Formats the cost by which an addition is ranked: an interval of cycles, or one counted number.
fn ranked_percent(costs: &LedgerCosts) -> String {
    match costs.estimated_percent() {
        Some([low, high]) => interval_text([low, high], costs.open_end()),
        None => number::percent(costs.first_metric.percent),
    }
}

/// Formats an interval. If one end is not known, formats the other end.
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

/// Section of one Workload. An addition that was not measured only has a verdict.
pub fn counts_section(row: &LedgerRow) -> Section {
    let entries: Vec<&LedgerEntry> = row.entries.iter().chain(&row.combination).collect();
    let has_rep = entries.iter().any(|entry| rep_cost(entry).is_some_and(|rep| rep.delta != 0.0));
    let estimated = |entry: &LedgerEntry| entry.costs.as_ref()?.estimated_percent();
    let has_cycles = entries.iter().any(|entry| estimated(entry).is_some());
    let insn = |entry: &'_ LedgerEntry| measured_costs(entry)?.metric(METRICS[0].name).cloned();
    let mut columns = Columns::new(&entries);
    columns.words("added", |entry| &entry.name);
    let cycles = |entry| insn(entry).and(measured_costs(entry)).map(ranked_percent);
    columns.number("cycles %", cycles).keep_if(has_cycles);
    columns.number("delta insn", |entry| insn(entry).map(|cost| number::delta(cost.delta)));
    let delta =
        columns.number("delta %", |entry| insn(entry).map(|cost| number::percent(cost.percent)));
    if has_cycles || has_rep {
        delta.drop_order(0);
    }
    let mde = columns.number("MDE %", |entry| {
        insn(entry).map(|cost| effect::detectable_text(cost.base, cost.detectable, cost.verdict))
    });
    mde.drop_order(1);
    let rep = |entry| insn(entry).and(rep_cost(entry)).map(|rep| number::delta(rep.delta));
    columns.number("REP", rep).keep_if(has_rep);
    columns.verdict(|entry| {
        let rep = rep_cost(entry).map(|rep| rep.verdict);
        words::decided_cell(entry.verdict, &entry.decided_by, rep)
    });
    let costly = entries.iter().filter_map(|entry| costly_note(entry)).collect::<Vec<_>>();
    let costly = (!costly.is_empty())
        .then(|| format!("Costly instructions per operation: {}.", costly.join("; ")));
    let interactions = row.interactions.iter().filter_map(interaction_note);
    Section::Table {
        title: format!("{}, {} instructions", row.row, number::count(row.base)),
        table: columns.table(),
        notes: costly.into_iter().chain(interactions).collect(),
    }
}

/// Lists the costly instructions of an addition: `pti cr3-write +2.00`; `None` if there are none.
fn costly_note(entry: &LedgerEntry) -> Option<String> {
    let costs = measured_costs(entry)?;
    let deltas = costs.costly.iter().map(|(kind, delta)| (kind.name().to_owned(), *delta));
    let deltas = words::deltas(&deltas.collect());
    let left_out: Vec<&str> = costs.uncosted_metrics().collect();
    let left_out = match left_out.is_empty() {
        true => String::new(),
        false => format!(" ({} not in the estimate)", left_out.join(", ")),
    };
    (!costs.costly.is_empty()).then(|| format!("{} {deltas}{left_out}", entry.name))
}

fn rep_cost(entry: &LedgerEntry) -> Option<&LedgerCost> {
    entry.costs.as_ref()?.metric(words::REP)
}

/// Sentence about costs that do not add up; `None` if no interaction was detected.
fn interaction_note(interaction: &LedgerInteraction) -> Option<String> {
    let difference = &interaction.excess;
    let (delta, percent) = (difference.delta.abs(), number::percent(difference.percent));
    let count = |unit: &str| ("cost", format!("{} {unit}", number::count(delta)), "fewer");
    let (verb, amount, fewer) = match interaction.metric.as_str() {
        TIME => ("take", format!("{} µs", number::measured(delta / number::US)), "less"),
        words::REP => count("REP iterations"),
        _ => count("instructions"),
    };
    let terms = if interaction.metric == TIME { "their times" } else { "their costs" };
    let more_or_fewer = if difference.delta < 0.0 { fewer } else { "more" };
    difference.verdict.is_change().then(|| {
        format!(
            "Together they {verb} {amount} {more_or_fewer} than the sum of {terms} ({percent} %): \
             they are not independent."
        )
    })
}

/// Section of one row of guests. An addition that was not measured only has a verdict.
pub fn guests_section(row: &LedgerRow) -> Section {
    let entries: Vec<&LedgerEntry> = row.entries.iter().chain(&row.combination).collect();
    let exits = |entry, is_wanted: &dyn Fn(&str) -> bool| {
        let exits = measured_costs(entry)?.exits.iter();
        let wanted = exits.filter(|exits| is_wanted(&exits.reason));
        Some(signed_count(wanted.map(exits_delta).sum()))
    };
    let mut columns = Columns::new(&entries);
    columns.words("added", |entry| &entry.name);
    let percent = |entry| Some(number::percent(measured_costs(entry)?.first_metric.percent));
    columns.number("delta %", percent);
    columns.number("MDE %", |entry| {
        let LedgerCost { base, detectable, verdict, .. } = &measured_costs(entry)?.first_metric;
        Some(effect::detectable_text(*base, *detectable, *verdict))
    });
    columns.verdict(|entry| entry.verdict);
    columns.number("exits", |entry| exits(entry, &|_| true));
    for wanted in changed_reasons(row) {
        columns.number(wanted, |entry| exits(entry, &|reason| reason == wanted));
    }
    let mut table = Table { can_split: true, ..columns.table() };
    let lines = table.lines.iter_mut().zip(&entries);
    let failed = lines.filter(|(_, entry)| measured_costs(entry).is_none());
    failed.for_each(|(line, _)| line.cells.truncate(4));
    Section::Table {
        title: format!("{}, {} µs", row.row, number::measured(row.base / number::US)),
        table,
        notes: row.interactions.iter().filter_map(interaction_note).collect(),
    }
}

/// Returns the exit reasons whose counts change with any addition, the largest change first.
fn changed_reasons(row: &LedgerRow) -> Vec<&str> {
    let entries = row.entries.iter().chain(&row.combination);
    let all = entries.filter_map(|entry| entry.costs.as_ref()).flat_map(|costs| &costs.exits);
    let mut largest: Vec<(&str, u64)> = Vec::new();
    for exits in all {
        let size = exits.base.abs_diff(exits.change);
        match largest.iter_mut().find(|(reason, _)| *reason == exits.reason) {
            Some((_, known_size)) => *known_size = size.max(*known_size),
            None => largest.push((&exits.reason, size)),
        }
    }
    largest.retain(|(_, size)| *size > 0);
    largest.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    largest.into_iter().map(|(reason, _)| reason).collect()
}

fn exits_delta(exits: &LedgerExits) -> i64 {
    let size = i64::try_from(exits.change.abs_diff(exits.base)).unwrap_or(i64::MAX);
    if exits.change < exits.base { -size } else { size }
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

pub fn guests_records(lines: &[RecordLine<'_>]) -> Records {
    let time = |line: RecordLine<'_>| line.cost(TIME).cloned();
    let exits = |count: fn(&LedgerExits) -> u64| {
        move |line: RecordLine<'_>| Some(line.costs?.exits.iter().map(count).sum::<u64>())
    };
    let mut fields = Fields::new(lines);
    fields.add("workload", |line| &line.row.row);
    fields.add("added", |line| &line.entry.name);
    fields.add("base_ns", |line| time(line).map(|time| time.base));
    fields.add("delta_ns", |line| time(line).map(|time| time.delta));
    fields.add("percent", |line| time(line).and_then(|time| time.percent));
    fields.add("detectable_ns", |line| time(line).and_then(|time| time.detectable));
    fields.add("verdict", |line| line.entry.verdict.text());
    fields.add("exits_base", exits(|exits| exits.base));
    fields.add("exits_change", exits(|exits| exits.change));
    fields.add("exits_by_reason", |line| {
        let delta = |exits: &LedgerExits| format!("{}:{:+}", exits.reason, exits_delta(exits));
        Some(line.costs?.exits.iter().map(delta).collect::<Vec<_>>().join(" "))
    });
    fields.add("interaction_ns", |line| line.interaction(TIME));
    fields.add("why", |_| Value::Empty);
    fields.records()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_without_some_instructions_have_one_end() {
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
