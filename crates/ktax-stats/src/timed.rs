//! Timed pairs: the order of the pairs, the stopping rule, and the verdicts.
//!
//! A pair is two fresh Boots, one of each Side, which follow each other in time in random order.
//! Its value is `ln(change / base)`, where each is the median of the Boot's loops ([`log_ratio`]).
//! Some pairs are A/A pairs, in which both Boots are of the base. METHODOLOGY.md describes how
//! verdicts are reached and how often they are wrong; formulas are in the modules that compute
//! them. This module has the order of a run, log-ratios, and estimates of spread.
//!
//! A slow drift, or a second Boot that is always faster than the first, must not look like an
//! effect. So the order within each pair is random. In an A/A pair one Boot has the role of the
//! change, and the order is random as well.
//!
//! A caller with several rows asks [`Trial::next`] after each pair, and judges the rows at the end:
//!
//! ```
//! use ktax_stats::timed::{Detection, NextStep, PairOrder, RowPairs, Rules, Trial, log_ratio};
//!
//! // Loop times of a Boot in ns, one list for each row. In the change `fork` costs 3 % more.
//! let boot = |number: usize, is_change: bool| {
//!     let noise = 1.0 + 0.001 * (number * 7919 % 13) as f64;
//!     let cost = if is_change { 1.03 } else { 1.0 };
//!     [vec![200.0 * noise; 3], vec![50_000.0 * noise * cost; 3]]
//! };
//! let trial = Trial::new(Rules::default(), 2);
//! let (mut pairs, mut controls) = ([vec![], vec![]], [vec![], vec![]]);
//! for (number, slot) in PairOrder::new(42).enumerate() {
//!     // In a control, the Boot in the role of the change is of the base, too.
//!     let [mut first, mut second] = [false, !slot.is_control];
//!     if slot.change_first {
//!         (first, second) = (second, first);
//!     }
//!     let (mut base, mut change) = (boot(2 * number, first), boot(2 * number + 1, second));
//!     if slot.change_first {
//!         (base, change) = (change, base);
//!     }
//!     let list = if slot.is_control { &mut controls } else { &mut pairs };
//!     for row in 0..2 {
//!         list[row].extend(log_ratio(&base[row], &change[row]));
//!     }
//!     let rows = [0, 1].map(|row| RowPairs { pairs: &pairs[row], controls: &controls[row] });
//!     if !matches!(trial.next(&rows), NextStep::RunPair { .. }) {
//!         let judged = trial.judge(&rows, &[]);
//!         let [getppid, fork] = &judged.headline[..] else { unreachable!() };
//!         assert_eq!(getppid.verdict, Detection::NotDetected);
//!         assert_eq!(fork.verdict, Detection::Up);
//!         assert!(fork.ratio().low < 1.03 && 1.03 < fork.ratio().high);
//!         break;
//!     }
//! }
//! ```

mod signed_rank;
mod trial;

pub use signed_rank::{Interval, SignedRank};
pub use trial::{
    Control, Detection, InconclusiveReason, JudgedRows, Looks, MIN_CONTROLS, MIN_PAIRS, NextStep,
    RowPairs, Rules, Trial, TrialRow, benjamini_hochberg, holm,
};

use std::collections::VecDeque;

use super::random::Random;
use crate::tables::median;

#[cfg(test)]
use super::random;

#[cfg(test)]
mod noise;

/// Number of pairs after the pilot of which one is an A/A pair.
const CONTROL_INTERVAL: usize = 6;

/// Kind and order of one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairSlot {
    /// True for an A/A pair: both Boots are of the base, and one has the role of the change.
    pub is_control: bool,
    /// True if the Boot of the change, or the Boot in its role, runs first.
    pub change_first: bool,
}

/// PairOrder of the pairs of a run, an endless iterator. Equal seeds give equal orders, so that a
/// run can be resumed.
///
/// The first [`MIN_PAIRS`] + [`MIN_CONTROLS`] pairs are the pilot. After the pilot, one of every
/// six pairs is an A/A pair, at a random position among the six.
#[derive(Debug, Clone)]
pub struct PairOrder {
    random: Random,
    block: VecDeque<PairSlot>,
    is_past_pilot: bool,
}

impl PairOrder {
    /// PairOrder with this seed.
    pub fn new(seed: u64) -> PairOrder {
        PairOrder { random: Random::new(seed), block: VecDeque::new(), is_past_pilot: false }
    }

