//! Wilcoxon's signed-rank test of paired differences, and what follows from it.
//!
//! The order within each pair is random. So without an effect, each difference has either sign with
//! equal probability, whatever its size. The test assumes nothing else. It is conditional on the
//! sizes, and so it is exact with ties (which get the mean of their ranks) and with zeros (Pratt's
//! method: they are ranked and then left out).
//!
//! The estimate is that of Hodges and Lehmann (Annals of Mathematical Statistics 34, 1963): the
//! median of the means of all pairs of differences, each with itself too. The interval has the
//! shifts that the test does not reject. All shifts between two neighbouring means give the
//! differences the same order of sizes and the same signs, so the test runs once for each such gap.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::trial::{density, upper};

/// An estimate with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    pub estimate: f64,
    /// The lower end; minus infinity if there are too few data for this level.
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Returns true if zero is outside.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Returns true if the interval is within ±`bound`.
    pub fn is_within(&self, bound: f64) -> bool {
        self.low > -bound && self.high < bound
    }
}

/// Paired differences, in order.
#[derive(Debug)]
pub struct SignedRank {
    differences: Vec<f64>,
    has_ties: bool,
}

impl SignedRank {
    /// The test of these differences, which must be finite.
    pub fn new(differences: &[f64]) -> SignedRank {
        let mut differences = differences.to_vec();
        differences.sort_unstable_by(f64::total_cmp);
        let has_ties = differences.windows(2).any(|two| two[0] == two[1]);
        SignedRank { differences, has_ties }
    }

    /// The Hodges-Lehmann estimate; `None` for no differences.
    pub fn estimate(&self) -> Option<f64> {
        let last = self.means().checked_sub(1)?;
        Some(f64::midpoint(self.mean(last / 2), self.mean(last.div_ceil(2))))
    }

    /// The two-sided p-value of the hypothesis that there is no shift.
    pub fn p_value(&self) -> f64 {
        p_value(&self.differences, 0.0)
    }

    /// The shifts whose two-sided p-value is above `alpha`; `None` for no differences.
    pub fn interval(&self, alpha: f64) -> Option<Interval> {
        let estimate = self.estimate()?;
        let (low, high) =
            if self.has_ties { self.ends_of_tied(estimate, alpha) } else { self.ends(alpha) };
        Some(Interval { estimate, low, high })
    }

    fn means(&self) -> usize {
        self.differences.len() * (self.differences.len() + 1) / 2
    }

    /// The mean with `rank` others before it, by bisection over all doubles: counting the sums up
    /// to a bound takes one pass from both ends, and so no list of them is needed.
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

    /// Without ties the sum of a gap is the number of means below it, and what it does where there
    /// is nothing is the same in all gaps.
    fn ends(&self, alpha: f64) -> (f64, f64) {
        let null = Null::untied(self.differences.len());
        let means = self.means();
        match first(means / 2, |gap| null.two_sided(2 * gap as u64) > alpha) {
            0 => (f64::NEG_INFINITY, f64::INFINITY),
            kept => (self.mean(kept - 1), self.mean(means - kept)),
        }
    }

    /// With ties the test itself is asked, in the middle of the gap; gap `i` has `i` ends below it.
    fn ends_of_tied(&self, estimate: f64, alpha: f64) -> (f64, f64) {
        let mut ends = Vec::with_capacity(self.means());
        for (index, low) in self.differences.iter().enumerate() {
            ends.extend(self.differences[index..].iter().map(|high| f64::midpoint(*low, *high)));
        }
        ends.sort_unstable_by(f64::total_cmp);
        ends.dedup();
        let is_kept = |gap: usize| {
            let p = match (gap.checked_sub(1), ends.get(gap)) {
                (Some(below), Some(above)) => {
                    p_value(&self.differences, f64::midpoint(ends[below], *above))
                }
                // Outside of all means the signs are equal.
                _ => 2.0 * 0.5f64.powi(self.differences.len() as i32),
            };
            p > alpha
        };
        let (below, above) = (
            ends.partition_point(|end| *end < estimate),
            ends.partition_point(|end| *end <= estimate),
        );
        let from = first(above, is_kept);
        let to = ends.len() - first(ends.len() - below, |gap| is_kept(ends.len() - gap));
        let low = from.checked_sub(1).map_or(f64::NEG_INFINITY, |below| ends[below]);
        (low, ends.get(to).copied().unwrap_or(f64::INFINITY))
    }
}

const SIGN: u64 = 1 << 63;

/// Position of a double among all doubles.
fn position(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits < SIGN { bits | SIGN } else { !bits }
}

