//! One Metric between the Sides over Layouts, and whether the Sides did the same work.

use ktax_model::{Effect, Failure, Sides, Signature, Verdict};
use ktax_stats::exact::{Decision, judge};
use ktax_stats::tables::change_percent;

/// Values of one Metric by Layout; those of a pair have equal indices.
pub(super) struct EffectValues<'a> {
    pub metric: &'a str,
    /// Raw counts.
    pub samples: Sides<Vec<u64>>,
    /// Layout of each pair.
    pub layouts: Vec<usize>,
    /// Operations that a raw count covers.
    pub ops: u64,
}

/// The Effect; `None` without pairs. `relevant` is the smallest difference of raw counts that
/// matters, if the median is that pair's.
///
/// The rule sees raw counts, so that ties are ties; stored values are per operation. Base, change
/// and delta are from the one Layout with the median delta, so that they, and that Layout's
/// functions, add up: a median of each Side by itself would not.
pub(super) fn effect(values: EffectValues<'_>, relevant: impl Fn(usize) -> f64) -> Option<Effect> {
    let EffectValues { metric, samples, layouts, ops } = values;
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
        verdict: verdict_of_decision(found.decision),
        functions: Vec::new(),
        paths: Vec::new(),
    })
}

/// Verdict that readers see for a decision.
pub(super) fn verdict_of_decision(decision: Decision) -> Verdict {
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

/// Differences of the work signatures, Layout by Layout: `faults 400 in base, 401 in change`. Every
/// entry counts, because none may legitimately differ. Equal differences in several Layouts are
/// given once.
pub(super) fn signature_differences<'a>(
    pairs: impl Iterator<Item = [&'a Signature; 2]>,
) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for [base, change] in pairs {
        for text in differing_entries(base, change) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    texts
}

fn differing_entries(base: &Signature, change: &Signature) -> Vec<String> {
    let only_in_change = change.keys().filter(|name| !base.contains_key(*name));
    let say = |value: Option<&u64>| value.map_or("missing".to_owned(), u64::to_string);
    base.keys()
        .chain(only_in_change)
        .map(|name| (name, base.get(name), change.get(name)))
        .filter(|(_, base, change)| base != change)
        .map(|(name, base, change)| {
            format!("{name} {} in base, {} in change", say(base), say(change))
        })
        .collect()
}

/// Failure of a Sample whose number of operations is not the planned one, by which it is divided.
pub(super) fn wrong_ops(found: u64, planned: u64) -> Failure {
    Failure::WrongWork { deviations: format!("operations {found}, expected {planned}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_entry_is_a_difference() {
        let signature = |entries: &[(&str, u64)]| -> Signature {
            entries.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let base = signature(&[("calls", 5), ("faults", 400), ("same", 1)]);
        let change = signature(&[("bytes", 9), ("faults", 401), ("same", 1)]);
        assert_eq!(
            differing_entries(&base, &change),
            [
                "calls 5 in base, missing in change",
                "faults 400 in base, 401 in change",
                "bytes missing in base, 9 in change",
            ]
        );
        assert!(differing_entries(&base, &base).is_empty());
    }
}
