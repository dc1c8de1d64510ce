//! One row of a [`TimedComparison`].
//!
//! [`TimedComparison`]: crate::model::TimedComparison

use crate::model::{
    AaControl, Ratio, Side, Sides, TimedBoot, TimedFailure, TimedPair, TimedRow, TimedVerdict,
    Workload,
};
use crate::stats::timed::{Interval, MIN_CONTROLS, MIN_PAIRS, Row, Verdict, Why, median, split};

/// The share of a Side's Boots that may fail, of the host's weather as it were: those that are slow
/// enough to reach a limit are missing, and the others look faster than they are.
const MOST_FAILED: f64 = 0.05;

/// The loops of a row, if none of them failed.
pub(super) fn times<'a>(boot: &'a TimedBoot, row: &str) -> Option<&'a [f64]> {
    let run = boot.runs.get(row).filter(|run| run.failure.is_none())?;
    Some(&run.loops_ns)
}

pub(super) fn value(boot: &TimedBoot, row: &str) -> Option<f64> {
    median(times(boot, row)?)
}

pub(super) fn row(
    workload: &Workload,
    judged: &Row,
    headline: bool,
    pairs: &[TimedPair],
    unfit: Option<&str>,
) -> TimedRow {
    let name = &workload.row;
    let boots = |side: Side| of_side(pairs, side);
    let failures = Side::BOTH.into_iter().filter_map(|side| failures(side, boots(side), name));
    let failures: Vec<TimedFailure> = failures.collect();
    let ns = |side| median(&boots(side).filter_map(|boot| value(boot, name)).collect::<Vec<_>>());
    let ns = Sides { base: ns(Side::Base), change: ns(Side::Change) };
    let different = different_work(pairs, name);
    let (verdict, why) = match (judged.verdict, unfit) {
        _ if ns.base.is_none() || ns.change.is_none() => (TimedVerdict::Failed, None),
        _ if failed_often(&failures, boots) => (TimedVerdict::Failed, None),
        _ if different.is_some() => (TimedVerdict::DifferentWork, different),
        (_, Some(unfit)) => (TimedVerdict::Inconclusive, Some(unfit.to_owned())),
        (Verdict::Up, None) => (TimedVerdict::Slower, None),
        (Verdict::Down, None) => (TimedVerdict::Faster, None),
        (Verdict::Small, None) => (TimedVerdict::BelowThreshold, None),
        (Verdict::NotDetected, None) => (TimedVerdict::NoDetectedChange, None),
        (Verdict::Inconclusive(why), None) => (TimedVerdict::Inconclusive, Some(reason(why))),
    };
    let log_loops: Vec<Vec<f64>> = boots(Side::Base)
        .filter_map(|boot| times(boot, name))
        .map(|loops| loops.iter().map(|ns| ns.ln()).collect())
        .collect();
    let groups: Vec<&[f64]> = log_loops.iter().map(Vec::as_slice).collect();
    TimedRow {
        row: name.clone(),
        operation: workload.operation.clone(),
        headline,
        verdict,
        why,
        ns,
        ratio: (judged.pairs > 0).then(|| ratio(judged.log)),
        pairs: judged.pairs,
        family: judged.family,
        p_adjusted: judged.adjusted,
        would_see_percent: percent_above_one(judged.would_see),
        control: judged.control.map(|control| AaControl {
            pairs: control.pairs,
            ratio: ratio(control.log),
            spread_percent: control.spread.exp_m1() * 100.0,
        }),
        between_boots_percent: split(&groups)
            .and_then(|split| split.share_between())
            .map(|share| share * 100.0),
        failures,
    }
}

/// The Boots of a Side; of an A/A pair both are the base's.
pub(super) fn of_side(pairs: &[TimedPair], side: Side) -> impl Iterator<Item = &TimedBoot> {
    let of_pair = move |pair: &'_ TimedPair| match (side, pair.is_control) {
        (Side::Base, true) => vec![Side::Base, Side::Change],
        (Side::Change, true) => Vec::new(),
        (side, false) => vec![side],
    };
    pairs.iter().flat_map(move |pair| of_pair(pair).into_iter().map(|place| pair.boots.get(place)))
}

fn failures<'a>(
    side: Side,
    boots: impl Iterator<Item = &'a TimedBoot>,
    row: &str,
) -> Option<TimedFailure> {
    let mut failed = boots.filter_map(|boot| boot.runs.get(row)?.failure.as_ref());
    let failure = failed.next()?.clone();
    Some(TimedFailure { side, boots: 1 + failed.count(), failure })
}

/// Whether so many Boots of a Side have no times that those which have are no fair sample.
fn failed_often<'a, B>(failures: &[TimedFailure], boots: impl Fn(Side) -> B) -> bool
where
    B: Iterator<Item = &'a TimedBoot>,
{
    failures.iter().any(|failed| is_too_many(failed.boots, boots(failed.side).count()))
}

pub(super) fn is_too_many(failed: usize, of: usize) -> bool {
    failed as f64 > MOST_FAILED * of as f64
}

/// The first fact in which a pair's two Boots did different work.
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

fn ratio(log: Interval) -> Ratio {
    let high = log.high.exp();
    let (estimate, low) = (log.estimate.exp(), log.low.exp());
    Ratio { estimate, low, high: high.is_finite().then_some(high) }
}

fn percent_above_one(ratio: f64) -> Option<f64> {
    ratio.is_finite().then_some((ratio - 1.0) * 100.0)
}

fn reason(why: Why) -> String {
    match why {
        Why::TooFewPairs => {
            format!("fewer than {MIN_PAIRS} pairs, or too few for an interval; measure more")
        }
        Why::TooFewControls => format!("fewer than {MIN_CONTROLS} A/A pairs; measure more"),
        Why::ControlOff => {
            "base against base differs: the machine favours one place; look at the warnings".into()
        }
        Why::ControlWide => {
            "base against base differs by more than 20 % from pair to pair; quieten the machine"
                .into()
        }
        Why::NotFinite => "a time that is no number".into(),
    }
}
