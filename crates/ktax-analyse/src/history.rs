//! Steps in the cost of a row over kernels.
//!
//! Each point is compared with the *anchor*, the last point that the cost had stepped to, and not
//! with its neighbour: many small changes in one direction are a step once their sum is one.

use crate::counts::function_deltas;
use crate::effect::{EffectValues, effect};
use ktax_model::{
    AnchorDifference, History, METRICS, Measurement, Metric, PreviousDifference, Profile, Sides,
    StepFunction, Verdict,
};
use ktax_run::rundir::profile;
use ktax_stats::exact::judge;
use ktax_stats::tables::checked_percent_change;

/// Most functions of a step that are kept.
const MOST_FUNCTIONS: usize = 5;

/// A point as the rule needs it; every slice has one entry for each Layout.
#[derive(Debug, Clone, PartialEq)]
pub struct PointCounts {
    /// Counts of all operations.
    pub raw: Vec<u64>,
    /// Counts that the threshold is a share of.
    pub whole: Vec<u64>,
    /// Work signature of the workload, as text.
    pub signature: String,
}

/// Each point against its anchor; `None` for the first.
pub fn against_anchors(
    points: &[PointCounts],
    ops: u64,
    threshold_percent: f64,
) -> Vec<Option<AnchorDifference>> {
    let mut anchor = 0;
    let mut differences = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        let against = (index > 0).then(|| {
            let found = compare(&points[anchor], point, ops, threshold_percent);
            let PreviousDifference { verdict, delta, percent, detectable_percent } = found;
            AnchorDifference { anchor, verdict, delta, percent, detectable_percent }
        });
        if against.as_ref().is_some_and(AnchorDifference::is_step) {
            anchor = index;
        }
        differences.push(against);
    }
    differences
}

/// Each point against the one before it; `None` for the first.
pub fn against_before(
    points: &[PointCounts],
    ops: u64,
    threshold_percent: f64,
) -> Vec<Option<PreviousDifference>> {
    let compared = |pair: &[PointCounts]| compare(&pair[0], &pair[1], ops, threshold_percent);
    let first = points.iter().take(1).map(|_| None);
    first.chain(points.windows(2).map(|pair| Some(compared(pair)))).collect()
}

/// Adds what results of older releases lack: each point against the one before it. A metric whose
/// threshold is a share of other counts stays without.
pub fn complete(history: &mut History) {
    if history.function.is_none() && history.metric != METRICS[0].name {
        return;
    }
    for line in &mut history.lines {
        if line.points.iter().any(|point| point.previous_difference.is_some()) {
            continue;
        }
        let counts = line.points.iter().map(|point| PointCounts {
            raw: point.values.clone(),
            whole: point.values.clone(),
            signature: String::new(),
        });
        let counts: Vec<PointCounts> = counts.collect();
        let threshold_percent = history.threshold_percent;
        let differences = against_before(&counts, line.ops, threshold_percent);
        for (index, (point, before)) in line.points.iter_mut().zip(differences).enumerate() {
            point.previous_difference = before;
            if let Some(against) = &mut point.anchor_difference {
                let base = counts.get(against.anchor);
                let found =
                    base.map(|base| compare(base, &counts[index], line.ops, threshold_percent));
                against.detectable_percent = found.and_then(|found| found.detectable_percent);
            }
            // If a result has no work signatures, only the verdict against the anchor detects
            // different work.
            let against = point.anchor_difference.as_ref().map(|against| against.verdict);
            if let (Some(before), Some(Verdict::DifferentWork)) =
                (&mut point.previous_difference, against)
            {
                before.verdict = Verdict::DifferentWork;
            }
        }
    }
}

/// Functions that carry most of the difference between two measurements of one row, in the layout
/// with the median delta; the largest first.
pub fn step_functions(
    base: &Measurement,
    change: &Measurement,
    ops: u64,
    metric: &Metric,
) -> Vec<StepFunction> {
    let values = |measurement: &Measurement| -> Vec<f64> {
        measurement.layouts.iter().map(|layout| metric.raw_count(&layout.sample) as f64).collect()
    };
    let Some(found) = judge(&values(base), &values(change), |_| 0.0) else { return Vec::new() };
    let read = |measurement: &Measurement| Profile {
        lines: measurement.layouts[found.median]
            .profile
            .lines()
            .filter_map(profile::parse_function_line)
            .collect(),
        ..Profile::default()
    };
    let deltas = function_deltas(&read(base), &read(change), ops, metric);
    let carried = deltas.into_iter().map(|delta| StepFunction {
        delta: if metric.name == METRICS[1].name { delta.rep_delta } else { delta.delta },
        function: delta.function,
    });
    carried.filter(|carried| carried.delta != 0.0).take(MOST_FUNCTIONS).collect()
}

