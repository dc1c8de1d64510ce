//! Comparisons of times: makes rows from pairs, and decides after each pair whether another pair is
//! needed. If the user boots the machine for each Side, each boot is a block; blocks are paired
//! here.

pub mod noise;

use std::collections::{BTreeMap, BTreeSet};

use crate::effect::differing_entries;
use crate::warnings;
use ktax_model::{
    AaControl, Accelerator, Comparison, ComparisonMethod, Crossing, Evidence, Facts, Noise,
    PairRatio, Plan, Ratio, Row, RowFailure, RunsOn, Side, Sides, TimedBlock, TimedBoot, TimedPair,
    TimedRun, TimesComparison, TimesEvidence, TimesPlan, Verdict, Warning, Workload, family,
};
use ktax_stats::tables::median;
use ktax_stats::timed::{
    Detection, InconclusiveReason, Interval, MIN_CONTROLS, MIN_PAIRS, NextStep, PairOrder,
    RowPairs, Rules, Trial, TrialRow, log_ratio, variance_components,
};
use noise::CHANGED_NEXT_STEP;

/// Number of Boots without a time after which a row is not run again.
const MAX_BOOTS_WITHOUT_TIME: usize = 3;

/// Log-ratios of one row.
#[derive(Default)]
struct LogRatios {
    pairs: Vec<f64>,
    controls: Vec<f64>,
}

