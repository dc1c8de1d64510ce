//! Wilcoxon's signed-rank test of paired differences, with the estimate and interval that belong to
//! it.
//!
//! The order within each pair is random. So without an effect, each difference has either sign with
//! equal probability, for any size. The test has no other assumption. It is conditional on the
//! sizes, and therefore exact for ties (which get the mean of their ranks) and for zeros (Pratt's
//! method: they are ranked, and then omitted).
//!
//! The estimate is that of Hodges and Lehmann (Annals of Mathematical Statistics 34, 1963): the
//! median of the means of all pairs of differences, including pairs of a difference with itself.
//! The interval has the shifts that the test does not reject. All shifts in the gap between two
//! neighbouring means have the same p-value, so the test runs once for each gap.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::trial::{density, upper_tail};

/// Estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub estimate: f64,
    /// Lower end; minus infinity if there are too few data for the level.
    pub low: f64,
    /// Upper end; infinity if there are too few data for the level.
    pub high: f64,
}

impl Interval {
    /// Returns true if zero is outside the interval.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Returns true if the interval is within ±`bound`.
    pub fn is_within(&self, bound: f64) -> bool {
        self.low > -bound && self.high < bound
    }
}

/// Paired differences in ascending order.
#[derive(Debug)]
pub struct SignedRank {
    differences: Vec<f64>,
    has_ties: bool,
}

impl SignedRank {
    /// Sorts the differences, which must be finite.
    pub fn new(differences: &[f64]) -> SignedRank {
        let mut differences = differences.to_vec();
        differences.sort_unstable_by(f64::total_cmp);
        let has_ties = differences.windows(2).any(|two| two[0] == two[1]);
        SignedRank { differences, has_ties }
    }

    /// Hodges-Lehmann estimate; `None` for no differences.
    pub fn estimate(&self) -> Option<f64> {
        let last = self.means().checked_sub(1)?;
        Some(f64::midpoint(self.mean(last / 2), self.mean(last.div_ceil(2))))
    }

    /// Two-sided p-value of the hypothesis that the differences are symmetric about zero.
    pub fn p_value(&self) -> f64 {
        p_value(&self.differences, 0.0)
    }

    /// Interval of the shifts whose two-sided p-value is above `alpha`; `None` for no differences.
    pub fn interval(&self, alpha: f64) -> Option<Interval> {
        let estimate = self.estimate()?;
        let (low, high) =
            if self.has_ties { self.ends_with_ties(estimate, alpha) } else { self.ends(alpha) };
        Some(Interval { estimate, low, high })
    }

    /// Number of means of pairs of differences.
    fn means(&self) -> usize {
        self.differences.len() * (self.differences.len() + 1) / 2
    }

    /// Mean with this rank among all means, from 0. It is found by bisection over all doubles: the
    /// means up to a bound are counted in one pass from both ends, so that no list of means is
    /// needed.
    fn mean(&self, rank: usize) -> f64 {
        let sorted = &self.differences;
        let up_to = |bound: f64| {
            let (mut count, mut end) = (0, sorted.len());
            for (index, low) in sorted.iter().enumerate() {
                while end > index && low + sorted[end - 1] > bound {
                    end -= 1;
                }
                if end <= index {
                    break;
                }
                count += end - index;
            }
            count
        };
        let (mut low, mut high) =
            (position(2.0 * sorted[0]), position(2.0 * sorted[sorted.len() - 1]));
        while low < high {
            let middle = u64::midpoint(low, high);
            if up_to(double_at(middle)) > rank { high = middle } else { low = middle + 1 }
        }
        double_at(low) / 2.0 + 0.0
    }

