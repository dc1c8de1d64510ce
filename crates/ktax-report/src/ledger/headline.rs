use std::collections::BTreeSet;

use crate::ledger::tables;
use crate::ledger::tables::is_change;
use crate::number;
use ktax_host::text::counted;
use ktax_model::{
    LedgerCosts, LedgerEntry, LedgerMethod, LedgerRow, LedgerTable, LowHigh, OpenEnd, Verdict,
};
use ktax_stats::exact::MIN_LAYOUTS;

/// Sentences before any table: who costs most and where, who costs nothing, what all cost together,
/// and whether that is the sum.
pub fn headline(ledger: &LedgerTable) -> Vec<String> {
    let names = tables::additions(ledger);
    let any = |name: &str, is_wanted: fn(&LedgerCosts) -> bool| {
        entries(ledger, name).any(|(_, entry)| entry.costs.as_ref().is_some_and(is_wanted))
    };
    let slower: Vec<&str> = names.iter().copied().filter(|name| any(name, is_slower)).collect();
    let mut found = who_is_slower(ledger, slower.len(), names.len());
    // Without verdicts the figures still have an order.
    let dearest_of = match ledger.layouts < MIN_LAYOUTS {
        true => names.first(),
        false => slower.first(),
    };
    let unit = RankUnit::new(ledger);
    if let Some((name, (row, costs))) =
        dearest_of.and_then(|name| Some((name, largest_cost(entries(ledger, name))?)))
    {
        if costs.rank() > Some(0.0) {
            found += &format!(" {name} costs most: {}.", unit.cost(costs, row, true));
        }
    }
    found.extend(saves_most(ledger, &names, &unit));
    found.extend(left_out(ledger, &names));
    let is_free = |name: &&str| {
        !any(name, is_change) && entries(ledger, name).all(|(_, entry)| is_judged(entry))
    };
    let free: Vec<&str> = names.iter().copied().filter(is_free).collect();
    if !free.is_empty() {
        found += &format!(" No change was detected with {}.", free.join(", "));
    }
    let is_lost = |name: &&str| {
        let lost =
            |entry: &LedgerEntry| matches!(entry.verdict, Verdict::Failed | Verdict::DifferentWork);
        entries(ledger, name).any(|(_, entry)| lost(entry))
    };
    let lost: Vec<&str> = names.iter().copied().filter(is_lost).collect();
    if !lost.is_empty() {
        found += &format!(" Not measured in every row: {}.", lost.join(", "));
    }
    [found].into_iter().chain(together(ledger)).collect()
}

/// Names the addition that makes a row faster than any other does.
fn saves_most(ledger: &LedgerTable, names: &[&str], unit: &RankUnit) -> Option<String> {
    let faster = |name: &&str| {
        let is_faster = |(_, entry): &(&str, &LedgerEntry)| {
            let is_faster = |costs: &LedgerCosts| costs.any(|verdict| verdict == Verdict::Faster);
            entry.costs.as_ref().is_some_and(|costs| is_faster(costs) && costs.rank() < Some(0.0))
        };
        let (row, costs) = smallest_cost(entries(ledger, name).filter(is_faster))?;
        Some((name.to_string(), row, costs))
    };
    let (name, row, costs) = names.iter().filter_map(faster).min_by(|a, b| by_rank(a.2, b.2))?;
    Some(format!(" {name} saves most: {}.", unit.saving(costs, row)))
}

/// Names the additions whose estimates lack something: they may belong above others, or below them.
fn left_out(ledger: &LedgerTable, names: &[&str]) -> Option<String> {
    let machine = tables::estimated_machine(ledger)?;
    let lacking = |is_lacking: fn(f64) -> bool, what: &str| {
        let lacks = |name: &&str| {
            let costs = entries(ledger, name).filter_map(|(_, entry)| entry.costs.as_ref());
            let deltas = costs.filter_map(|costs| costs.estimate.as_ref());
            let deltas = deltas.flat_map(|estimate| &estimate.left_out);
            let kinds: BTreeSet<&str> =
                deltas.filter(|(_, delta)| is_lacking(**delta)).map(|(kind, _)| &**kind).collect();
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
            (!kinds.is_empty()).then(|| format!("{name} ({kinds})"))
        };
        let all: Vec<String> = names.iter().filter_map(lacks).collect();
        let all = all.join(", ");
        let cpu = &machine.cpu;
        (!all.is_empty())
            .then(|| format!(" {all} may cost {what}: the instruction was not timed on {cpu}."))
    };
    let all = [lacking(|delta| delta > 0.0, "more"), lacking(|delta| delta < 0.0, "less")];
    let all: String = all.into_iter().flatten().collect();
    (!all.is_empty()).then_some(all)
}

