//! Timed pairs: what runs next, when to stop, and what to say.
//!
//! A pair is two fresh Boots, one of each Side, next to each other in time and in randomized order;
//! its value is `ln(change / base)`, each the median of the Boot's loops ([`log_ratio`]). Some
//! pairs are A/A pairs: the base on both sides. METHODOLOGY.md says how verdicts are reached and
//! how often they are wrong; each formula is in the module that computes it. Here: the order of a
//! run, and what is computed of its values.
//!
//! A slow drift, or a second Boot that is always faster than the first, must not look like an
//! effect. So the order within each pair is random. A/A pairs run the base on both sides, one of
//! them in the change's place, in random order too.
//!
//! A caller with several rows asks after each pair, and judges when told to stop:
//!
//! ```
//! use ktax_stats::timed::{Next, Order, Pairs, Rules, Trial, Detection, log_ratio};
//!
//! // Loop times of a Boot in ns, one list for each row; here `fork` costs 3 % more in the change.
//! let boot = |number: usize, is_change: bool| {
//!     let noise = 1.0 + 0.001 * (number * 7919 % 13) as f64;
//!     let cost = if is_change { 1.03 } else { 1.0 };
//!     [vec![200.0 * noise; 3], vec![50_000.0 * noise * cost; 3]]
//! };
//! let trial = Trial::new(Rules::default(), 2);
//! let (mut pairs, mut controls) = ([vec![], vec![]], [vec![], vec![]]);
//! for (number, slot) in Order::new(42).enumerate() {
//!     // A control runs the base in the change's place.
//!     let [mut first, mut second] = [false, !slot.is_control];
//!     if slot.change_first {
//!         (first, second) = (second, first);
//!     }
//!     let (mut base, mut change) = (boot(2 * number, first), boot(2 * number + 1, second));
//!     if slot.change_first {
//!         (base, change) = (change, base);
//!     }
//!     let kept = if slot.is_control { &mut controls } else { &mut pairs };
//!     for row in 0..2 {
//!         kept[row].extend(log_ratio(&base[row], &change[row]));
//!     }
//!     let rows = [0, 1].map(|row| Pairs { pairs: &pairs[row], controls: &controls[row] });
//!     if !matches!(trial.next(&rows), Next::GoOn { .. }) {
//!         let judged = trial.judge(&rows, &[]);
//!         let [getppid, fork] = &judged.headline[..] else { unreachable!() };
//!         assert_eq!(getppid.verdict, Detection::NotDetected); // `detectable` would have been
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
    Control, Detection, Judged, Looks, MIN_CONTROLS, MIN_PAIRS, Next, Pairs, Rules, Trial,
    TrialRow, Why, benjamini_hochberg, holm,
};

use std::collections::VecDeque;

use super::random::Random;
use crate::tables::median;

#[cfg(test)]
use super::random;

#[cfg(test)]
mod noise;

/// After the pilot, one of this many pairs is an A/A pair.
const CONTROL_EVERY: usize = 6;

/// One pair of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// True if this is an A/A pair: base against base, one of them in the change's place.
    pub is_control: bool,
    /// True if the change, or the base in its place, runs first.
    pub change_first: bool,
}

/// The pairs of a run, an endless iterator. Equal seeds give equal orders, so a run can be resumed.
///
/// The first [`MIN_PAIRS`] + [`MIN_CONTROLS`] pairs are the pilot. Then one of each six is an A/A
/// pair, at a random place.
#[derive(Debug, Clone)]
pub struct Order {
    random: Random,
    block: VecDeque<Slot>,
    is_past_pilot: bool,
}

impl Order {
    /// The order of this seed.
    pub fn new(seed: u64) -> Order {
        Order { random: Random::new(seed), block: VecDeque::new(), is_past_pilot: false }
    }

    fn draw_block(&mut self) {
        let (pairs, controls) =
            if self.is_past_pilot { (CONTROL_EVERY - 1, 1) } else { (MIN_PAIRS, MIN_CONTROLS) };
        self.is_past_pilot = true;
        let mut kinds = vec![false; pairs];
        kinds.resize(pairs + controls, true);
        // Fisher-Yates shuffle.
        for last in (1..kinds.len()).rev() {
            kinds.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        for is_control in kinds {
            self.block.push_back(Slot { is_control, change_first: self.random.coin() });
        }
    }
}

impl Iterator for Order {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        if self.block.is_empty() {
            self.draw_block();
        }
        self.block.pop_front()
    }
}

/// Most pairs of either kind that are drawn until `pairs` of them are no A/A pairs.
pub fn drawn_for(pairs: usize) -> usize {
    let after_pilot = pairs.saturating_sub(MIN_PAIRS);
    pairs + MIN_CONTROLS + after_pilot.div_ceil(CONTROL_EVERY - 1)
}

/// `ln(change / base)` of a pair of Boots, each summarized by the median of its loops. `None` if a
/// Boot has no loops, or a median that is not a positive number.
pub fn log_ratio(base: &[f64], change: &[f64]) -> Option<f64> {
    let is_positive = |value: &f64| *value > 0.0 && value.is_finite();
    let base = median(base).filter(is_positive)?;
    let change = median(change).filter(is_positive)?;
    Some((change / base).ln())
}

