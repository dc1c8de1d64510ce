//! Steps in the cost of a row over a series of kernels.
//!
//! Each point is compared with the *anchor*, the point of the last step, so that many small changes
//! in one direction become a step once their sum reaches the threshold. Neighbours would hide it.

use crate::counts::function_deltas;
use crate::effect::{EffectValues, effect};
use ktax_model::{
    AnchorDifference, History, METRICS, Measurement, Metric, PreviousDifference, Profile, Sides,
    StepFunction, Verdict,
};
use ktax_run::rundir::profile;
use ktax_stats::exact::judge;
use ktax_stats::tables::checked_percent_change;

/// Maximum number of functions that are kept for a step.
const MAX_FUNCTIONS: usize = 5;

/// Counts of a row on one kernel; each vector has one entry for each Layout.
#[derive(Debug, Clone, PartialEq)]
pub struct PointCounts {
    /// Counts of all operations.
    pub raw: Vec<u64>,
    /// Counts of all work; the threshold is a share of these.
    pub whole: Vec<u64>,
    /// Work signature of the workload, as text.
    pub signature: String,
}

/// Compares each point with its anchor; `None` for the first point.
pub fn anchor_differences(
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

/// Compares each point with the previous point; `None` for the first point.
pub fn previous_differences(
    points: &[PointCounts],
    ops: u64,
    threshold_percent: f64,
) -> Vec<Option<PreviousDifference>> {
    let compared = |pair: &[PointCounts]| compare(&pair[0], &pair[1], ops, threshold_percent);
    let first = points.iter().take(1).map(|_| None);
    first.chain(points.windows(2).map(|pair| Some(compared(pair)))).collect()
}

/// Adds to a result of an older release the comparison of each point with the previous point. The
/// result must have the counts that the threshold is a share of, so only the first metric and
/// single functions get the comparison.
pub fn add_previous_differences(history: &mut History) {
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
        let differences = previous_differences(&counts, line.ops, threshold_percent);
        for (index, (point, before)) in line.points.iter_mut().zip(differences).enumerate() {
            point.previous_difference = before;
            if let Some(against) = &mut point.anchor_difference {
                let base = counts.get(against.anchor);
                let found =
                    base.map(|base| compare(base, &counts[index], line.ops, threshold_percent));
                against.detectable_percent = found.and_then(|found| found.detectable_percent);
            }
            // These results have no work signatures; only the stored verdict says whether the work
            // differs.
            let anchor_verdict = point.anchor_difference.as_ref().map(|found| found.verdict);
            if let (Some(before), Some(Verdict::DifferentWork)) =
                (&mut point.previous_difference, anchor_verdict)
            {
                before.verdict = Verdict::DifferentWork;
            }
        }
    }
}

/// Functions that carry most of the difference between two measurements of one row, under the
/// Layout with the median delta; the largest difference first.
pub fn step_functions(
    base: &Measurement,
    change: &Measurement,
    ops: u64,
    metric: &Metric,
) -> Vec<StepFunction> {
    let values = |measurement: &Measurement| -> Vec<f64> {
        measurement.layouts.iter().map(|layout| metric.raw_count(&layout.sample) as f64).collect()
    };
    let Some(judged) = judge(&values(base), &values(change), |_| 0.0) else { return Vec::new() };
    let read = |measurement: &Measurement| Profile {
        lines: measurement.layouts[judged.median]
            .profile
            .lines()
            .filter_map(profile::parse_function_line)
            .collect(),
        ..Profile::default()
    };
    let deltas = function_deltas(&read(base), &read(change), ops, metric);
    let functions = deltas.into_iter().map(|delta| StepFunction {
        delta: if metric.name == METRICS[1].name { delta.rep_delta } else { delta.delta },
        function: delta.function,
    });
    functions.filter(|function| function.delta != 0.0).take(MAX_FUNCTIONS).collect()
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
    let verdict = |verdict| if is_same_work { verdict } else { Verdict::DifferentWork };
    match effect(values, relevant) {
        None => PreviousDifference {
            verdict: verdict(Verdict::TooFewBoots),
            delta: 0.0,
            percent: None,
            detectable_percent: None,
        },
        Some(found) => PreviousDifference {
            verdict: verdict(found.verdict),
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

    /// A point with five layouts, whose counts are 5 apart.
    fn point(cost: u64) -> PointCounts {
        let raw: Vec<u64> = (0..5).map(|layout| cost + 5 * layout).collect();
        PointCounts { whole: raw.clone(), raw, signature: "[]".to_owned() }
    }

    fn steps(costs: &[u64]) -> Vec<usize> {
        let points: Vec<PointCounts> = costs.iter().map(|cost| point(*cost)).collect();
        let all = anchor_differences(&points, 1, 0.1);
        all.iter()
            .enumerate()
            .filter(|(_, against)| against.as_ref().is_some_and(AnchorDifference::is_step))
            .map(|(index, _)| index)
            .collect()
    }

    #[test]
    fn a_drift_of_changes_below_the_threshold_is_found() {
        // +0.06 % each: no two neighbours differ by the threshold of 0.1 %.
        let costs: Vec<u64> = (0..12).map(|step| 1_000_000 + 600 * step).collect();
        assert_eq!(steps(&costs), [2, 4, 6, 8, 10]);
        for neighbours in costs.windows(2) {
            assert!(steps(neighbours).is_empty());
        }
    }

    #[test]
    fn a_step_up_and_back_is_two_steps() {
        assert_eq!(steps(&[100_000, 100_000, 108_000, 108_000, 100_000]), [2, 4]);
        let points = [100_000, 108_000, 108_010].map(point);
        let all = anchor_differences(&points, 10, 0.1);
        let first = all[1].clone().unwrap();
        assert_eq!((first.anchor, first.verdict, first.delta), (0, Verdict::Slower, 800.0));
        assert_eq!(all[2].clone().unwrap().anchor, 1);
    }

    #[test]
    fn different_work_is_a_new_anchor_and_one_layout_is_too_few() {
        let other = PointCounts { signature: "[1]".to_owned(), ..point(100_000) };
        let all = anchor_differences(&[point(100_000), other.clone(), other], 1, 0.1);
        assert_eq!(all[1].clone().unwrap().verdict, Verdict::DifferentWork);
        assert_eq!(all[2].clone().unwrap().verdict, Verdict::NoDetectedChange);
        let few = |cost: u64| PointCounts { raw: vec![cost], whole: vec![cost], ..point(cost) };
        let all = anchor_differences(&[few(100), few(200)], 1, 0.1);
        assert_eq!(all[1].clone().unwrap().verdict, Verdict::TooFewBoots);
    }

    #[test]
    fn each_point_is_compared_with_the_previous_one_and_has_a_detectable_change() {
        let points = [100_000, 108_000, 108_010].map(point);
        let all = previous_differences(&points, 10, 0.1);
        assert_eq!(all[0], None);
        let up = all[1].clone().unwrap();
        assert_eq!((up.verdict, up.delta, up.percent), (Verdict::Slower, 800.0, Some(8.0)));
        let same = all[2].clone().unwrap();
        assert_eq!(same.verdict, Verdict::NoDetectedChange);
        assert!(same.detectable_percent.is_some_and(|least| (0.05..0.2).contains(&least)));
        assert!(previous_differences(&[], 1, 0.1).is_empty());
    }

    proptest! {
        #[test]
        fn equal_points_have_no_steps(cost in 1_000_u64..10_000_000) {
            prop_assert!(steps(&[cost; 50]).is_empty());
        }
    }
}