/// Unit in which the additions are ranked.
enum RankUnit {
    /// Cycles of this CPU.
    Cycles(String),
    /// Counts or times.
    Measured(&'static str),
}

impl RankUnit {
    fn new(ledger: &LedgerTable) -> RankUnit {
        match (tables::estimated_machine(ledger), &ledger.method) {
            (Some(estimate), _) => RankUnit::Cycles(estimate.cpu.clone()),
            (None, LedgerMethod::Counts { .. }) => RankUnit::Measured("instructions"),
            (None, LedgerMethod::Guests(_)) => RankUnit::Measured("time"),
        }
    }

    /// Describes a cost: `an estimated 3.1 to 5.2 % of stat's cycles on AMD EPYC`.
    fn cost(&self, costs: &LedgerCosts, row: &str, names_machine: bool) -> String {
        match (self, costs.estimated_percent()) {
            (RankUnit::Cycles(cpu), Some(ends)) => {
                let cpu = if names_machine { format!(" on {cpu}") } else { String::new() };
                let (bound, ends) = bounded(ends, costs.open_end());
                format!("{bound}an estimated {} % of {row}'s cycles{cpu}", between(ends))
            }
            (RankUnit::Cycles(_), None) => {
                let percent = number::percent(costs.all.percent);
                format!("{percent} % of {row}'s instructions, of which no cycles are known")
            }
            (RankUnit::Measured(what), _) => {
                format!("{} % of {row}'s {what}", number::percent(costs.all.percent))
            }
        }
    }