    /// Ends of the interval without ties. The rank sum at a gap is then the number of means below
    /// the gap, so that one distribution serves for all gaps.
    fn ends(&self, alpha: f64) -> (f64, f64) {
        let null = NullDistribution::untied(self.differences.len());
        let means = self.means();
        match first(means / 2, |gap| null.two_sided(2 * gap as u64) > alpha) {
            0 => (f64::NEG_INFINITY, f64::INFINITY),
            first_gap => (self.mean(first_gap - 1), self.mean(means - first_gap)),
        }
    }

    /// Ends of the interval with ties. The test runs for the middle of each gap. Gap `i` has `i`
    /// different means below it.
    fn ends_with_ties(&self, estimate: f64, alpha: f64) -> (f64, f64) {
        let mut ends = Vec::with_capacity(self.means());
        for (index, low) in self.differences.iter().enumerate() {
            ends.extend(self.differences[index..].iter().map(|high| f64::midpoint(*low, *high)));
        }
        ends.sort_unstable_by(f64::total_cmp);
        ends.dedup();
        let is_accepted = |gap: usize| {
            let p = match (gap.checked_sub(1), ends.get(gap)) {
                (Some(below), Some(above)) => {
                    p_value(&self.differences, f64::midpoint(ends[below], *above))
                }
                // A shift beyond all means gives all differences the same sign.
                _ => 2.0 * 0.5f64.powi(self.differences.len() as i32),
            };
            p > alpha
        };
        let (below, above) = (
            ends.partition_point(|end| *end < estimate),
            ends.partition_point(|end| *end <= estimate),
        );
        let from = first(above, is_accepted);
        let to = ends.len() - first(ends.len() - below, |gap| is_accepted(ends.len() - gap));
        let low = from.checked_sub(1).map_or(f64::NEG_INFINITY, |below| ends[below]);
        (low, ends.get(to).copied().unwrap_or(f64::INFINITY))
    }
}

/// Sign bit of a double.
const SIGN: u64 = 1 << 63;

/// Position of a double among all doubles in ascending order.
fn position(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits < SIGN { bits | SIGN } else { !bits }
}

/// Double at a position; the inverse of [`position`].
fn double_at(position: u64) -> f64 {
    f64::from_bits(if position < SIGN { !position } else { position & !SIGN })
}