    /// Draws the slots of the pilot, or of the next six pairs.
    fn draw_block(&mut self) {
        let (pairs, controls) =
            if self.is_past_pilot { (CONTROL_INTERVAL - 1, 1) } else { (MIN_PAIRS, MIN_CONTROLS) };
        self.is_past_pilot = true;
        let mut kinds = vec![false; pairs];
        kinds.resize(pairs + controls, true);
        // Fisher-Yates shuffle.
        for last in (1..kinds.len()).rev() {
            kinds.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        for is_control in kinds {
            self.block.push_back(PairSlot { is_control, change_first: self.random.coin() });
        }
    }
}

impl Iterator for PairOrder {
    type Item = PairSlot;

    fn next(&mut self) -> Option<PairSlot> {
        if self.block.is_empty() {
            self.draw_block();
        }
        self.block.pop_front()
    }
}

/// Maximum number of pairs of both kinds in an order until `pairs` of them are not A/A pairs.
pub fn max_pairs_for(pairs: usize) -> usize {
    let after_pilot = pairs.saturating_sub(MIN_PAIRS);
    pairs + MIN_CONTROLS + after_pilot.div_ceil(CONTROL_INTERVAL - 1)
}

/// `ln(change / base)` of a pair of Boots, where each is the median of the Boot's loops. `None` if
/// a Boot has no loops, or if a median is not positive and finite.
pub fn log_ratio(base: &[f64], change: &[f64]) -> Option<f64> {
    let is_positive = |value: &f64| *value > 0.0 && value.is_finite();
    let base = median(base).filter(is_positive)?;
    let change = median(change).filter(is_positive)?;
    Some((change / base).ln())
}

/// Robust estimate of the standard deviation within groups, which may have different centres: the
/// median distance of two values of a group (Shamos 1976), scaled for normal values. It tolerates
/// outliers in up to 29 % of the values. For normal values its efficiency is 86 % of that of the
/// usual formula. `None` if no group has two values.
pub fn shamos(groups: &[&[f64]]) -> Option<f64> {
    let mut distances = Vec::new();
    for group in groups {
        for (index, value) in group.iter().enumerate() {
            distances.extend(group[index + 1..].iter().map(|other| (value - other).abs()));
        }
    }
    // Median distance of two standard normal values: sqrt(2) times the upper quartile.
    const NORMAL: f64 = std::f64::consts::SQRT_2 * 0.674_489_750_196_081_7;
    median(&distances).map(|distance| distance / NORMAL)
}

/// Components of the variance of values in groups, such as loops in Boots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VarianceComponents {
    /// Variance between the groups.
    pub between_groups: f64,
    /// Variance within a group.
    pub within_groups: f64,
}

impl VarianceComponents {
    /// Share of the variance that is between groups. At 1, more loops do not make a result more
    /// precise, only more Boots do. `None` without variance.
    pub fn share_between(&self) -> Option<f64> {
        let total = self.between_groups + self.within_groups;
        (total > 0.0).then(|| self.between_groups / total)
    }
}