/// Returns true if the Plan wants another pair after these.
pub fn wants_more(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> bool {
    if stop_reason(plan, pairs).is_some() {
        return false;
    }
    // The pilot needs its A/A pairs, even if the user requested fewer pairs.
    if pairs.len() < MIN_PAIRS + MIN_CONTROLS {
        return true;
    }
    let compared_pairs = pairs.iter().filter(|pair| !pair.is_control).count();
    // The trial has no cap if no row has a spread, so the limit is checked here, too.
    if compared_pairs >= plan.method.asked.pairs.unwrap_or(plan.method.asked.max_pairs) as usize {
        return false;
    }
    let ratios = log_ratios(&plan.method.headline, pairs);
    matches!(trial(plan).next(&borrowed_pairs(&ratios)), NextStep::RunPair { .. })
}

/// Reason to stop the run early: more pairs would not lead to a verdict.
pub fn stop_reason(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Option<String> {
    if !pairs.is_empty() && plan.method.headline.iter().all(|row| never_ran(row, pairs)) {
        return Some("no headline row can run on both sides".to_owned());
    }
    let has_different_work = |row: &Workload| different_work(pairs, &row.row).is_some();
    if plan.method.headline.iter().all(|row| has_different_work(row) || never_ran(row, pairs)) {
        return Some("no headline row does the same work on both sides".to_owned());
    }
    let has_translated_pair =
        is_translated(&plan.method) && pairs.iter().any(|pair| !pair.is_control);
    if has_translated_pair || pairs.len() >= MIN_PAIRS + MIN_CONTROLS {
        return unfit_reason(&plan.method, pairs);
    }
    undeclared_reason(&plan.method, pairs)
}

/// Progress of a timed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    pub pairs: usize,
    pub controls: usize,
    /// Largest number of pairs, once it is known.
    pub cap: Option<usize>,
}

/// Progress of these pairs towards a result of the Plan.
pub fn progress(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Progress {
    let ratios = log_ratios(&plan.method.headline, pairs);
    let controls = pairs.iter().filter(|pair| pair.is_control).count();
    let cap = trial(plan).cap(&borrowed_pairs(&ratios));
    Progress { pairs: pairs.len() - controls, controls, cap }
}

/// Ratios of change to base so far, for the headline rows that have pairs.
pub fn estimates(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Vec<(String, f64)> {
    let ratios = log_ratios(&plan.method.headline, pairs);
    let judged = trial(plan).judge(&borrowed_pairs(&ratios), &[]).headline;
    let rows = plan.method.headline.iter().zip(&judged).filter(|(_, row)| row.pairs > 0);
    rows.map(|(workload, row)| (workload.row.clone(), row.ratio().estimate)).collect()
}

/// Returns true if one Side has no time of a row after `MAX_BOOTS_WITHOUT_TIME` Boots. The row is
/// then not run again.
pub fn never_ran(workload: &Workload, pairs: &[TimedPair]) -> bool {
    Side::BOTH.iter().any(|side| {
        let values = || side_boots(pairs, *side).map(|boot| median_loop(boot, &workload.row));
        values().count() >= MAX_BOOTS_WITHOUT_TIME && values().all(|value| value.is_none())
    })
}

/// Compares the two Sides; there may be fewer pairs than the Plan wanted.
pub fn times(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Comparison {
    let (headline, secondary) =
        (log_ratios(&plan.method.headline, pairs), log_ratios(&plan.method.secondary, pairs));
    let judged = trial(plan).judge(&borrowed_pairs(&headline), &borrowed_pairs(&secondary));
    let unfit = unfit_reason(&plan.method, pairs);
    let make_row = |is_headline: bool| {
        let unfit = unfit.as_deref();
        move |(workload, judged): (&Workload, &TrialRow)| {
            timed_row(workload, judged, is_headline, pairs, unfit)
        }
    };
    let mut rows: Vec<Row> =
        plan.method.headline.iter().zip(&judged.headline).map(make_row(true)).collect();
    rows.extend(plan.method.secondary.iter().zip(&judged.secondary).map(make_row(false)));
    let controls = pairs.iter().filter(|pair| pair.is_control).count();
    let method = ComparisonMethod::Times(TimesComparison {
        seed: plan.seed,
        plan: plan.method.clone(),
        pairs: pairs.len() - controls,
        controls,
        unfit,
        pairs_at_looks: trial(plan).looks(&borrowed_pairs(&headline)),
        crossings: crossings(&plan.method, &rows),
        facts: Sides {
            base: first_facts(pairs, Side::Base),
            change: first_facts(pairs, Side::Change),
        },
    });
    let (title, threshold_percent) = (plan.title.clone(), plan.threshold_percent);
    let warnings = plan_warnings(&plan.method, pairs);
    Comparison { title, threshold_percent, method, rows, warnings }
}

/// Facts of a Side's first Boot; later changes are warnings.
fn first_facts(pairs: &[TimedPair], side: Side) -> Facts {
    side_boots(pairs, side).next().map(|boot| boot.facts.clone()).unwrap_or_default()
}

/// Returns true if the guests run under TCG, QEMU's translator, and not under KVM.
fn is_translated(plan: &TimesPlan) -> bool {
    plan.asked.runs_on == RunsOn::Guests && plan.asked.machine.accelerator == Accelerator::Tcg
}

/// Reason why no row can have a verdict.
fn unfit_reason(plan: &TimesPlan, pairs: &[TimedPair]) -> Option<String> {
    if is_translated(plan) {
        let text = "QEMU's translator ran the guests, and its times are not those of a CPU; write \
                    accelerator = \"kvm\"";
        return Some(text.to_owned());
    }
    undeclared_reason(plan, pairs).or_else(|| noise::cannot_measure(pairs))
}

/// Reason why no row can have a verdict: facts that differ between the Sides and were not declared.
fn undeclared_reason(plan: &TimesPlan, pairs: &[TimedPair]) -> Option<String> {
    let differences = noise::undeclared_differences(plan, pairs);
    let sentences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    (!sentences.is_empty() && !plan.asked.allow_differences).then(|| {
        format!(
            "base and change differ in more than was declared: {}; make them alike, or continue \
             with --allow-differences",
            sentences.join("; ")
        )
    })
}

fn plan_warnings(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = warnings::same_image_of_times(plan).into_iter().collect();
    warnings.extend(noise::warnings(plan, pairs));
    warnings.extend(warnings::lost_pair_warnings(pairs));
    let differences = noise::undeclared_differences(plan, pairs);
    warnings.extend(differences.iter().map(|difference| Warning {
        fact: format!("the sides differ in a fact that was not declared: {difference}"),
        next_step: "make the sides alike, or set it for one side in the experiment".into(),
    }));
    warnings
}

fn trial(plan: &Plan<TimesPlan>) -> Trial {
    let rules = Rules {
        threshold: plan.threshold_percent / 100.0,
        max_pairs: plan.method.asked.max_pairs as usize,
        pairs: plan.method.asked.pairs.map(|pairs| pairs as usize),
        ..Rules::default()
    };
    Trial::new(rules, plan.method.headline.len())
}

fn borrowed_pairs(ratios: &[LogRatios]) -> Vec<RowPairs<'_>> {
    ratios.iter().map(|row| RowPairs { pairs: &row.pairs, controls: &row.controls }).collect()
}

/// Log-ratios of each row; empty for a row whose Sides do different work, so that the run does not
/// continue for the sake of that row.
fn log_ratios(workloads: &[Workload], pairs: &[TimedPair]) -> Vec<LogRatios> {
    let ratios_of_row = |workload: &Workload| {
        let mut ratios = LogRatios::default();
        if different_work(pairs, &workload.row).is_some() {
            return ratios;
        }
        for pair in pairs {
            let values = if pair.is_control { &mut ratios.controls } else { &mut ratios.pairs };
            values.extend(pair_log_ratio(pair, &workload.row));
        }
        ratios
    };
    workloads.iter().map(ratios_of_row).collect()
}

fn timed_row(
    workload: &Workload,
    judged: &TrialRow,
    is_headline: bool,
    pairs: &[TimedPair],
    unfit: Option<&str>,
) -> Row {
    let name = &workload.row;
    let boots = |side: Side| side_boots(pairs, side);
    let failures = Side::BOTH.into_iter().filter_map(|side| side_failure(side, pairs, name));
    let failures: Vec<RowFailure> = failures.collect();
    let ns =
        |side| median(&boots(side).filter_map(|boot| median_loop(boot, name)).collect::<Vec<_>>());
    let ns = Sides { base: ns(Side::Base), change: ns(Side::Change) };
    let work_difference = different_work(pairs, name);
    let (verdict, reason) = match (judged.verdict, unfit) {
        _ if ns.base.is_none() || ns.change.is_none() => (Verdict::Failed, None),
        _ if has_too_many_failures(&failures, boots) => (Verdict::Failed, None),
        _ if work_difference.is_some() => (Verdict::DifferentWork, work_difference),
        (_, Some(unfit)) => (Verdict::Inconclusive, Some(unfit.to_owned())),
        (Detection::Up, None) => (Verdict::Slower, None),
        (Detection::Down, None) => (Verdict::Faster, None),
        (Detection::Small, None) => (Verdict::BelowThreshold, None),
        (Detection::NotDetected, None) => (Verdict::NoDetectedChange, None),
        (Detection::Inconclusive(why), None) => {
            (no_answer_verdict(why), Some(no_answer_reason(why)))
        }
    };
    let log_loops: Vec<Vec<f64>> = boots(Side::Base)
        .filter_map(|boot| boot_loops(boot, name))
        .map(|loops| loops.iter().map(|ns| ns.ln()).collect())
        .collect();
    let groups: Vec<&[f64]> = log_loops.iter().map(Vec::as_slice).collect();
    let evidence = TimesEvidence {
        ns,
        ratio: (judged.pairs > 0).then(|| ratio_from_log(judged.log)),
        pairs: judged.pairs,
        family: judged.family,
        p_adjusted: judged.adjusted_p,
        detectable_percent: percent_above_one(judged.detectable),
        control: judged.control.map(|control| AaControl {
            pairs: control.pairs,
            ratio: ratio_from_log(control.log),
            spread_percent: control.spread.exp_m1() * 100.0,
        }),
        between_boots_percent: variance_components(&groups)
            .and_then(|components| components.share_between())
            .map(|share| share * 100.0),
        series: series(pairs, name),
    };
    let row = Row::new(workload, verdict, Evidence::Times(evidence));
    Row { headline: is_headline, reason, failures, ..row }
}

/// Log-ratio of a pair; `None` unless both its Boots have times of the row.
fn pair_log_ratio(pair: &TimedPair, row: &str) -> Option<f64> {
    let loops = |side| boot_loops(pair.boots.get(side), row).unwrap_or_default();
    log_ratio(loops(Side::Base), loops(Side::Change))
}

/// Ratios of the pairs in which both Boots have times of the row, in order of time.
fn series(pairs: &[TimedPair], row: &str) -> Vec<PairRatio> {
    let ratio_of_pair = |pair: &TimedPair| {
        let ratio = pair_log_ratio(pair, row)?.exp();
        Some(PairRatio { pair: pair.index, ratio, is_control: pair.is_control })
    };
    pairs.iter().filter_map(ratio_of_pair).collect()
}

/// Verdict of a row whose times do not decide: too few pairs, or A/A pairs that disagree.
fn no_answer_verdict(why: InconclusiveReason) -> Verdict {
    match why {
        InconclusiveReason::TooFewPairs | InconclusiveReason::TooFewControls => {
            Verdict::TooFewBoots
        }
        InconclusiveReason::BiasedControl
        | InconclusiveReason::NoisyControl
        | InconclusiveReason::NotFinite => Verdict::Inconclusive,
    }
}

/// First failure of a row on one Side, and the number of Boots in which the row failed.
fn side_failure(side: Side, pairs: &[TimedPair], row: &str) -> Option<RowFailure> {
    let failure = |boot: &TimedBoot| boot.runs.get(row)?.failure.clone();
    let mut failed = pairs.iter().flat_map(|pair| {
        let boots = side_boots(std::slice::from_ref(pair), side);
        boots.filter_map(failure).map(|failure| (pair.index, failure)).collect::<Vec<_>>()
    });
    let (index, failure) = failed.next()?;
    let boots = 1 + failed.count();
    Some(RowFailure { boot: format!("pair {index}"), side, boots, failure })
}

/// Returns true if a row failed in too many Boots of one Side.
fn has_too_many_failures<'a, B>(failures: &[RowFailure], boots: impl Fn(Side) -> B) -> bool
where
    B: Iterator<Item = &'a TimedBoot>,
{
    failures.iter().any(|failure| is_above_failed_share(failure.boots, boots(failure.side).count()))
}

/// First difference between the work signatures of a pair's two Boots; `None` if all pairs agree.
pub(super) fn different_work(pairs: &[TimedPair], row: &str) -> Option<String> {
    pairs.iter().find_map(|pair| {
        let run = |side| pair.boots.get(side).runs.get(row).filter(|run| run.failure.is_none());
        let (base, change) = (run(Side::Base)?, run(Side::Change)?);
        let second = if pair.is_control { "base again" } else { "change" };
        differing_entries(&base.signature, &change.signature, second).next()
    })
}

fn ratio_from_log(log: Interval) -> Ratio {
    let high = log.high.exp();
    let (estimate, low) = (log.estimate.exp(), log.low.exp());
    Ratio { estimate, low, high: high.is_finite().then_some(high) }
}

fn percent_above_one(ratio: f64) -> Option<f64> {
    ratio.is_finite().then_some((ratio - 1.0) * 100.0)
}

fn no_answer_reason(why: InconclusiveReason) -> String {
    match why {
        InconclusiveReason::TooFewPairs => {
            format!("fewer than {MIN_PAIRS} pairs, or too few for an interval; measure more")
        }
        InconclusiveReason::TooFewControls => {
            format!("fewer than {MIN_CONTROLS} A/A pairs; measure more")
        }
        InconclusiveReason::BiasedControl => {
            "base against base differs: the same one of the two boots of a pair is usually faster; \
             read the warnings"
                .into()
        }
        InconclusiveReason::NoisyControl => {
            let max_percent = Rules::default().control_spread.exp_m1() * 100.0;
            let problem = "base against base spreads by more than";
            format!("{problem} {max_percent:.0} %; stop other programs")
        }
        InconclusiveReason::NotFinite => {
            "a time is 0 or not a number; measure again in a new directory".into()
        }
    }
}

/// Times of the row's loops in a Boot, in nanoseconds; `None` if the row failed or was not run.
fn boot_loops<'a>(boot: &'a TimedBoot, row: &str) -> Option<&'a [f64]> {
    let run = boot.runs.get(row).filter(|run| run.failure.is_none())?;
    Some(&run.loops_ns)
}

/// Median time of the row's loops in a Boot, in nanoseconds.
fn median_loop(boot: &TimedBoot, row: &str) -> Option<f64> {
    median(boot_loops(boot, row)?)
}

/// Boots of a Side; both Boots of an A/A pair are the base's.
fn side_boots(pairs: &[TimedPair], side: Side) -> impl Iterator<Item = &TimedBoot> {
    let sides_of_boots = move |pair: &'_ TimedPair| match (side, pair.is_control) {
        (Side::Base, true) => vec![Side::Base, Side::Change],
        (Side::Change, true) => Vec::new(),
        (side, false) => vec![side],
    };
    pairs.iter().flat_map(move |pair| {
        sides_of_boots(pair).into_iter().map(|boot_side| pair.boots.get(boot_side))
    })
}

