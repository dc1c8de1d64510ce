//! Comparisons of several additions with one base become a table that ranks them.

use std::collections::BTreeMap;

use super::effect::verdict;
use ktax_model::{
    AlreadyOn, Comparison, ComparisonMethod, Costly, Effect, Evidence, ExitTable, GuestsEvidence,
    GuestsPlan, LedgerCost, LedgerCosts, LedgerEntry, LedgerExits, LedgerInteraction, LedgerMethod,
    LedgerMetric, LedgerRow, LedgerTable, METRICS, Row, Side, Sides, TIME, Verdict, Warning,
};
use ktax_stats::exact::judge;
use ktax_stats::tables::change_percent;

/// Ranks the additions for each Workload. `together` is the Comparison of all at once, `not_built`
/// has those that have none, with the reason, `already_on` what the base's kernel has by itself.
/// Nothing if no addition could be built.
pub fn ledger(
    title: &str,
    each: &[(String, Comparison)],
    together: Option<&Comparison>,
    not_built: Vec<(String, String)>,
    already_on: Vec<AlreadyOn>,
) -> Option<LedgerTable> {
    let (_, first) = each.first()?;
    let (method, layouts) = method(first)?;
    let warnings = each.iter().flat_map(|(name, comparison)| {
        // The base was measured without it, so it is known and was not on.
        let is_off_in_base =
            already_on.iter().any(|one| one.added == *name && one.is_off_in_base());
        let without_change = if is_off_in_base { None } else { without_change(&comparison.rows) };
        let all = comparison.warnings.iter().cloned().chain(without_change);
        all.map(|warning| (name.clone(), warning))
    });
    let rows = (0..first.rows.len()).map(|at| ranked(at, each, together));
    let warnings = warnings.collect();
    Some(LedgerTable {
        title: title.to_owned(),
        method,
        layouts,
        threshold_percent: Some(first.threshold_percent),
        again: Vec::new(),
        rows: rows.collect(),
        already_on,
        not_built,
        warnings,
    })
}

/// What changes no count of any row is perhaps no change.
fn without_change(rows: &[Row]) -> Option<Warning> {
    let is_counted = rows.iter().all(|row| row.counts().is_some());
    let is_judged = |row: &Row| row.verdict == Verdict::NoDetectedChange;
    let effects = || rows.iter().flat_map(Row::effects);
    let is_same = !rows.is_empty() && rows.iter().all(is_judged) && is_counted;
    (is_same && !effects().any(|effect| effect.verdict.is_change())).then(|| Warning {
        fact: "no row changed: no row executes it, or it is already on, or this kernel does not \
               know it"
            .to_owned(),
        next_step: "look for it in the kernel's configuration, and in its \
                    Documentation/admin-guide/kernel-parameters.txt"
            .to_owned(),
    })
}

/// What is said of the base, and how many Layouts there are; nothing of times.
fn method(comparison: &Comparison) -> Option<(LedgerMethod, usize)> {
    match &comparison.method {
        ComparisonMethod::Counts(counts) => {
            let base = counts.subjects.get(Side::Base);
            let base = (base.kernel.name().to_owned(), base.subject.beside_kernel());
            Some((LedgerMethod::Counts { key: counts.key.clone(), base }, counts.layouts))
        }
        ComparisonMethod::Guests(guests) => {
            let plan = GuestsPlan { change: None, ..guests.plan.clone() };
            let layouts = plan.layouts.len();
            Some((LedgerMethod::Guests(plan), layouts))
        }
        ComparisonMethod::Times(_) => None,
    }
}

fn ranked(at: usize, each: &[(String, Comparison)], together: Option<&Comparison>) -> LedgerRow {
    let threshold = each.first().map_or(0.0, |(_, comparison)| comparison.threshold_percent);
    let parts: Vec<(&String, &Row)> =
        each.iter().filter_map(|(name, it)| Some((name, it.rows.get(at)?))).collect();
    let mut entries: Vec<LedgerEntry> = parts.iter().map(|(name, row)| entry(name, row)).collect();
    entries.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    let rows: Vec<&Row> = parts.iter().map(|(_, row)| *row).collect();
    let together = together.and_then(|comparison| comparison.rows.get(at));
    // Of an addition with which nothing runs there is no number, of the base neither.
    let base = rows.iter().find_map(|row| row.effects().first()).map_or(0.0, |effect| effect.base);
    LedgerRow {
        row: rows.first().map_or(String::new(), |row| row.row.clone()),
        base,
        entries,
        together: together.map(|row| entry("together", row)),
        interactions: together
            .and_then(|together| interactions(&rows, together, threshold))
            .unwrap_or_default(),
    }
}

/// What was not measured comes last.
fn rank(entry: &LedgerEntry) -> f64 {
    let rank = entry.costs.as_ref().and_then(LedgerCosts::rank);
    rank.unwrap_or(f64::NEG_INFINITY)
}

fn entry(name: &str, row: &Row) -> LedgerEntry {
    LedgerEntry {
        name: name.to_owned(),
        verdict: row.verdict,
        decided_by: row.counts().map(|it| it.decided_by.clone()).unwrap_or_default(),
        costs: costs(row),
    }
}

