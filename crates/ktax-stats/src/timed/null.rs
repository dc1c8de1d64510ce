//! The null distribution of a signed-rank sum: each rank is added with probability 1/2.
//!
//! Ranks are doubled, so that the mean rank of ties is an integer.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::normal::{density, upper};

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
    /// Of any doubled ranks.
    pub fn new(ranks: &[u64]) -> Null {
        if ranks.len() > EXACT {
            return Null::series(ranks);
        }
        let total = ranks.iter().sum();
        Null { total, lower: exact(ranks, total) }
    }

    /// Without counting: at 300 ranks a tail of 2e-3 is off by 1e-3 of itself, one of 7e-9 by 14 %.
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
    let all = 2f64.powi(ranks.len() as i32);
    let mut below = 0.0;
    for count in &mut subsets {
        below += *count;
        *count = below / all;
    }
    Lower::Exact { unit, cumulative: subsets }
}
