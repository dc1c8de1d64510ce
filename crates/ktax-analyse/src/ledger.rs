//! Ranks several additions by their cost, from the Comparisons of each addition with one base.

use std::collections::BTreeMap;

use crate::effect::verdict_of_decision;
use ktax_model::{
    AlreadyOn, Comparison, ComparisonMethod, Costly, Effect, Evidence, ExitTable, GuestsEvidence,
    LedgerCost, LedgerCosts, LedgerEntry, LedgerExits, LedgerInteraction, LedgerMethod,
    LedgerMetric, LedgerRow, LedgerTable, METRICS, Row, Side, Sides, TIME, Verdict, Warning,
};
use ktax_stats::exact::judge;
use ktax_stats::tables::checked_percent_change;

/// Ranks the additions for each Workload; `None` if no addition could be built. `additions` has the
/// name and the Comparison of each addition, `combined` the Comparison of all additions at once,
/// `not_built` the additions that could not be built, with the reason, and `already_on` the
/// additions that the base's kernel has by default.
pub fn ledger(
    title: &str,
    additions: &[(String, Comparison)],
    combined: Option<&Comparison>,
    not_built: Vec<(String, String)>,
    already_on: Vec<AlreadyOn>,
) -> Option<LedgerTable> {
    let (_, first) = additions.first()?;
    let (method, layouts) = method_and_layouts(first)?;
    let warnings = additions.iter().flat_map(|(name, comparison)| {
        // The addition was turned off in the base, so the kernel knows the addition.
        let is_off_in_base =
            already_on.iter().any(|part| part.addition == *name && part.is_off_in_base());
        let no_effect = if is_off_in_base { None } else { no_effect_warning(&comparison.rows) };
        let warnings = comparison.warnings.iter().cloned().chain(no_effect);
        warnings.map(|warning| (name.clone(), warning))
    });
    let rows = (0..first.rows.len()).map(|index| ledger_row(index, additions, combined));
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

/// Warns if an addition changes no count of any row: the addition may not be in effect.
fn no_effect_warning(rows: &[Row]) -> Option<Warning> {
    let is_unchanged =
        |row: &Row| row.counts().is_some() && row.verdict == Verdict::NoDetectedChange;
    let mut effects = rows.iter().flat_map(Row::effects);
    let has_same_rows = !rows.is_empty() && rows.iter().all(is_unchanged);
    (has_same_rows && !effects.any(|effect| effect.verdict.is_change())).then(|| Warning {
        fact: "no row changed: no row executes it, or it is already on, or this kernel does not \
               know it"
            .to_owned(),
        next_step: "look for it in the kernel's configuration, and in its \
                    Documentation/admin-guide/kernel-parameters.txt"
            .to_owned(),
    })
}

/// Method of the base's costs and the number of Layouts; `None` for times.
fn method_and_layouts(comparison: &Comparison) -> Option<(LedgerMethod, usize)> {
    match &comparison.method {
        ComparisonMethod::Counts(counts) => {
            let subject = &counts.asked.subjects.base;
            let base = (counts.kernels.base.name().to_owned(), subject.variant_text());
            Some((LedgerMethod::Counts { key: counts.key.clone(), base }, counts.layouts))
        }
        ComparisonMethod::Guests(guests) => {
            let mut plan = guests.plan.clone();
            plan.asked.change = None;
            let layouts = plan.layouts.len();
            Some((LedgerMethod::Guests(plan), layouts))
        }
        ComparisonMethod::Times(_) => None,
    }
}

/// Row of the table for the Workload of this index, with the largest cost first.
fn ledger_row(
    index: usize,
    additions: &[(String, Comparison)],
    combined: Option<&Comparison>,
) -> LedgerRow {
    let threshold = additions.first().map_or(0.0, |(_, comparison)| comparison.threshold_percent);
    let parts: Vec<(&String, &Row)> = additions
        .iter()
        .filter_map(|(name, comparison)| Some((name, comparison.rows.get(index)?)))
        .collect();
    let mut entries: Vec<LedgerEntry> = parts.iter().map(|(name, row)| entry(name, row)).collect();
    entries.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    let rows: Vec<&Row> = parts.iter().map(|(_, row)| *row).collect();
    let combined = combined.and_then(|comparison| comparison.rows.get(index));
    // An addition with which the Workload failed has no effect to read the base's cost from.
    let base = rows.iter().find_map(|row| row.effects().first()).map_or(0.0, |effect| effect.base);
    LedgerRow {
        row: rows.first().map_or(String::new(), |row| row.row.clone()),
        base,
        entries,
        combination: combined.map(|row| entry("together", row)),
        interactions: combined
            .and_then(|combined| interactions(&rows, combined, threshold))
            .unwrap_or_default(),
    }
}

/// Sort key of an entry: entries that were not measured come last.
fn rank(entry: &LedgerEntry) -> f64 {
    let rank = entry.costs.as_ref().and_then(LedgerCosts::rank);
    rank.unwrap_or(f64::NEG_INFINITY)
}

fn entry(name: &str, row: &Row) -> LedgerEntry {
    LedgerEntry {
        name: name.to_owned(),
        verdict: row.verdict,
        decided_by: row.counts().map(|counts| counts.decided_by.clone()).unwrap_or_default(),
        costs: costs(row),
    }
}

fn costs(row: &Row) -> Option<LedgerCosts> {
    let effects = deciding_effects(row)?;
    let cost = ledger_cost(effects.first()?);
    let verdict = if row.verdict == Verdict::DifferentWork { row.verdict } else { cost.verdict };
    let metric = |effect: &&Effect| LedgerMetric {
        metric: effect.metric.clone(),
        cost: ledger_cost(effect),
    };
    Some(LedgerCosts {
        first_metric: LedgerCost { verdict, ..cost },
        estimate: row.counts().and_then(|counts| counts.estimate.clone()),
        costly: costly_deltas(row),
        metrics: effects.iter().map(metric).collect(),
        exits: row.guests().and_then(exits).unwrap_or_default(),
    })
}

/// Deltas of the costly instructions whose counts changed.
fn costly_deltas(row: &Row) -> BTreeMap<Costly, f64> {
    let changed = |kind: Costly| {
        let effect = row.effect(kind.name())?;
        (effect.verdict.is_change() && effect.delta != 0.0).then_some((kind, effect.delta))
    };
    Costly::ALL.into_iter().filter_map(changed).collect()
}

/// Effects by which additions are ranked: instructions and REP iterations in process context; for
/// guests the time. `None` if the row lacks one.
fn deciding_effects(row: &Row) -> Option<Vec<&Effect>> {
    let names: &[&str] = match row.evidence {
        Evidence::Counts(_) => &[METRICS[0].name, METRICS[1].name],
        Evidence::Guests(_) => &[TIME],
        Evidence::Times(_) => return None,
    };
    let find = |name: &&str| row.effect(name);
    names.iter().map(find).collect()
}

/// Operations that a count is divided by; a guest's time is not divided.
fn ops(row: &Row) -> u64 {
    if row.guests().is_some() { 1 } else { row.ops }
}

/// Exits of both Sides for each reason.
fn exits(guests: &GuestsEvidence) -> Option<Vec<LedgerExits>> {
    let [base, change] = guests.runs.both().map(|run| run.as_ref().map(|run| &run.table));
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

fn ledger_cost(effect: &Effect) -> LedgerCost {
    LedgerCost {
        base: effect.base,
        delta: effect.delta,
        percent: effect.percent,
        detectable: effect.detectable,
        verdict: effect.verdict,
    }
}

/// Interactions between additions; `None` if a row was not measured. Costs of independent additions
/// add up: under each Layout, all additions at once should cost the base plus the delta of each
/// addition. The rule that judges two Sides compares this sum with the measurement. The sum has the
/// noise of all additions, so noise can hide an interaction but does not fake one.
fn interactions(
    additions: &[&Row],
    combined: &Row,
    threshold_percent: f64,
) -> Option<Vec<LedgerInteraction>> {
    let is_measured = |row: &Row| !matches!(row.verdict, Verdict::Failed | Verdict::DifferentWork);
    if !additions.iter().copied().chain([combined]).all(is_measured) {
        return None;
    }
    let combined_effects = deciding_effects(combined)?;
    let effects_of_additions: Vec<Vec<&Effect>> =
        additions.iter().map(|row| deciding_effects(row)).collect::<Option<_>>()?;
    let mut total_work = vec![0.0; combined_effects.first()?.samples.base.len()];
    let mut found = Vec::new();
    for (index, effect) in combined_effects.into_iter().enumerate() {
        let base = raw_counts(effect, Side::Base);
        let expected = effects_of_additions.iter().fold(base.clone(), |sum, effects| {
            let delta: Vec<f64> = raw_counts(effects[index], Side::Change)
                .iter()
                .zip(raw_counts(effects[index], Side::Base))
                .map(|(change, base)| change - base)
                .collect();
            sum_by_layout(sum, &delta)
        });
        // The threshold of REP iterations is a share of all work: instructions and iterations.
        total_work = sum_by_layout(base, &total_work);
        let sides = Sides { base: expected, change: raw_counts(effect, Side::Change) };
        let beyond = judged_cost(sides, &total_work, ops(combined), threshold_percent)?;
        found.push(LedgerInteraction { metric: effect.metric.clone(), excess: beyond });
    }
    Some(found)
}

/// Judges raw values by Layout; the threshold is a share of the total work.
fn judged_cost(
    values: Sides<Vec<f64>>,
    total_work: &[f64],
    ops: u64,
    threshold_percent: f64,
) -> Option<LedgerCost> {
    let Sides { base, change } = values;
    let judged = judge(&base, &change, |layout| threshold_percent / 100.0 * total_work[layout])?;
    let per_op = |value: f64| value / ops as f64;
    let (base, change) = (base[judged.median], change[judged.median]);
    Some(LedgerCost {
        base: per_op(base),
        delta: per_op(change - base),
        percent: checked_percent_change(base, change),
        detectable: judged.detectable().map(per_op),
        verdict: verdict_of_decision(judged.decision),
    })
}

fn raw_counts(effect: &Effect, side: Side) -> Vec<f64> {
    effect.samples.get(side).iter().map(|count| *count as f64).collect()
}

fn sum_by_layout(left: Vec<f64>, right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left + right).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::{EffectValues, effect};
    use ktax_model::{Calibration, CalibrationFit, CountsEvidence, Fitted};

    const BASE: [u64; 5] = [10_000, 10_002, 10_001, 10_000, 10_003];

    /// A row in which one operation costs more by these numbers of instructions and REP iterations,
    /// under each Layout.
    fn row(instructions: [i64; 5], rep: [i64; 5]) -> Row {
        let effect = |metric: &str, base: [u64; 5], deltas: [i64; 5]| {
            let pairs = base.iter().zip(deltas);
            let change = pairs.map(|(base, delta)| base.strict_add_signed(delta)).collect();
            let samples = Sides { base: base.into(), change };
            let layouts = (0..5).collect();
            effect(EffectValues { metric, samples, layouts, ops: 1 }, |_| 10.0).unwrap()
        };
        let effects = vec![
            effect(METRICS[0].name, BASE, instructions),
            effect(METRICS[1].name, [500; 5], rep),
        ];
        let verdict = effects[0].verdict;
        Row {
            row: "stat".into(),
            title: String::new(),
            operation: String::new(),
            ops: 1,
            params: Default::default(),
            headline: true,
            verdict,
            reason: None,
            failures: Vec::new(),
            evidence: Evidence::Counts(CountsEvidence { effects, ..CountsEvidence::default() }),
        }
    }

    fn interaction_costs(additions: &[Row], combined: &Row) -> Vec<(f64, Verdict)> {
        let additions: Vec<&Row> = additions.iter().collect();
        let found = interactions(&additions, combined, 0.1).unwrap();
        assert!(found.iter().zip(&METRICS).all(|(one, metric)| one.metric == metric.name));
        found.iter().map(|one| (one.excess.delta, one.excess.verdict)).collect()
    }

    /// Costs of eleven options in one call of stat: +1255 as a sum, +1280 in one kernel.
    #[test]
    fn additions_that_do_not_add_up_are_found() {
        let parts = [731, 223, 184, 49, 46, 22, 0, 0, 0, 0, 0].map(|cost| row([cost; 5], [0; 5]));
        let found = interaction_costs(&parts, &row([1280; 5], [0; 5]));
        assert_eq!(found, [(25.0, Verdict::Slower), (0.0, Verdict::NoDetectedChange)]);
        let found = interaction_costs(&parts, &row([1255; 5], [0; 5]));
        assert_eq!(found[0], (0.0, Verdict::NoDetectedChange));
        // Less than 0.1 % of 10 000.
        assert_eq!(
            interaction_costs(&parts, &row([1264; 5], [0; 5]))[0].1,
            Verdict::BelowThreshold
        );
        assert_eq!(interaction_costs(&parts, &row([1200; 5], [0; 5]))[0], (-55.0, Verdict::Faster));
    }

    #[test]
    fn rep_iterations_and_instructions_are_summed_separately() {
        let parts = [row([0; 5], [400; 5]), row([0; 5], [100; 5])];
        let found = interaction_costs(&parts, &row([0; 5], [800; 5]));
        assert_eq!(found[1], (300.0, Verdict::Slower));
        // 8 of 10 500 is less than 0.1 %, though 1.6 % of the iterations.
        assert_eq!(interaction_costs(&parts, &row([0; 5], [508; 5]))[1].1, Verdict::BelowThreshold);
    }

    /// The cost of one addition varies by 200 over the Layouts, so 150 beyond the sum are noise.
    #[test]
    fn noise_of_an_addition_is_noise_of_the_sum() {
        let noisy = row([500, 600, 700, 550, 650], [0; 5]);
        let quiet = row([300; 5], [0; 5]);
        let found = interaction_costs(&[noisy.clone(), quiet.clone()], &row([1050; 5], [0; 5]));
        assert_eq!(found[0].1, Verdict::NoDetectedChange);
        let found = interaction_costs(&[noisy, quiet], &row([1300; 5], [0; 5]));
        assert_eq!(found[0].1, Verdict::Slower);
    }

    #[test]
    fn failed_rows_have_no_interactions() {
        let failed = Row { verdict: Verdict::Failed, ..row([0; 5], [0; 5]) };
        let good = row([5; 5], [0; 5]);
        assert_eq!(interactions(&[&good, &failed], &good, 0.1), None);
        assert_eq!(interactions(&[&good], &failed, 0.1), None);
    }

    /// Clearing memory: 23 instructions fewer and 4096 iterations more. Iterations count for the
    /// rank only as cycles of an estimate.
    #[test]
    fn iterations_are_never_counted_as_instructions() {
        let (clearing, calling) = (row([-23; 5], [4096; 5]), row([80; 5], [0; 5]));
        let ranked = |rows: [&Row; 2]| {
            let mut all = [entry("calling", rows[0]), entry("clearing", rows[1])];
            all.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
            all
        };
        let all = ranked([&calling, &clearing]);
        assert_eq!(all[0].name, "calling");
        let costs = all[1].costs.as_ref().unwrap();
        assert_eq!(
            (costs.first_metric.delta, costs.first_metric.verdict),
            (-23.0, Verdict::Faster)
        );
        assert_eq!(costs.metric("rep-iterations").unwrap().delta, 4096.0);
        let mut rows = [calling, clearing];
        crate::estimate(&mut rows, "made-up", &calibration());
        let all = ranked([&rows[0], &rows[1]]);
        assert_eq!(all[0].name, "clearing");
        // -23 + 4096 / 16 to 4096 / 8 of 10 000 instructions and 500 iterations.
        let [low, high] = all[0].costs.as_ref().unwrap().estimated_percent().unwrap();
        let [least, most] = [233.0, 489.0].map(|cycles| cycles / 10_047.0 * 100.0);
        assert!((low - least).abs() < 0.01 && (high - most).abs() < 0.01, "{low} {high}");
    }

    fn calibration() -> Calibration {
        Calibration {
            cpu: "a".to_owned(),
            cycles_per_ns: 1.0,
            rep_iteration: Some([1.0 / 16.0, 1.0 / 8.0]),
            fit: Some(CalibrationFit {
                rows: 30,
                groups: 2,
                error: [1.0, 1.0],
                cycles: [(Fitted::Instruction, 1.0)].into(),
                bounds: [(Fitted::Instruction, [1.0, 1.0])].into(),
            }),
            ..Calibration::default()
        }
    }

    #[test]
    fn an_addition_that_changes_nothing_has_a_warning() {
        let warning = |row: Row| {
            let rows = vec![Row { verdict: row.effects()[0].verdict, ..row }];
            no_effect_warning(&rows).map(|warning| warning.fact)
        };
        let expected =
            "no row changed: no row executes it, or it is already on, or this kernel does not \
                     know it"
                .to_owned();
        assert_eq!(warning(row([0; 5], [0; 5])), Some(expected));
        assert_eq!(warning(row([80; 5], [0; 5])), None);
        assert_eq!(warning(row([0; 5], [4096; 5])), None);
    }
}