    /// Describes a saving, which is a negative cost.
    fn saving(&self, costs: &LedgerCosts, row: &str) -> String {
        match costs.estimated_percent() {
            Some([low, high]) if high < 0.0 => {
                let open = match costs.open_end() {
                    OpenEnd::Upper => OpenEnd::Lower,
                    OpenEnd::Lower => OpenEnd::Upper,
                    other => other,
                };
                let (bound, ends) = bounded([-high, -low], open);
                format!("{bound}an estimated {} % of {row}'s cycles", between(ends))
            }
            _ => self.cost(costs, row, false),
        }
    }
}

/// Returns `at least ` or `at most ` with the only end that is known, where the other one is open.
fn bounded([low, high]: LowHigh, open: OpenEnd) -> (&'static str, LowHigh) {
    match open {
        OpenEnd::Upper => ("at least ", [low; 2]),
        OpenEnd::Lower => ("at most ", [high; 2]),
        OpenEnd::Neither | OpenEnd::Both => ("", [low, high]),
    }
}

/// Formats an interval: `3.1 to 5.2`; with signs where they differ.
fn between([low, high]: LowHigh) -> String {
    let digits = if low.abs().max(high.abs()) < 10.0 { 1 } else { 0 };
    if low < 0.0 {
        return format!("{low:+.digits$} to {high:+.digits$}");
    }
    let [low, high] = [low, high].map(|end| format!("{end:.digits$}"));
    if low == high { low } else { format!("{low} to {high}") }
}

fn by_rank(one: &LedgerCosts, other: &LedgerCosts) -> std::cmp::Ordering {
    let rank = |costs: &LedgerCosts| costs.rank().unwrap_or(f64::NEG_INFINITY);
    rank(one).total_cmp(&rank(other))
}

fn who_is_slower(ledger: &LedgerTable, slower: usize, all: usize) -> String {
    let layouts = ledger.layouts;
    match slower {
        _ if layouts < MIN_LAYOUTS => {
            format!("A verdict needs {MIN_LAYOUTS} layouts; this ledger has {layouts}.")
        }
        0 => "No addition is slower.".to_owned(),
        _ => {
            let are = if slower == 1 { "is" } else { "are" };
            let rows = if ledger.rows.len() == 1 { "the row" } else { "at least one row" };
            format!("{slower} of {} {are} slower in {rows}.", counted(all, "addition"))
        }
    }
}

/// Tells whether a verdict was possible, and there is one.
fn is_judged(entry: &LedgerEntry) -> bool {
    let has_limit = |costs: &LedgerCosts| costs.all.detectable.is_some();
    entry.verdict.is_answer() && entry.costs.as_ref().is_some_and(has_limit)
}

fn together(ledger: &LedgerTable) -> Option<String> {
    let rows = || ledger.rows.iter().filter_map(|row| Some((&*row.row, row.together.as_ref()?)));
    let changes = |(_, entry): &(&str, &LedgerEntry)| entry.costs.as_ref().is_some_and(is_change);
    let has_verdicts = ledger.layouts >= MIN_LAYOUTS;
    let changed: Vec<_> = rows().filter(|row| !has_verdicts || changes(row)).collect();
    rows().next()?;
    let unit = RankUnit::new(ledger);
    let sentence =
        match (largest_cost(changed.iter().copied()), smallest_cost(changed.iter().copied())) {
            (Some((row, most)), _) if most.rank() > Some(0.0) => {
                let most_of_all = if most.open_end() == OpenEnd::Neither { "at most " } else { "" };
                format!("All together cost {most_of_all}{}.", unit.cost(most, row, false))
            }
            (_, Some((row, least))) => {
                let most_of_all =
                    if least.open_end() == OpenEnd::Neither { "at most " } else { "" };
                format!("All together save {most_of_all}{}.", unit.saving(least, row))
            }
            _ if !rows().any(|(_, entry)| is_judged(entry)) => {
                "All together were not measured.".to_owned()
            }
            _ => "No change was detected with all together.".to_owned(),
        };
    let has_sum =
        |row: &&LedgerRow| row.interactions.iter().any(|one| one.beyond.detectable.is_some());
    let is_more =
        |row: &&LedgerRow| row.interactions.iter().any(|one| one.beyond.verdict.is_change());
    let judged = ledger.rows.iter().filter(has_sum).count();
    let adds_up = match (ledger.rows.iter().filter(is_more).count(), judged) {
        (_, 0) => String::new(),
        (0, _) => " No interaction was detected.".to_owned(),
        (count, judged) => {
            format!(" Their costs do not add up in {count} of {}.", counted(judged, "row"))
        }
    };
    Some(sentence + &adds_up)
}

fn is_slower(costs: &LedgerCosts) -> bool {
    costs.any(|verdict| verdict == Verdict::Slower)
}

fn entries<'a>(
    ledger: &'a LedgerTable,
    name: &str,
) -> impl Iterator<Item = (&'a str, &'a LedgerEntry)> {
    let named = name.to_owned();
    ledger.rows.iter().filter_map(move |row| {
        Some((&*row.row, row.entries.iter().find(|entry| entry.name == named)?))
    })
}

/// Returns the largest cost, and the row that has it.
fn largest_cost<'a>(
    entries: impl Iterator<Item = (&'a str, &'a LedgerEntry)>,
) -> Option<(&'a str, &'a LedgerCosts)> {
    entries.filter_map(ranked_costs).max_by(|a, b| by_rank(a.1, b.1))
}

/// Returns the smallest cost, and the row that has it.
fn smallest_cost<'a>(
    entries: impl Iterator<Item = (&'a str, &'a LedgerEntry)>,
) -> Option<(&'a str, &'a LedgerCosts)> {
    entries.filter_map(ranked_costs).min_by(|a, b| by_rank(a.1, b.1))
}

fn ranked_costs<'a>(
    (row, entry): (&'a str, &'a LedgerEntry),
) -> Option<(&'a str, &'a LedgerCosts)> {
    let costs = entry.costs.as_ref()?;
    costs.rank().map(|_| (row, costs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_as_many_digits_as_they_deserve() {
        for (ends, text) in [
            ([3.12, 5.21], "3.1 to 5.2"),
            ([3.12, 12.4], "3 to 12"),
            ([-1.0, 2.5], "-1.0 to +2.5"),
            ([0.0, 0.44], "0.0 to 0.4"),
            ([2.0, 2.01], "2.0"),
        ] {
            assert_eq!(between(ends), text);
        }
    }
}