fn costs(row: &Row) -> Option<LedgerCosts> {
    let effects = deciding(row)?;
    let all = of_effect(effects.first()?);
    let verdict = if row.verdict == Verdict::DifferentWork { row.verdict } else { all.verdict };
    let metric =
        |effect: &&Effect| LedgerMetric { metric: effect.metric.clone(), cost: of_effect(effect) };
    Some(LedgerCosts {
        all: LedgerCost { verdict, ..all },
        estimate: row.counts().and_then(|counts| counts.estimate.clone()),
        costly: costly(row),
        metrics: effects.iter().map(metric).collect(),
        exits: row.guests().and_then(exits).unwrap_or_default(),
    })
}

/// Those that changed.
fn costly(row: &Row) -> BTreeMap<Costly, f64> {
    let changed = |kind: Costly| {
        let effect = row.effect(kind.name())?;
        (effect.verdict.is_change() && effect.delta != 0.0).then_some((kind, effect.delta))
    };
    Costly::ALL.into_iter().filter_map(changed).collect()
}

/// What decides: instructions and REP iterations in process context; of guests the time.
fn deciding(row: &Row) -> Option<Vec<&Effect>> {
    let names: &[&str] = match row.evidence {
        Evidence::Counts(_) => &[METRICS[0].name, METRICS[1].name],
        Evidence::Guests(_) => &[TIME],
        Evidence::Times(_) => return None,
    };
    let find = |name: &&str| row.effect(name);
    names.iter().map(find).collect()
}

/// A guest's Metrics are of all that it did.
fn ops(row: &Row) -> u64 {
    if row.guests().is_some() { 1 } else { row.ops }
}

/// Each reason that is in one of the tables.
fn exits(guests: &GuestsEvidence) -> Option<Vec<LedgerExits>> {
    let [base, change] =
        [&guests.runs.base, &guests.runs.change].map(|run| run.as_ref().map(|run| &run.table));
    let (base, change): (&ExitTable, &ExitTable) = (base?, change?);
    let mut found: Vec<LedgerExits> = Vec::new();
    for row in base.rows.iter().chain(&change.rows).filter(|row| !row.is_guest) {
        let count = |table: &ExitTable| table.row(&row.reason).map_or(0, |row| row.count);
        if found.iter().all(|known| known.reason != row.reason) {
            let reason = row.reason.clone();
            found.push(LedgerExits { reason, base: count(base), change: count(change) });
        }
    }
    Some(found)
}

fn of_effect(effect: &Effect) -> LedgerCost {
    LedgerCost {
        base: effect.base,
        delta: effect.delta,
        percent: effect.percent,
        detectable: effect.detectable,
        verdict: effect.verdict,
    }
}

/// Costs that are independent add up: under each Layout, all at once should cost the base plus
/// every addition's delta under that Layout. The rule of any two Sides says whether they do. What
/// the Layouts move in each addition is in the sum, so a noisy addition hides an interaction and
/// does not make one.
fn interactions(
    parts: &[&Row],
    together: &Row,
    threshold_percent: f64,
) -> Option<Vec<LedgerInteraction>> {
    let is_measured = |row: &Row| !matches!(row.verdict, Verdict::Failed | Verdict::DifferentWork);
    if !parts.iter().copied().chain([together]).all(is_measured) {
        return None;
    }
    let of = deciding(together)?;
    let parts: Vec<Vec<&Effect>> = parts.iter().map(|row| deciding(row)).collect::<Option<_>>()?;
    let mut wholes = vec![0.0; of.first()?.samples.base.len()];
    let mut found = Vec::new();
    for (at, all) in of.into_iter().enumerate() {
        let base = raw(all, Side::Base);
        let expected = parts.iter().fold(base.clone(), |sum, part| {
            let delta: Vec<f64> = raw(part[at], Side::Change)
                .iter()
                .zip(raw(part[at], Side::Base))
                .map(|(change, base)| change - base)
                .collect();
            added(sum, &delta)
        });
        // As in a row: of REP iterations, a share of all work.
        wholes = added(base, &wholes);
        let sides = Sides { base: expected, change: raw(all, Side::Change) };
        let beyond = cost(sides, &wholes, ops(together), threshold_percent)?;
        found.push(LedgerInteraction { metric: all.metric.clone(), beyond });
    }
    Some(found)
}

/// Judges raw values by Layout; `wholes` is what the threshold is a share of.
fn cost(
    values: Sides<Vec<f64>>,
    wholes: &[f64],
    ops: u64,
    threshold_percent: f64,
) -> Option<LedgerCost> {
    let Sides { base, change } = values;
    let found = judge(&base, &change, |at| threshold_percent / 100.0 * wholes[at])?;
    let per_op = |value: f64| value / ops as f64;
    let (base, change) = (base[found.median], change[found.median]);
    Some(LedgerCost {
        base: per_op(base),
        delta: per_op(change - base),
        percent: change_percent(base, change),
        detectable: found.detectable().map(per_op),
        verdict: verdict(found.decision),
    })
}

fn raw(effect: &Effect, side: Side) -> Vec<f64> {
    effect.samples.get(side).iter().map(|count| *count as f64).collect()
}

fn added(one: Vec<f64>, other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| one + other).collect()
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