/// A robust estimate of the standard deviation of values in groups, each with its own centre: the
/// median distance of two values of a group (Shamos 1976), scaled for normal values. It tolerates
/// outliers in up to a third of the values; for normal values its efficiency is 6/7 of that of the
/// usual formula. `None` if no group has two values.
pub fn shamos(groups: &[&[f64]]) -> Option<f64> {
    let mut distances = Vec::new();
    for group in groups {
        for (index, value) in group.iter().enumerate() {
            distances.extend(group[index + 1..].iter().map(|other| (value - other).abs()));
        }
    }
    // The median distance of two standard normal values: sqrt(2) times the normal's upper quartile.
    const NORMAL: f64 = std::f64::consts::SQRT_2 * 0.674_489_750_196_081_7;
    median(&distances).map(|distance| distance / NORMAL)
}

/// The components of variance of values in groups (loops in Boots).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// Between the groups.
    pub between: f64,
    /// Within a group.
    pub within: f64,
}

impl Split {
    /// The share of the variance between groups. At 1 only more Boots help; at 0 more loops help as
    /// well. `None` if there is no variance.
    pub fn share_between(&self) -> Option<f64> {
        let total = self.between + self.within;
        (total > 0.0).then(|| self.between / total)
    }
}

/// One-way random effects by the method of moments, for groups of any sizes (Searle, Casella and
/// McCulloch: Variance Components, 1992, 3.6). A negative component becomes zero. For times, pass
/// logarithms: then the shares are those of the relative spread. `None` without two groups, or if
/// no group has two values.
pub fn split(groups: &[&[f64]]) -> Option<Split> {
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
    Some(Split { between: ((between / freedom - within) / size).max(0.0), within })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_pairs_are_drawn_than_is_said() {
        for (seed, pairs) in
            (1..20).flat_map(|seed| [1, 10, 12, 50, 200].map(|pairs| (seed, pairs)))
        {
            let mut found = 0;
            let drawn = Order::new(seed).take_while(|slot| {
                let goes_on = found < pairs;
                found += usize::from(!slot.is_control);
                goes_on
            });
            let (drawn, most) = (drawn.count(), drawn_for(pairs));
            assert!(drawn <= most && most <= drawn + MIN_CONTROLS + 1, "{pairs}: {drawn}, {most}");
        }
    }

    #[test]
    fn a_pilot_then_one_control_in_six() {
        let order: Vec<Slot> = Order::new(3).take(18 + 600).collect();
        let controls = |slots: &[Slot]| slots.iter().filter(|slot| slot.is_control).count();
        assert_eq!(controls(&order[..18]), 8);
        assert!(order[18..].chunks(6).all(|block| controls(block) == 1));
        // Which one is first is random: 255 of 510 and 54 of 108 are expected, ± six deviations.
        for (is_control, least, most) in [(false, 190, 320), (true, 25, 85)] {
            let slots = order.iter().filter(|slot| slot.is_control == is_control);
            let first = slots.filter(|slot| slot.change_first).count();
            assert!((least..most).contains(&first), "{first}");
        }
        // The place of the control in its block is random, too.
        let place = |block: &[Slot]| block.iter().position(|slot| slot.is_control);
        let places: std::collections::HashSet<_> = order[18..].chunks(6).map(place).collect();
        assert_eq!(places.len(), 6);
    }

    #[test]
    fn equal_seeds_give_equal_orders() {
        let slots = |seed| Order::new(seed).take(50).collect::<Vec<_>>();
        assert_eq!(slots(1), slots(1));
        assert_ne!(slots(1), slots(2));
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-9
    }

    const GROUPS: [&[f64]; 4] =
        [&[1.0, 1.2, 0.9], &[1.5, 1.7], &[0.7, 0.8, 0.75, 0.9, 0.6], &[1.1]];

    #[test]
    fn medians_and_ratios() {
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
    fn shares_of_variance_are_those_of_scipys_f() {
        // tests/statistics/reference.py has them from scipy.stats.f_oneway.
        let found = split(&GROUPS).unwrap();
        assert!(near(found.between, 0.1333130081300813), "{found:?}");
        assert!(near(found.within, 0.016666666666666666));
        assert!(near(found.share_between().unwrap(), 0.8888738311424312));
    }

    #[test]
    fn variance_at_one_level_only() {
        let between = split(&[&[1.0, 1.0], &[2.0, 2.0], &[4.0, 4.0]]).unwrap();
        assert_eq!((between.within, between.share_between()), (0.0, Some(1.0)));
        let within = split(&[&[1.0, 3.0], &[3.0, 1.0]]).unwrap();
        assert_eq!((within.between, within.share_between()), (0.0, Some(0.0)));
        assert_eq!(split(&[&[1.0, 1.0], &[1.0]]).unwrap().share_between(), None);
        assert_eq!(split(&[&[1.0, 2.0], &[]]), None);
        assert_eq!(split(&[&[1.0], &[2.0]]), None);
    }

    #[test]
    fn the_spread_is_within_groups_and_forgets_what_is_wild() {
        // numpy, scipy's normal quartile
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
