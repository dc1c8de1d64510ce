//! One Metric between the Sides, over Layouts.

use ktax_model::{Effect, Sides, Verdict};
use ktax_stats::exact::{Decision, judge};
use ktax_stats::tables::change_percent;

/// The values of one Metric, by Layout: those of a pair stand at the same place.
pub(super) struct Values<'a> {
    /// The Metric's name.
    pub metric: &'a str,
    /// Raw counts.
    pub samples: Sides<Vec<u64>>,
    /// Which Layout each pair is of.
    pub layouts: Vec<usize>,
    /// Operations that a raw count is of.
    pub ops: u64,
}

/// The Effect; `None` without pairs. `relevant` is the smallest difference of raw counts that
/// matters, where the median is that pair's.
///
/// The rule sees raw counts, so that ties are ties; what is stored is per operation. Base, change
/// and delta are those of the one Layout that has the median delta, so that they, and the functions
/// of that Layout, add up: a median of each Side by itself would not.
pub(super) fn effect(values: Values<'_>, relevant: impl Fn(usize) -> f64) -> Option<Effect> {
    let Values { metric, samples, layouts, ops } = values;
    let found = judge(&floats(&samples.base), &floats(&samples.change), relevant)?;
    let per_op = |value: f64| value / ops as f64;
    let base = samples.base[found.median] as f64;
    let change = samples.change[found.median] as f64;
    Some(Effect {
        metric: metric.to_owned(),
        base: per_op(base),
        change: per_op(change),
        delta: per_op(change - base),
        percent: change_percent(base, change),
        layout: layouts[found.median],
        delta_range: (per_op(found.least), per_op(found.most)),
        spread: per_op(found.noise),
        detectable: found.detectable().map(per_op),
        samples,
        verdict: verdict(found.decision),
        functions: Vec::new(),
        paths: Vec::new(),
    })
}

/// What a decision means for readers.
pub(super) fn verdict(decision: Decision) -> Verdict {
    match decision {
        Decision::Slower => Verdict::Slower,
        Decision::Faster => Verdict::Faster,
        Decision::Small => Verdict::BelowThreshold,
        Decision::Same | Decision::Undetected => Verdict::NoDetectedChange,
        Decision::TooFew => Verdict::TooFewBoots,
    }
}

fn floats(counts: &[u64]) -> Vec<f64> {
    counts.iter().map(|count| *count as f64).collect()
}
