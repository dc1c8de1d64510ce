//! Comparisons of times: pairs become rows, and after each pair it is decided if another is needed.
//! Sides that are measured in boots of the machine of their own are blocks, which become pairs.

pub mod noise;

use std::collections::{BTreeMap, BTreeSet};

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
use noise::CHANGED_MENDS;

/// Number of Boots after which a row without a time is given up.
const TRIES: usize = 3;

/// The log-ratios of one row.
#[derive(Default)]
struct LogRatios {
    pairs: Vec<f64>,
    controls: Vec<f64>,
}

/// Returns true if the Plan wants another pair after these.
pub fn wants_more(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> bool {
    if why_ended(plan, pairs).is_some() {
        return false;
    }
    // Without its A/A pairs the pilot is no result, even if fewer pairs were asked for.
    if pairs.len() < MIN_PAIRS + MIN_CONTROLS {
        return true;
    }
    let compared = pairs.iter().filter(|pair| !pair.is_control).count();
    // This also holds if no row has a spread that gives a cap.
    if compared >= plan.method.asked.pairs.unwrap_or(plan.method.asked.max_pairs) as usize {
        return false;
    }
    let ratios = log_ratios(&plan.method.headline, pairs);
    matches!(trial(plan).next(&borrowed(&ratios)), NextStep::RunPair { .. })
}

/// Reason why more pairs would not help; the run then stops early.
pub fn why_ended(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Option<String> {
    if !pairs.is_empty() && plan.method.headline.iter().all(|row| never_ran(row, pairs)) {
        return Some("no row that decides can run on both sides".to_owned());
    }
    let is_another = |row: &Workload| different_work(pairs, &row.row).is_some();
    if plan.method.headline.iter().all(|row| is_another(row) || never_ran(row, pairs)) {
        return Some("no row that decides does the same work on both sides".to_owned());
    }
    let is_one_enough = is_translated(&plan.method) && pairs.iter().any(|pair| !pair.is_control);
    if is_one_enough || pairs.len() >= MIN_PAIRS + MIN_CONTROLS {
        return unfit(&plan.method, pairs);
    }
    undeclared(&plan.method, pairs)
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
    let cap = trial(plan).cap(&borrowed(&ratios));
    Progress { pairs: pairs.len() - controls, controls, cap }
}

/// Ratios of change to base so far, for the rows that decide.
pub fn estimates(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Vec<(String, f64)> {
    let ratios = log_ratios(&plan.method.headline, pairs);
    let judged = trial(plan).judge(&borrowed(&ratios), &[]).headline;
    let named = plan.method.headline.iter().zip(&judged).filter(|(_, row)| row.pairs > 0);
    named.map(|(workload, row)| (workload.row.clone(), row.ratio().estimate)).collect()
}

/// Returns true if a Side was tried often enough without a single time. It is not tried again.
pub fn never_ran(workload: &Workload, pairs: &[TimedPair]) -> bool {
    Side::BOTH.iter().any(|side| {
        let values = || side_boots(pairs, *side).map(|boot| median_loop(boot, &workload.row));
        values().count() >= TRIES && values().all(|value| value.is_none())
    })
}

/// Compares the two Sides; there may be fewer pairs than the Plan wanted.
pub fn times(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Comparison {
    let (headline, secondary) =
        (log_ratios(&plan.method.headline, pairs), log_ratios(&plan.method.secondary, pairs));
    let judged = trial(plan).judge(&borrowed(&headline), &borrowed(&secondary));
    let unfit = unfit(&plan.method, pairs);
    let row = |is_headline: bool| {
        let unfit = unfit.as_deref();
        move |(workload, judged): (&Workload, &TrialRow)| {
            timed_row(workload, judged, is_headline, pairs, unfit)
        }
    };
    let mut rows: Vec<Row> =
        plan.method.headline.iter().zip(&judged.headline).map(row(true)).collect();
    rows.extend(plan.method.secondary.iter().zip(&judged.secondary).map(row(false)));
    let controls = pairs.iter().filter(|pair| pair.is_control).count();
    let method = ComparisonMethod::Times(TimesComparison {
        seed: plan.seed,
        plan: plan.method.clone(),
        pairs: pairs.len() - controls,
        controls,
        unfit,
        pairs_at_looks: trial(plan).looks(&borrowed(&headline)),
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

fn is_translated(plan: &TimesPlan) -> bool {
    plan.asked.runs_on == RunsOn::Guests && plan.asked.machine.accelerator == Accelerator::Tcg
}

/// Reason why no row can have an answer.
fn unfit(plan: &TimesPlan, pairs: &[TimedPair]) -> Option<String> {
    if is_translated(plan) {
        let text = "QEMU's translator ran the guests, and its times mean nothing; write \
                    accelerator = \"kvm\"";
        return Some(text.to_owned());
    }
    undeclared(plan, pairs).or_else(|| noise::cannot_measure(pairs))
}

fn undeclared(plan: &TimesPlan, pairs: &[TimedPair]) -> Option<String> {
    let differences = noise::undeclared(plan, pairs);
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
    let mut warnings: Vec<Warning> = warnings::one_image_of_times(plan).into_iter().collect();
    warnings.extend(noise::warnings(plan, pairs));
    warnings.extend(warnings::lost_pair_warnings(pairs));
    let differences = noise::undeclared(plan, pairs);
    warnings.extend(differences.iter().map(|difference| Warning {
        fact: format!("not declared, and different: {difference}"),
        next_step: "make the sides alike, or declare it".into(),
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

fn borrowed(ratios: &[LogRatios]) -> Vec<RowPairs<'_>> {
    ratios.iter().map(|row| RowPairs { pairs: &row.pairs, controls: &row.controls }).collect()
}

/// Log-ratios of each row; none for a row whose Sides do different work, so that nothing waits for
/// it.
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
    headline: bool,
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
    let different = different_work(pairs, name);
    let (verdict, why) = match (judged.verdict, unfit) {
        _ if ns.base.is_none() || ns.change.is_none() => (Verdict::Failed, None),
        _ if failed_often(&failures, boots) => (Verdict::Failed, None),
        _ if different.is_some() => (Verdict::DifferentWork, different),
        (_, Some(unfit)) => (Verdict::Inconclusive, Some(unfit.to_owned())),
        (Detection::Up, None) => (Verdict::Slower, None),
        (Detection::Down, None) => (Verdict::Faster, None),
        (Detection::Small, None) => (Verdict::BelowThreshold, None),
        (Detection::NotDetected, None) => (Verdict::NoDetectedChange, None),
        (Detection::Inconclusive(why), None) => (no_answer(why), Some(no_answer_reason(why))),
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
    Row { headline, reason: why, failures, ..row }
}

/// Log-ratio of a pair; `None` unless both its Boots have times of the row.
fn pair_log_ratio(pair: &TimedPair, row: &str) -> Option<f64> {
    let loops = |side| boot_loops(pair.boots.get(side), row).unwrap_or_default();
    log_ratio(loops(Side::Base), loops(Side::Change))
}

/// Ratios of the pairs that have one, in order of time.
fn series(pairs: &[TimedPair], row: &str) -> Vec<PairRatio> {
    let ratio_of_pair = |pair: &TimedPair| {
        let ratio = pair_log_ratio(pair, row)?.exp();
        Some(PairRatio { pair: pair.index, ratio, is_control: pair.is_control })
    };
    pairs.iter().filter_map(ratio_of_pair).collect()
}

/// Verdict without an answer: too little was measured, or the machine is not fit to measure.
fn no_answer(why: InconclusiveReason) -> Verdict {
    match why {
        InconclusiveReason::TooFewPairs | InconclusiveReason::TooFewControls => {
            Verdict::TooFewBoots
        }
        InconclusiveReason::BiasedControl
        | InconclusiveReason::NoisyControl
        | InconclusiveReason::NotFinite => Verdict::Inconclusive,
    }
}

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

/// Returns true if so many Boots of a Side failed that the others are no fair sample.
fn failed_often<'a, B>(failures: &[RowFailure], boots: impl Fn(Side) -> B) -> bool
where
    B: Iterator<Item = &'a TimedBoot>,
{
    failures.iter().any(|failed| too_many_failed(failed.boots, boots(failed.side).count()))
}

/// First difference of work between the two Boots of a pair.
pub(super) fn different_work(pairs: &[TimedPair], row: &str) -> Option<String> {
    pairs.iter().find_map(|pair| {
        let run = |side| pair.boots.get(side).runs.get(row).filter(|run| run.failure.is_none());
        let (base, change) = (run(Side::Base)?, run(Side::Change)?);
        let second = if pair.is_control { "base again" } else { "change" };
        let names = base.signature.keys().chain(change.signature.keys());
        let mut names =
            names.filter(|name| base.signature.get(*name) != change.signature.get(*name));
        let name = names.next()?;
        let says = |value: Option<&u64>| value.map_or("nothing".to_owned(), u64::to_string);
        let (base, change) = (base.signature.get(name), change.signature.get(name));
        Some(format!("{name} {} in base, {} in {second}", says(base), says(change)))
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
            "base against base differs: the machine favours one place; look at the warnings".into()
        }
        InconclusiveReason::NoisyControl => {
            "base against base differs by more than 20 % from pair to pair; quieten the machine"
                .into()
        }
        InconclusiveReason::NotFinite => "a time that is no number".into(),
    }
}

/// Largest share of failed Boots that is tolerated: slow boots time out, so dropping them biases
/// the rest towards fast ones.
const MOST_FAILED: f64 = 0.05;

/// Loops of a row, if none of them failed.
fn boot_loops<'a>(boot: &'a TimedBoot, row: &str) -> Option<&'a [f64]> {
    let run = boot.runs.get(row).filter(|run| run.failure.is_none())?;
    Some(&run.loops_ns)
}

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

/// Returns true if so many failed that the others are no fair sample.
fn too_many_failed(failed: usize, boots: usize) -> bool {
    failed as f64 > MOST_FAILED * boots as f64
}

/// All crossings between neighbouring values of the swept parameters.
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
            let crossed = points.windows(2).filter_map(|pair| crossing(&pair[0], &pair[1]));
            found.extend(crossed.map(|(between, at, ratios)| Crossing {
                family: family.clone(),
                parameter: parameter.clone(),
                neighbours: between,
                value: at,
                is_certain: differs_from_one(&ratios.0) && differs_from_one(&ratios.1),
                ratios,
            }));
        }
    }
    found
}

fn curve_point(workload: &Workload, row: &Row, parameter: &str) -> Option<(u64, Ratio)> {
    // A ratio of exactly 1 is on neither side of the crossing, and a row without an answer has no
    // ratio.
    let ratio =
        row.times()?.ratio.filter(|ratio| row.verdict.is_answer() && ratio.estimate != 1.0)?;
    Some((*workload.params.get(parameter)?, ratio))
}

type CrossingPoint = ((u64, u64), f64, (Ratio, Ratio));

fn crossing(left: &(u64, Ratio), right: &(u64, Ratio)) -> Option<CrossingPoint> {
    let [from, to] = [left, right].map(|(_, ratio)| ratio.estimate.ln());
    // A parameter may be 0, which has no logarithm.
    let [start, end] = [left, right].map(|(value, _)| (*value as f64).ln_1p());
    if from * to >= 0.0 {
        return None;
    }
    let value = (start + (end - start) * from / (from - to)).exp_m1();
    Some(((left.0, right.0), value, (left.1, right.1)))
}

fn differs_from_one(ratio: &Ratio) -> bool {
    ratio.low > 1.0 || ratio.high.is_some_and(|high| high < 1.0)
}

/// Turns blocks into pairs, so that one boot of the machine is one value: two neighbours of
/// different Sides are a pair, two of the base an A/A pair. A block's loops are the medians of its
/// Boots. Blocks after the Plan had enough are left out, because repeated looks find changes by
/// chance.
pub fn block_pairs(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> Vec<TimedPair> {
    let mut pairs = Vec::new();
    let mut left = blocks;
    while let [first, second, rest @ ..] = left {
        left = rest;
        let (base, change, is_control) = match (first.side, second.side) {
            (Side::Base, Side::Change) => (first, second, false),
            (Side::Change, Side::Base) => (second, first, false),
            (Side::Base, Side::Base) => (first, second, true),
            (Side::Change, Side::Change) => {
                left = &blocks[blocks.len() - rest.len() - 1..];
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

/// Sides in the Plan's randomized order, an endless iterator; an A/A pair is the base twice.
pub fn turns(plan: &Plan<TimesPlan>) -> impl Iterator<Item = Side> + use<> {
    PairOrder::new(plan.seed).flat_map(|slot| match (slot.is_control, slot.change_first) {
        (true, _) => [Side::Base, Side::Base],
        (false, false) => [Side::Base, Side::Change],
        (false, true) => [Side::Change, Side::Base],
    })
}

/// Returns true if the blocks are in the planned order.
pub fn is_drawn(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> bool {
    turns(plan).zip(blocks).all(|(turn, block)| turn == block.side)
}

/// Compares Sides that were measured in blocks. In any other order than the planned one there is no
/// verdict, because a drift from boot to boot could look like the change.
pub fn in_blocks(plan: &Plan<TimesPlan>, blocks: &[TimedBlock]) -> Comparison {
    let mut comparison = times(plan, &block_pairs(plan, blocks));
    comparison.warnings.extend(blocks.iter().flat_map(changed_fact_warnings));
    if !is_drawn(plan, blocks) {
        let why = "the blocks are not in the order that `ktax run` draws, so that a drift could \
                   look like the change; measure in that order, into a new directory";
        for row in comparison.rows.iter_mut().filter(|row| row.verdict.is_answer()) {
            row.verdict = Verdict::Inconclusive;
            row.reason = Some(why.to_owned());
        }
        if let ComparisonMethod::Times(times) = &mut comparison.method {
            times.crossings.clear();
            times.unfit.get_or_insert(why.to_owned());
        }
    }
    comparison
}

/// A block as one Boot. A row failed in it if it failed in too many of its Boots, and did different
/// work if it did in one of them.
fn block_as_boot(block: &TimedBlock) -> TimedBoot {
    let mut runs: BTreeMap<String, TimedRun> = BTreeMap::new();
    for row in block.boots.iter().flat_map(|boot| boot.runs.keys()) {
        if runs.contains_key(row) {
            continue;
        }
        let runs_of_row = || block.boots.iter().filter_map(|boot| boot.runs.get(row));
        let failures: Vec<_> = runs_of_row().filter_map(|run| run.failure.as_ref()).collect();
        let too_many = too_many_failed(failures.len(), block.boots.len());
        let signatures =
            || runs_of_row().filter(|run| run.failure.is_none()).map(|run| &run.signature);
        let first = signatures().next();
        let signature = signatures().find(|signature| Some(*signature) != first).or(first).cloned();
        runs.insert(
            row.clone(),
            TimedRun {
                loops_ns: block.boots.iter().filter_map(|boot| median_loop(boot, row)).collect(),
                signature: signature.unwrap_or_default(),
                failure: failures.first().filter(|_| too_many).map(|failure| (*failure).clone()),
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
    let value = |name: &String| facts().map(|facts| facts.get(name)).collect::<BTreeSet<_>>();
    let changed = names.into_iter().filter(|name| value(name).len() > 1);
    let warning = |name: &String| Warning {
        fact: format!("{name} changed while block {} was measured", block.index),
        next_step: CHANGED_MENDS.into(),
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
    fn a_curve_that_goes_through_one_crosses_between() {
        let (between, place, _) =
            crossing(&(99, ratio(0.9, 0.01)), &(399, ratio(1.0 / 0.9, 0.01))).unwrap();
        // Halfway between the logarithms of 100 and 400.
        assert_eq!(between, (99, 399));
        assert!((place - 199.0).abs() < 1e-9, "{place}");
        assert!(crossing(&(1, ratio(1.1, 0.01)), &(2, ratio(1.2, 0.01))).is_none());
        assert!(crossing(&(1, ratio(1.0, 0.01)), &(2, ratio(1.2, 0.01))).is_none());
        assert!(differs_from_one(&ratio(1.02, 0.01)) && !differs_from_one(&ratio(1.02, 0.03)));
    }
}
