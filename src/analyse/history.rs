//! Where the cost of a row steps over kernels.
//!
//! Each point is compared with the *anchor*, the last point that the cost had stepped to, and not
//! with its neighbour: many small changes in one direction are a step once their sum is one.

use super::effect::{Values, effect};
use crate::model::{AgainstAnchor, Sides, Verdict};

/// A point as the rule needs it; every slice has one entry for each Layout.
#[derive(Debug, Clone, PartialEq)]
pub struct PointCounts {
    /// The counts of all operations.
    pub raw: Vec<u64>,
    /// What a difference has to be a share of to matter.
    pub whole: Vec<u64>,
    /// What the workload says it did.
    pub signature: String,
}

/// Each point against its anchor; `None` of the first.
pub fn against_anchors(
    points: &[PointCounts],
    ops: u64,
    threshold_percent: f64,
) -> Vec<Option<AgainstAnchor>> {
    let mut anchor = 0;
    let mut all = Vec::with_capacity(points.len());
    for (at, point) in points.iter().enumerate() {
        let against = (at > 0).then(|| {
            let found = compare(&points[anchor], point, ops, threshold_percent);
            AgainstAnchor { anchor, ..found }
        });
        if against.as_ref().is_some_and(AgainstAnchor::is_step) {
            anchor = at;
        }
        all.push(against);
    }
    all
}

/// The rule that judges the sides of a comparison.
fn compare(
    base: &PointCounts,
    change: &PointCounts,
    ops: u64,
    threshold_percent: f64,
) -> AgainstAnchor {
    let values = Values {
        metric: "",
        samples: Sides { base: base.raw.clone(), change: change.raw.clone() },
        layouts: (0..base.raw.len()).collect(),
        ops,
    };
    let relevant = |at: usize| threshold_percent / 100.0 * base.whole[at] as f64;
    let (verdict, delta, percent) = match effect(values, relevant) {
        None => (Verdict::TooFewBoots, 0.0, None),
        Some(found) => (found.verdict, found.delta, found.percent),
    };
    let is_same_work = base.signature == change.signature;
    let verdict = if is_same_work { verdict } else { Verdict::DifferentWork };
    AgainstAnchor { anchor: 0, verdict, delta, percent }
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
            .filter(|(_, it)| it.as_ref().is_some_and(AgainstAnchor::is_step))
            .map(|(at, _)| at)
            .collect()
    }

    #[test]
    fn a_creep_below_the_threshold_is_found_and_neighbours_would_not_find_it() {
        // +0.06 % each: no two neighbours differ by the threshold of 0.1 %.
        let costs: Vec<u64> = (0..12).map(|at| 1_000_000 + 600 * at).collect();
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

    proptest! {
        /// Fifty equal kernels, whose layouts differ alike: nothing steps.
        #[test]
        fn equals_never_step(cost in 1_000_u64..10_000_000) {
            prop_assert!(steps(&[cost; 50]).is_empty());
        }
    }
}