/// First of `0..end` for which a monotonic condition holds, or `end`.
fn first(end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = usize::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// Two-sided p-value of the hypothesis that the differences are symmetric about `shift`.
fn p_value(differences: &[f64], shift: f64) -> f64 {
    let mut shifted: Vec<f64> = differences.iter().map(|difference| difference - shift).collect();
    shifted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let (mut ranks, mut positive, mut below) = (Vec::with_capacity(shifted.len()), 0, 0);
    for tied in shifted.chunk_by(|a, b| a.abs() == b.abs()) {
        // The n tied differences have the ranks below + 1 to below + n. This is twice their mean.
        let doubled = 2 * below + tied.len() as u64 + 1;
        below += tied.len() as u64;
        if tied[0] != 0.0 {
            ranks.extend(tied.iter().map(|_| doubled));
            positive += doubled * tied.iter().filter(|value| **value > 0.0).count() as u64;
        }
    }
    let is_untied = ranks.iter().zip(1..).all(|(rank, number)| *rank == 2 * number);
    let null = if is_untied {
        NullDistribution::untied(ranks.len())
    } else {
        Rc::new(NullDistribution::new(&ranks))
    };
    null.two_sided(positive)
}

/// Maximum number of ranks for the exact distribution. Its cost grows with the cube of the number:
/// 300 ranks take about ten million additions.
pub const MAX_EXACT_RANKS: usize = 300;

/// Distribution of the rank sum under the null hypothesis: each doubled rank is in the sum with
/// probability 1/2.
#[derive(Debug)]
pub struct NullDistribution {
    /// Sum of all doubled ranks.
    total: u64,
    lower_tail: LowerTail,
}

/// Cumulative distribution of the lower half of the sums.
#[derive(Debug)]
enum LowerTail {
    /// Probability of a sum of at most `index * unit`, up to half of the total.
    Exact { unit: u64, cumulative: Vec<f64> },
    /// Edgeworth series up to the fourth cumulant. The third cumulant is zero.
    Series { deviation: f64, excess: f64 },
}

impl NullDistribution {
    /// Distribution for these doubled ranks.
    pub fn new(ranks: &[u64]) -> NullDistribution {
        if ranks.len() > MAX_EXACT_RANKS {
            return NullDistribution::series(ranks);
        }
        let total = ranks.iter().sum();
        NullDistribution { total, lower_tail: exact_lower_tail(ranks, total) }
    }

    /// Approximation by a series. For 300 ranks, the relative error is 1e-3 for a probability of
    /// 2e-3, and 14 % for a probability of 7e-9.
    pub(super) fn series(ranks: &[u64]) -> NullDistribution {
        let power = |p: i32| ranks.iter().map(|rank| (*rank as f64).powi(p)).sum::<f64>();
        // A fair coin has the second cumulant 1/4 and the fourth cumulant -1/8.
        let variance = power(2) / 4.0;
        let excess = -power(4) / 8.0 / (variance * variance);
        let total = ranks.iter().sum();
        let lower_tail = LowerTail::Series { deviation: variance.sqrt(), excess };
        NullDistribution { total, lower_tail }
    }

    /// Distribution for the doubled ranks 2, 4 … 2 × `count`. Each thread computes it once.
    pub fn untied(count: usize) -> Rc<NullDistribution> {
        thread_local!(
            static CACHE: RefCell<HashMap<usize, Rc<NullDistribution>>> = RefCell::default()
        );
        CACHE.with_borrow_mut(|cache| {
            let ranks = || (1..=count as u64).map(|rank| 2 * rank).collect::<Vec<_>>();
            let entry = cache.entry(count);
            Rc::clone(entry.or_insert_with(|| Rc::new(NullDistribution::new(&ranks()))))
        })
    }

    /// Probability of a sum that is at least as far from the mean as `sum`, in either direction.
    pub fn two_sided(&self, sum: u64) -> f64 {
        let lower = sum.min(self.total - sum);
        (2.0 * self.lower_tail(lower)).min(1.0)
    }

    /// Probability of a sum of at most `sum`, which must be in the lower half.
    fn lower_tail(&self, sum: u64) -> f64 {
        match &self.lower_tail {
            LowerTail::Exact { unit, cumulative } => cumulative[(sum / unit) as usize],
            LowerTail::Series { deviation, excess } => {
                // Continuity correction by 1, half of the distance between sums without ties.
                let z = (self.total as f64 / 2.0 - sum as f64 - 1.0) / deviation;
                let correction = excess / 24.0 * (z * z * z - 3.0 * z) * density(z);
                (upper_tail(z) + correction).max(0.0)
            }
        }
    }
}

/// Counts the subsets of ranks with each sum. Counts in `f64` are exact up to 2^53. Larger counts
/// have 16 correct digits, because only positive numbers are added.
fn exact_lower_tail(ranks: &[u64], total: u64) -> LowerTail {
    let unit = if ranks.iter().all(|rank| rank % 2 == 0) { 2 } else { 1 };
    let half = (total / unit / 2) as usize;
    let mut subsets = vec![0.0; half + 1];
    subsets[0] = 1.0;
    let mut reach = 0;
    for rank in ranks {
        let rank = (rank / unit) as usize;
        reach = (reach + rank).min(half);
        let mut sum = reach;
        while sum >= rank {
            subsets[sum] += subsets[sum - rank];
            sum -= 1;
        }
    }
    let sign_choices = 2f64.powi(ranks.len() as i32);
    let mut below = 0.0;
    for count in &mut subsets {
        below += *count;
        *count = below / sign_choices;
    }
    LowerTail::Exact { unit, cumulative: subsets }
}

#[cfg(test)]
#[path = "signed_rank_tests.rs"]
mod tests;