/// Compares two points by the rule that judges the sides of a comparison.
fn compare(
    base: &PointCounts,
    change: &PointCounts,
    ops: u64,
    threshold_percent: f64,
) -> PreviousDifference {
    let values = EffectValues {
        metric: "",
        samples: Sides { base: base.raw.clone(), change: change.raw.clone() },
        layouts: (0..base.raw.len()).collect(),
        ops,
    };
    let relevant = |pair: usize| threshold_percent / 100.0 * base.whole[pair] as f64;
    let is_same_work = base.signature == change.signature;
    let judged = |verdict| if is_same_work { verdict } else { Verdict::DifferentWork };
    match effect(values, relevant) {
        None => PreviousDifference {
            verdict: judged(Verdict::TooFewBoots),
            delta: 0.0,
            percent: None,
            detectable_percent: None,
        },
        Some(found) => PreviousDifference {
            verdict: judged(found.verdict),
            delta: found.delta,
            percent: found.percent,
            detectable_percent: found
                .detectable
                .and_then(|detectable| checked_percent_change(found.base, found.base + detectable)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Five layouts that lie 20 apart, around a cost.
    fn point(cost: u64) -> PointCounts {
        let raw: Vec<u64> = (0..5).map(|layout| cost + 5 * layout).collect();
        PointCounts { whole: raw.clone(), raw, signature: "[]".to_owned() }
    }

    fn steps(costs: &[u64]) -> Vec<usize> {
        let points: Vec<PointCounts> = costs.iter().map(|cost| point(*cost)).collect();
        let all = against_anchors(&points, 1, 0.1);
        all.iter()
            .enumerate()
            .filter(|(_, against)| against.as_ref().is_some_and(AnchorDifference::is_step))
            .map(|(place, _)| place)
            .collect()
    }

    #[test]
    fn a_creep_below_the_threshold_is_found_and_neighbours_would_not_find_it() {
        // +0.06 % each: no two neighbours differ by the threshold of 0.1 %.
        let costs: Vec<u64> = (0..12).map(|step| 1_000_000 + 600 * step).collect();
        assert_eq!(steps(&costs), [2, 4, 6, 8, 10]);
        for two in costs.windows(2) {
            assert!(steps(two).is_empty());
        }
    }

    #[test]
    fn a_step_up_and_back_is_two() {
        assert_eq!(steps(&[100_000, 100_000, 108_000, 108_000, 100_000]), [2, 4]);
        let points = [100_000, 108_000, 108_010].map(point);
        let all = against_anchors(&points, 10, 0.1);
        let first = all[1].clone().unwrap();
        assert_eq!((first.anchor, first.verdict, first.delta), (0, Verdict::Slower, 800.0));
        assert_eq!(all[2].clone().unwrap().anchor, 1);
    }

    #[test]
    fn other_work_begins_a_new_level_and_few_layouts_decide_nothing() {
        let other = PointCounts { signature: "[1]".to_owned(), ..point(100_000) };
        let all = against_anchors(&[point(100_000), other.clone(), other], 1, 0.1);
        assert_eq!(all[1].clone().unwrap().verdict, Verdict::DifferentWork);
        assert_eq!(all[2].clone().unwrap().verdict, Verdict::NoDetectedChange);
        let few = |cost: u64| PointCounts { raw: vec![cost], whole: vec![cost], ..point(cost) };
        let all = against_anchors(&[few(100), few(200)], 1, 0.1);
        assert_eq!(all[1].clone().unwrap().verdict, Verdict::TooFewBoots);
    }

    #[test]
    fn each_point_is_compared_with_the_one_before_it_and_says_what_would_have_been_seen() {
        let points = [100_000, 108_000, 108_010].map(point);
        let all = against_before(&points, 10, 0.1);
        assert_eq!(all[0], None);
        let up = all[1].clone().unwrap();
        assert_eq!((up.verdict, up.delta, up.percent), (Verdict::Slower, 800.0, Some(8.0)));
        let same = all[2].clone().unwrap();
        assert_eq!(same.verdict, Verdict::NoDetectedChange);
        assert!(same.detectable_percent.is_some_and(|least| (0.05..0.2).contains(&least)));
        assert!(against_before(&[], 1, 0.1).is_empty());
    }

    proptest! {
        /// Nothing steps between fifty equal kernels whose layouts differ alike.
        #[test]
        fn equals_never_step(cost in 1_000_u64..10_000_000) {
            prop_assert!(steps(&[cost; 50]).is_empty());
        }
    }
}