/// Largest share of failed Boots that is tolerated: slow boots time out, so dropping them biases
/// the rest towards fast ones.
const MAX_FAILED_SHARE: f64 = 0.05;

/// Returns true if more than [`MAX_FAILED_SHARE`] of the Boots failed.
fn is_above_failed_share(failed: usize, boots: usize) -> bool {
    failed as f64 > MAX_FAILED_SHARE * boots as f64
}

/// Crossings of the ratio 1 between neighbouring values of the swept parameters.
fn crossings(plan: &TimesPlan, rows: &[Row]) -> Vec<Crossing> {
    let mut found = Vec::new();
    for parameter in &plan.swept_parameters {
        let mut curves: BTreeMap<String, Vec<(u64, Ratio)>> = BTreeMap::new();
        for (workload, row) in plan.headline.iter().zip(rows) {
            if let Some(point) = curve_point(workload, row, parameter) {
                curves.entry(family(&workload.row, parameter)).or_default().push(point);
            }
        }
        for (family, mut points) in curves {
            points.sort_by_key(|(value, _)| *value);
            let crossings = points.windows(2).filter_map(|pair| crossing(&pair[0], &pair[1]));
            found.extend(crossings.map(|(between, value, ratios)| Crossing {
                family: family.clone(),
                parameter: parameter.clone(),
                neighbours: between,
                value,
                is_certain: differs_from_one(&ratios.0) && differs_from_one(&ratios.1),
                ratios,
            }));
        }
    }
    found
}