/// Estimates the components of variance of one-way random effects by the method of moments, for
/// groups of any sizes (Searle, Casella and McCulloch: Variance Components, 1992, 3.6). A negative
/// component becomes zero. For times, pass logarithms, so that the components describe the relative
/// spread. `None` for fewer than two groups, and if no group has two values.
pub fn variance_components(groups: &[&[f64]]) -> Option<VarianceComponents> {
    let groups: Vec<&[f64]> = groups.iter().copied().filter(|group| !group.is_empty()).collect();
    let count = groups.iter().map(|group| group.len()).sum::<usize>();
    if groups.len() < 2 || count == groups.len() {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let grand_mean =
        groups.iter().map(|group| group.iter().sum::<f64>()).sum::<f64>() / count as f64;
    let (mut between, mut within, mut sizes) = (0.0, 0.0, 0.0);
    for group in &groups {
        let (size, centre) = (group.len() as f64, mean(group));
        between += size * (centre - grand_mean).powi(2);
        within += group.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        sizes += size * size;
    }
    let freedom = (groups.len() - 1) as f64;
    let within = within / (count - groups.len()) as f64;
    let size = (count as f64 - sizes / count as f64) / freedom;
    let between_groups = ((between / freedom - within) / size).max(0.0);
    Some(VarianceComponents { between_groups, within_groups: within })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_need_at_most_max_pairs() {
        for (seed, pairs) in
            (1..20).flat_map(|seed| [1, 10, 12, 50, 200].map(|pairs| (seed, pairs)))
        {
            let mut found = 0;
            let drawn = PairOrder::new(seed).take_while(|slot| {
                let is_needed = found < pairs;
                found += usize::from(!slot.is_control);
                is_needed
            });
            let (drawn, max) = (drawn.count(), max_pairs_for(pairs));
            assert!(drawn <= max && max <= drawn + MIN_CONTROLS + 1, "{pairs}: {drawn}, {max}");
        }
    }

    #[test]
    fn after_the_pilot_one_pair_in_six_is_a_control() {
        let order: Vec<PairSlot> = PairOrder::new(3).take(18 + 600).collect();
        let controls = |slots: &[PairSlot]| slots.iter().filter(|slot| slot.is_control).count();
        assert_eq!(controls(&order[..18]), 8);
        assert!(order[18..].chunks(6).all(|block| controls(block) == 1));
        // The change is first in a random half: 255 of 510 pairs and 54 of 108 A/A pairs are
        // expected, ± six standard deviations.
        for (is_control, min, max) in [(false, 190, 320), (true, 25, 85)] {
            let slots = order.iter().filter(|slot| slot.is_control == is_control);
            let first = slots.filter(|slot| slot.change_first).count();
            assert!((min..max).contains(&first), "{first}");
        }
        // The position of the control in its block is random, too.
        let position = |block: &[PairSlot]| block.iter().position(|slot| slot.is_control);
        let positions: std::collections::HashSet<_> = order[18..].chunks(6).map(position).collect();
        assert_eq!(positions.len(), 6);
    }

    #[test]
    fn equal_seeds_give_equal_orders() {
        let slots = |seed| PairOrder::new(seed).take(50).collect::<Vec<_>>();
        assert_eq!(slots(1), slots(1));
        assert_ne!(slots(1), slots(2));
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-9
    }

    const GROUPS: [&[f64]; 4] =
        [&[1.0, 1.2, 0.9], &[1.5, 1.7], &[0.7, 0.8, 0.75, 0.9, 0.6], &[1.1]];

    #[test]
    fn log_ratios_are_those_of_medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        // Medians 2 and 4.
        assert!(near(log_ratio(&[2.0, 1.0, 90.0], &[4.0]).unwrap(), 2f64.ln()));
        for (base, change) in [(0.0, 1.0), (1.0, -1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            assert_eq!(log_ratio(&[base], &[change]), None);
        }
        assert_eq!(log_ratio(&[1.0], &[]), None);
    }

    #[test]
    fn variance_components_equal_those_from_scipy() {
        // tests/statistics/reference.py computes the expected values by scipy.stats.f_oneway.
        let found = variance_components(&GROUPS).unwrap();
        assert!(near(found.between_groups, 0.1333130081300813), "{found:?}");
        assert!(near(found.within_groups, 0.016666666666666666));
        assert!(near(found.share_between().unwrap(), 0.8888738311424312));
    }

    #[test]
    fn variance_may_be_only_between_or_only_within_groups() {
        let between = variance_components(&[&[1.0, 1.0], &[2.0, 2.0], &[4.0, 4.0]]).unwrap();
        assert_eq!((between.within_groups, between.share_between()), (0.0, Some(1.0)));
        let within = variance_components(&[&[1.0, 3.0], &[3.0, 1.0]]).unwrap();
        assert_eq!((within.between_groups, within.share_between()), (0.0, Some(0.0)));
        assert_eq!(variance_components(&[&[1.0, 1.0], &[1.0]]).unwrap().share_between(), None);
        assert_eq!(variance_components(&[&[1.0, 2.0], &[]]), None);
        assert_eq!(variance_components(&[&[1.0], &[2.0]]), None);
    }

    #[test]
    fn shamos_ignores_outliers_and_differences_between_groups() {
        // Expected value from numpy, with scipy's normal quartile.
        assert!(near(shamos(&GROUPS).unwrap(), 0.1572537123761296));
        assert_eq!(shamos(&[&[1.0], &[2.0]]), None);
        let mut random = crate::random::Random::new(1);
        let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let mut values: Vec<f64> = (0..200).map(|_| normal()).collect();
        assert!((shamos(&[&values]).unwrap() - 1.0).abs() < 0.15);
        values[..10].fill(1e6);
        assert!((shamos(&[&values]).unwrap() - 1.0).abs() < 0.25);
    }
}