fn double_at(position: u64) -> f64 {
    f64::from_bits(if position < SIGN { !position } else { position & !SIGN })
}

/// The first of `0..end` for which a monotonic condition holds, or `end`.
fn first(end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = usize::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The two-sided p-value of a shift by `by`.
fn p_value(differences: &[f64], by: f64) -> f64 {
    let mut shifted: Vec<f64> = differences.iter().map(|difference| difference - by).collect();
    shifted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let (mut ranks, mut positive, mut below) = (Vec::with_capacity(shifted.len()), 0, 0);
    for tied in shifted.chunk_by(|a, b| a.abs() == b.abs()) {
        // Ranks below + 1 to below + n; twice their mean.
        let doubled = 2 * below + tied.len() as u64 + 1;
        below += tied.len() as u64;
        if tied[0] != 0.0 {
            ranks.extend(tied.iter().map(|_| doubled));
            positive += doubled * tied.iter().filter(|value| **value > 0.0).count() as u64;
        }
    }
    let is_plain = ranks.iter().zip(1..).all(|(rank, number)| *rank == 2 * number);
    let null = if is_plain { Null::untied(ranks.len()) } else { Rc::new(Null::new(&ranks)) };
    null.two_sided(positive)
}

/// Up to this number of ranks the distribution is exact. The cost grows with the cube of the
/// number: 300 ranks take about ten million additions.
pub const EXACT: usize = 300;

/// The distribution of a sum in which each doubled rank occurs with probability 1/2.
#[derive(Debug)]
pub struct Null {
    total: u64,
    lower: Lower,
}

#[derive(Debug)]
enum Lower {
    /// The probability of at most `index * unit`, up to half of the total.
    Exact { unit: u64, cumulative: Vec<f64> },
    /// Edgeworth's series to the fourth cumulant, the third being zero.
    Series { deviation: f64, excess: f64 },
}

impl Null {
    /// The distribution for these doubled ranks.
    pub fn new(ranks: &[u64]) -> Null {
        if ranks.len() > EXACT {
            return Null::series(ranks);
        }
        let total = ranks.iter().sum();
        Null { total, lower: exact(ranks, total) }
    }

    /// An approximation by a series, without counting: at 300 ranks a tail of 2e-3 is off by 1e-3
    /// of itself, one of 7e-9 by 14 %.
    pub(super) fn series(ranks: &[u64]) -> Null {
        let power = |p: i32| ranks.iter().map(|rank| (*rank as f64).powi(p)).sum::<f64>();
        // A coin has the cumulants 1/4 and -1/8.
        let variance = power(2) / 4.0;
        let excess = -power(4) / 8.0 / (variance * variance);
        let total = ranks.iter().sum();
        Null { total, lower: Lower::Series { deviation: variance.sqrt(), excess } }
    }

    /// The distribution of the doubled ranks 2, 4 … 2 × `count`; each thread computes it once.
    pub fn untied(count: usize) -> Rc<Null> {
        thread_local!(static KNOWN: RefCell<HashMap<usize, Rc<Null>>> = RefCell::default());
        KNOWN.with_borrow_mut(|known| {
            let ranks = || (1..=count as u64).map(|rank| 2 * rank).collect::<Vec<_>>();
            Rc::clone(known.entry(count).or_insert_with(|| Rc::new(Null::new(&ranks()))))
        })
    }

    /// The probability of a sum at least as far from the middle as `sum`, on either side.
    pub fn two_sided(&self, sum: u64) -> f64 {
        let least = sum.min(self.total - sum);
        (2.0 * self.at_most(least)).min(1.0)
    }

    /// The probability of a sum of at most `sum`, which is in the lower half.
    fn at_most(&self, sum: u64) -> f64 {
        match &self.lower {
            Lower::Exact { unit, cumulative } => cumulative[(sum / unit) as usize],
            Lower::Series { deviation, excess } => {
                // A sum stands for what is nearest to it, and without ties the next one is 2 away.
                let z = (self.total as f64 / 2.0 - sum as f64 - 1.0) / deviation;
                let correction = excess / 24.0 * (z * z * z - 3.0 * z) * density(z);
                (upper(z) + correction).max(0.0)
            }
        }
    }
}

/// Counts the subsets of ranks with each sum. In `f64`: exact up to 2^53, then to 16 digits, and
/// all terms are positive.
fn exact(ranks: &[u64], total: u64) -> Lower {
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
    Lower::Exact { unit, cumulative: subsets }
}

#[cfg(test)]
#[path = "signed_rank_tests.rs"]
mod tests;