/// Value of the parameter in a row, with the row's ratio.
fn curve_point(workload: &Workload, row: &Row, parameter: &str) -> Option<(u64, Ratio)> {
    // The sign of ln(ratio) decides where a curve crosses 1; a ratio of exactly 1 has none.
    let ratio =
        row.times()?.ratio.filter(|ratio| row.verdict.is_answer() && ratio.estimate != 1.0)?;
    Some((*workload.params.get(parameter)?, ratio))
}

/// Values around a crossing, the interpolated value, and the ratios around it.
type CrossingPoint = ((u64, u64), f64, (Ratio, Ratio));

/// Interpolates between two points of a curve; `None` if both ratios are on one side of 1.
fn crossing(left: &(u64, Ratio), right: &(u64, Ratio)) -> Option<CrossingPoint> {
    let [left_log, right_log] = [left, right].map(|(_, ratio)| ratio.estimate.ln());
    // A parameter may be 0, which has no logarithm.
    let [start, end] = [left, right].map(|(value, _)| (*value as f64).ln_1p());
    if left_log * right_log >= 0.0 {
        return None;
    }
    let value = (start + (end - start) * left_log / (left_log - right_log)).exp_m1();
    Some(((left.0, right.0), value, (left.1, right.1)))
}

/// Returns true if the interval of the ratio excludes 1.
fn differs_from_one(ratio: &Ratio) -> bool {
    ratio.low > 1.0 || ratio.high.is_some_and(|high| high < 1.0)
}

