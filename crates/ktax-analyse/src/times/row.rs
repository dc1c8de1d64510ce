//! One row of timed pairs.

use super::boots::{is_too_many, of_side, times, value};
use ktax_model::{
    AaControl, Evidence, PairRatio, Ratio, Row, RowFailure, Side, Sides, TimedBoot, TimedPair,
    TimesEvidence, Verdict, Workload,
};
use ktax_stats::timed::{
    Detection, Interval, MIN_CONTROLS, MIN_PAIRS, TrialRow, Why, log_ratio, median, split,
};

pub(super) fn row(
    workload: &Workload,
    judged: &TrialRow,
    headline: bool,
    pairs: &[TimedPair],
    unfit: Option<&str>,
) -> Row {
    let name = &workload.row;
    let boots = |side: Side| of_side(pairs, side);
    let failures = Side::BOTH.into_iter().filter_map(|side| failures(side, pairs, name));
    let failures: Vec<RowFailure> = failures.collect();
    let ns = |side| median(&boots(side).filter_map(|boot| value(boot, name)).collect::<Vec<_>>());
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
        (Detection::Inconclusive(why), None) => (no_answer(why), Some(reason(why))),
    };
    let log_loops: Vec<Vec<f64>> = boots(Side::Base)
        .filter_map(|boot| times(boot, name))
        .map(|loops| loops.iter().map(|ns| ns.ln()).collect())
        .collect();
    let groups: Vec<&[f64]> = log_loops.iter().map(Vec::as_slice).collect();
    let evidence = TimesEvidence {
        ns,
        ratio: (judged.pairs > 0).then(|| ratio(judged.log)),
        pairs: judged.pairs,
        family: judged.family,
        p_adjusted: judged.adjusted,
        detectable_percent: percent_above_one(judged.detectable),
        control: judged.control.map(|control| AaControl {
            pairs: control.pairs,
            ratio: ratio(control.log),
            spread_percent: control.spread.exp_m1() * 100.0,
        }),
        between_boots_percent: split(&groups)
            .and_then(|split| split.share_between())
            .map(|share| share * 100.0),
        series: series(pairs, name),
    };
    let row = Row::of(workload, verdict, Evidence::Times(evidence));
    Row { headline, reason: why, failures, ..row }
}

/// The log-ratio of a pair, if both its Boots have times of the row.
pub(super) fn log_ratio_of(pair: &TimedPair, row: &str) -> Option<f64> {
    let loops = |side| times(pair.boots.get(side), row).unwrap_or_default();
    log_ratio(loops(Side::Base), loops(Side::Change))
}

/// The ratios of the pairs that have one, in the order of time.
fn series(pairs: &[TimedPair], row: &str) -> Vec<PairRatio> {
    let of_pair = |pair: &TimedPair| {
        let ratio = log_ratio_of(pair, row)?.exp();
        Some(PairRatio { pair: pair.index, ratio, is_control: pair.is_control })
    };
    pairs.iter().filter_map(of_pair).collect()
}

/// Too little was measured, or the machine is not fit to measure.
fn no_answer(why: Why) -> Verdict {
    match why {
        Why::TooFewPairs | Why::TooFewControls => Verdict::TooFewBoots,
        Why::ControlOff | Why::ControlWide | Why::NotFinite => Verdict::Inconclusive,
    }
}

fn failures(side: Side, pairs: &[TimedPair], row: &str) -> Option<RowFailure> {
    let failure = |boot: &TimedBoot| boot.runs.get(row)?.failure.clone();
    let mut failed = pairs.iter().flat_map(|pair| {
        let boots = of_side(std::slice::from_ref(pair), side);
        boots.filter_map(failure).map(|failure| (pair.index, failure)).collect::<Vec<_>>()
    });
    let (index, failure) = failed.next()?;
    let boots = 1 + failed.count();
    Some(RowFailure { boot: format!("pair {index}"), side, boots, failure })
}

/// Whether so many Boots of a Side have no times that those which have are no fair sample.
fn failed_often<'a, B>(failures: &[RowFailure], boots: impl Fn(Side) -> B) -> bool
where
    B: Iterator<Item = &'a TimedBoot>,
{
    failures.iter().any(|failed| is_too_many(failed.boots, boots(failed.side).count()))
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
