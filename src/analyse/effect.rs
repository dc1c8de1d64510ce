//! One Metric between the Sides.

use crate::model::{Effect, Metric, Side, Sides, Verdict};
use crate::stats::exact::{Decision, judge};
use crate::stats::tables::change_percent;

use super::gather::Pair;

/// The Effect; `None` without pairs.
///
/// The rule sees raw counts, so that ties are ties; what is stored is per operation. Base, change
/// and delta are those of the one Layout that has the median delta, so that they, and the functions
/// of that Layout, add up: a median of each Side by itself would not.
pub(super) fn effect(
    metric: &Metric,
    pairs: &[Pair],
    ops: u64,
    threshold_percent: f64,
) -> Option<Effect> {
    let raw = |side| -> Vec<u64> {
        pairs.iter().map(|pair| metric.raw(pair.samples.get(side))).collect()
    };
    let samples = Sides { base: raw(Side::Base), change: raw(Side::Change) };
    let relevant =
        |pair: usize| threshold_percent / 100.0 * metric.whole(&pairs[pair].samples.base) as f64;
    let found = judge(&floats(&samples.base), &floats(&samples.change), relevant)?;
    let per_op = |value: f64| value / ops as f64;
    let base = samples.base[found.median] as f64;
    let change = samples.change[found.median] as f64;
    Some(Effect {
        metric: metric.name.to_owned(),
        base: per_op(base),
        change: per_op(change),
        delta: per_op(change - base),
        percent: change_percent(base, change),
        layout: pairs[found.median].layout,
        delta_range: (per_op(found.least), per_op(found.most)),
        spread: per_op(found.noise),
        detectable: per_op(found.detectable),
        samples,
        verdict: verdict(found.decision),
        functions: Vec::new(),
    })
}

fn verdict(decision: Decision) -> Verdict {
    match decision {
        Decision::Slower => Verdict::Slower,
        Decision::Faster => Verdict::Faster,
        Decision::Same | Decision::Undetected => Verdict::NoDetectedChange,
        Decision::TooFew => Verdict::TooFewBoots,
    }
}

fn floats(counts: &[u64]) -> Vec<f64> {
    counts.iter().map(|count| *count as f64).collect()
}