/// Pairs blocks, so that one boot of the machine is one value: neighbours of different Sides are a
/// pair, two neighbours of the base are an A/A pair. Blocks after the Plan had enough pairs are
/// left out, because repeated looks at the data find changes by chance.
pub fn block_pairs(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> Vec<TimedPair> {
    let mut pairs = Vec::new();
    let mut remaining = blocks;
    while let [first, second, rest @ ..] = remaining {
        let from_second = &remaining[1..];
        remaining = rest;
        let (base, change, is_control) = match (first.side, second.side) {
            (Side::Base, Side::Change) => (first, second, false),
            (Side::Change, Side::Base) => (second, first, false),
            (Side::Base, Side::Base) => (first, second, true),
            (Side::Change, Side::Change) => {
                // Two blocks of the change are not a pair: continue from the second.
                remaining = from_second;
                continue;
            }
        };
        if !wants_more(plan, &pairs) {
            break;
        }
        pairs.push(TimedPair {
            index: pairs.len() as u32,
            is_control,
            change_first: first.side == Side::Change,
            boots: Sides { base: block_as_boot(base), change: block_as_boot(change) },
            noise: combined_noise(&base.noise, &change.noise),
        });
    }
    pairs
}

/// Endless iterator over the Sides of blocks in the Plan's random order; an A/A pair is the base
/// twice.
pub fn planned_sides(plan: &Plan<TimesPlan>) -> impl Iterator<Item = Side> + use<> {
    PairOrder::new(plan.seed).flat_map(|slot| match (slot.is_control, slot.change_first) {
        (true, _) => [Side::Base, Side::Base],
        (false, false) => [Side::Base, Side::Change],
        (false, true) => [Side::Change, Side::Base],
    })
}

/// Returns true if the blocks are in the planned order.
pub fn is_in_planned_order(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> bool {
    planned_sides(plan).zip(blocks).all(|(side, block)| side == block.side)
}

/// Compares Sides that were measured in blocks. Rows have a verdict only if the blocks are in the
/// planned order: otherwise a drift from boot to boot could look like the change.
pub fn compare_blocks(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> Comparison {
    let mut comparison = times(plan, &block_pairs(plan, blocks));
    comparison.warnings.extend(blocks.iter().flat_map(changed_fact_warnings));
    if !is_in_planned_order(plan, blocks) {
        let reason = "the blocks were not run in the planned order, so there is no verdict; \
                      measure again in a new directory";
        for row in comparison.rows.iter_mut().filter(|row| row.verdict.is_answer()) {
            row.verdict = Verdict::Inconclusive;
            row.reason = Some(reason.to_owned());
        }
        if let ComparisonMethod::Times(times) = &mut comparison.method {
            times.crossings.clear();
            times.unfit.get_or_insert(reason.to_owned());
        }
    }
    comparison
}

/// Merges the Boots of a block into one, whose loops are the medians of the Boots. A row is failed
/// in the merged Boot if it failed in too many Boots. Its signature is the first that differs from
/// that of the first Boot, so that different work within a block is found.
fn block_as_boot(block: &TimedBlock) -> TimedBoot {
    let mut runs: BTreeMap<String, TimedRun> = BTreeMap::new();
    for row in block.boots.iter().flat_map(|boot| boot.runs.keys()) {
        if runs.contains_key(row) {
            continue;
        }
        let runs_of_row = || block.boots.iter().filter_map(|boot| boot.runs.get(row));
        let failures: Vec<_> = runs_of_row().filter_map(|run| run.failure.as_ref()).collect();
        let is_failed = is_above_failed_share(failures.len(), block.boots.len());
        let signatures =
            || runs_of_row().filter(|run| run.failure.is_none()).map(|run| &run.signature);
        let first = signatures().next();
        let signature = signatures().find(|signature| Some(*signature) != first).or(first).cloned();
        runs.insert(
            row.clone(),
            TimedRun {
                loops_ns: block.boots.iter().filter_map(|boot| median_loop(boot, row)).collect(),
                signature: signature.unwrap_or_default(),
                failure: failures.first().filter(|_| is_failed).map(|failure| (*failure).clone()),
            },
        );
    }
    let facts = block.boots.first().map(|boot| boot.facts.clone()).unwrap_or_default();
    TimedBoot { facts, runs, retry_reason: None }
}

/// Warnings about facts that changed within a block; the first Boot's facts are kept.
fn changed_fact_warnings(block: &TimedBlock) -> Vec<Warning> {
    let facts = || block.boots.iter().map(|boot| &boot.facts);
    let names: BTreeSet<&String> = facts().flat_map(|facts| facts.keys()).collect();
    let values = |name: &String| facts().map(|facts| facts.get(name)).collect::<BTreeSet<_>>();
    let changed = names.into_iter().filter(|name| values(name).len() > 1);
    let warning = |name: &String| Warning {
        fact: format!("{name} changed while block {} was measured", block.index),
        next_step: CHANGED_NEXT_STEP.into(),
    };
    changed.map(warning).collect()
}

/// Noise of two blocks, weighted by their time.
fn combined_noise(first: &Noise, second: &Noise) -> Noise {
    let seconds = first.seconds + second.seconds;
    let mean = |share: fn(&Noise) -> f64| match seconds > 0.0 {
        true => (share(first) * first.seconds + share(second) * second.seconds) / seconds,
        false => 0.0,
    };
    Noise {
        seconds,
        cpus: first.cpus.max(second.cpus),
        steal_percent: mean(|noise| noise.steal_percent),
        others_percent: mean(|noise| noise.others_percent),
        throttled: first.throttled.saturating_add(second.throttled),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(estimate: f64, half: f64) -> Ratio {
        Ratio { estimate, low: estimate - half, high: Some(estimate + half) }
    }

    #[test]
    fn crossings_are_interpolated_between_logarithms() {
        let (between, value, _) =
            crossing(&(99, ratio(0.9, 0.01)), &(399, ratio(1.0 / 0.9, 0.01))).unwrap();
        // Halfway between the logarithms of 100 and 400.
        assert_eq!(between, (99, 399));
        assert!((value - 199.0).abs() < 1e-9, "{value}");
        assert!(crossing(&(1, ratio(1.1, 0.01)), &(2, ratio(1.2, 0.01))).is_none());
        assert!(crossing(&(1, ratio(1.0, 0.01)), &(2, ratio(1.2, 0.01))).is_none());
        assert!(differs_from_one(&ratio(1.02, 0.01)) && !differs_from_one(&ratio(1.02, 0.03)));
    }
}
