//! Looking at the data several times without more false findings.
//!
//! After `k` of `K` equal parts of the data, the normal statistic `Z_k` times `sqrt(k)` is a random
//! walk of `k` independent standard normal steps. O'Brien and Fleming (Biometrics 35, 1979) stop it
//! at one constant barrier, `|Z_k| sqrt(k) >= c`. A stop at the first look is then almost
//! impossible, and at the last look the bound is close to the usual one. The probability that a
//! walk without drift leaves the barrier is computed as by Armitage, McPherson and Rowe (JRSS A
//! 132, 1969): the density of the walks that are still inside, step by step, by numerical
//! integration.
//!
//! This relation between `c` and the probability is used in both directions. A probability gives
//! the barrier ([`Looks::barrier`]), and with it the level of each look and the repeated confidence
//! interval (Jennison and Turnbull, JRSS B 51, 1989). The data give the smallest overall
//! probability at which they would have stopped ([`Looks::overall`]). That is the repeated p-value:
//! however the look was chosen, it is below `a` in at most a share `a` of null cases. So Holm's
//! method can use it.

use std::f64::consts::{PI, SQRT_2};

/// Nodes of the Gauss-Legendre rule. Within a barrier of 10 they lie at most 0.4 deviations of a
/// step apart, which integrates normal densities to all digits.
const NODES: usize = 40;

/// Equally spaced looks; the last is at all of the data.
#[derive(Debug, Clone)]
pub struct Looks {
    count: usize,
    /// Nodes in [0, 1] and their weights.
    nodes: Vec<(f64, f64)>,
}

impl Looks {
    /// `count` looks, at least 1.
    pub fn new(count: usize) -> Looks {
        Looks { count: count.max(1), nodes: gauss_legendre(NODES) }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The probability that a walk without drift is outside ±`barrier` at one of the looks.
    pub fn crossing(&self, barrier: f64) -> f64 {
        if barrier <= 0.0 {
            return 1.0;
        }
        // By symmetry the density is kept for the upper half only, and each step comes from both.
        let places: Vec<(f64, f64)> =
            self.nodes.iter().map(|(x, weight)| (x * barrier, weight * barrier)).collect();
        let mut within: Vec<f64> = places.iter().map(|(x, _)| density(*x)).collect();
        let leaves: Vec<f64> =
            places.iter().map(|(x, _)| upper(barrier - x) + upper(barrier + x)).collect();
        let steps: Vec<f64> = places
            .iter()
            .flat_map(|(x, _)| places.iter().map(move |(y, _)| density(x - y) + density(x + y)))
            .collect();
        let mut chance = 2.0 * upper(barrier);
        for _ in 1..self.count {
            let mass: Vec<f64> =
                places.iter().zip(&within).map(|((_, weight), f)| weight * f).collect();
            let sum = |with: &[f64]| with.iter().zip(&mass).map(|(with, mass)| with * mass).sum();
            let left: f64 = sum(&leaves);
            chance += 2.0 * left;
            within = steps.chunks(NODES).map(sum).collect();
        }
        chance.min(1.0)
    }

    /// The barrier that a walk without drift leaves with probability `alpha`.
    pub fn barrier(&self, alpha: f64) -> f64 {
        // Between the need of the last look alone and Bonferroni's. Regula falsi on the logarithm,
        // which is nearly straight; the end that stays weighs half as much each time (Dowell and
        // Jarratt 1971, the Illinois rule).
        if self.count == 1 {
            return quantile(alpha / 2.0);
        }
        let last = (self.count as f64).sqrt();
        let above = |barrier: f64| (self.crossing(barrier) / alpha).ln();
        let mut low = last * quantile(alpha / 2.0);
        let mut high = last * quantile(alpha / 2.0 / self.count as f64);
        let (mut at_low, mut at_high) = (above(low), above(high));
        for _ in 0..100 {
            if at_low <= 0.0 {
                return low;
            }
            let middle = high - at_high * (high - low) / (at_high - at_low);
            let here = above(middle);
            if here.abs() < 1e-14 || high - low < 1e-13 * high {
                return middle;
            }
            if here > 0.0 {
                (low, at_low, at_high) = (middle, here, at_high / 2.0);
            } else {
                (high, at_high, at_low) = (middle, here, at_low / 2.0);
            }
        }
        high
    }

    /// The `|Z|` that reaches a barrier when this share of the data is there. A share between two
    /// looks is for a run that stopped early; a share above 1 counts as 1.
    pub fn bound(&self, barrier: f64, share: f64) -> f64 {
        barrier / (self.count as f64 * share.min(1.0)).sqrt()
    }

    /// The repeated p-value of a two-sided `p` when this share of the data is there.
    pub fn overall(&self, p: f64, share: f64) -> f64 {
        if p >= 1.0 {
            return 1.0;
        }
        self.crossing(quantile(p / 2.0) * (self.count as f64 * share.min(1.0)).sqrt())
    }
}

/// Nodes and weights in [0, 1]: Newton's method on the Legendre polynomial, from Chebyshev's nodes.
fn gauss_legendre(count: usize) -> Vec<(f64, f64)> {
    let n = count as f64;
    let node = |i: usize| {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..10 {
            let (mut before, mut value) = (1.0, x);
            for k in 2..=count {
                let k = k as f64;
                (before, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            }
            slope = n * (x * value - before) / (x * x - 1.0);
            x -= value / slope;
        }
        (f64::midpoint(1.0, x), 1.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..count).map(node).collect()
}

/// The probability that a standard normal value is above `z`.
pub fn upper(z: f64) -> f64 {
    libm::erfc(z / SQRT_2) / 2.0
}

/// The density of the standard normal distribution.
pub fn density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / (2.0 * PI).sqrt()
}

/// The `z` that a standard normal value exceeds with probability `p`; infinite for `p` of 0 or 1.
///
/// Newton on the logarithm of the tail, from the right: the tail is below exp(-z^2 / 2) / 2, so the
/// start is never left of the solution, and the logarithm is concave, so no step passes it.
pub fn quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    if p <= 0.0 {
        return f64::INFINITY;
    }
    let mut z = (-2.0 * (2.0 * p).ln()).sqrt();
    for _ in 0..50 {
        let tail = upper(z);
        if tail <= 0.0 {
            return z; // Beyond 38 deviations there are no numbers left.
        }
        let step = (tail / p).ln() * tail / density(z);
        z += step;
        if step.abs() <= 1e-14 * z.abs() {
            break;
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_are_those_of_another_integration() {
        for (count, alpha, wanted) in [
            (1, 0.05, 1.9599639845400545),
            (1, 0.0025, 3.023341439739154),
            (2, 0.05, 2.796509681291264),
            (2, 0.01, 3.6480623286815304),
            (2, 0.0025, 4.277007849342294),
            (5, 0.05, 4.561742297932387),
            (5, 0.01, 5.861115572214397),
            (5, 0.0025, 6.825835090223081),
        ] {
            let barrier = Looks::new(count).barrier(alpha);
            assert!((barrier - wanted).abs() < 1e-9, "{count} {alpha}: {barrier}");
        }
        let looks = Looks::new(5);
        assert!((looks.crossing(3.0) - 0.23666130627137838).abs() < 1e-9);
        assert!((looks.crossing(6.0) - 0.008274334825795204).abs() < 1e-9);
    }

    #[test]
    fn the_barrier_is_the_published_one() {
        // Jennison and Turnbull, Group Sequential Methods (2000): C_B(5, 0.05) = 2.040, to be
        // multiplied by sqrt(5 / k).
        let looks = Looks::new(5);
        let barrier = looks.barrier(0.05);
        assert!((looks.bound(barrier, 1.0) - 2.040).abs() < 5e-4);
        assert!((looks.bound(barrier, 0.2) - 4.562).abs() < 5e-4);
    }

    #[test]
    fn the_repeated_p_value_is_the_level_at_which_the_barrier_is_met() {
        let looks = Looks::new(5);
        for alpha in [0.2, 0.05, 0.001, 1e-8] {
            let barrier = looks.barrier(alpha);
            for share in [0.2, 0.37, 1.0] {
                let p = 2.0 * upper(looks.bound(barrier, share));
                assert!((looks.overall(p, share) / alpha - 1.0).abs() < 1e-6, "{alpha} {share}");
            }
        }
        // One look is no correction, none at all cannot be, and a walk far out keeps its order.
        assert!((Looks::new(1).overall(0.03, 1.0) - 0.03).abs() < 1e-12);
        assert_eq!(looks.overall(1.0, 1.0), 1.0);
        assert!(looks.overall(1e-60, 1.0) < looks.overall(1e-50, 1.0));
        assert!(looks.overall(1e-60, 1.0) > 0.0);
    }

    #[test]
    fn walks_leave_as_often_as_computed() {
        let mut random = crate::random::Random::new(5);
        // The sum of twelve uniforms less six: mean 0, variance 1.
        let mut step = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        let barrier = Looks::new(5).barrier(0.05);
        let mut leaves = || {
            let mut walk = 0.0;
            (0..5).fold(false, |left, _| {
                walk += step();
                left || f64::abs(walk) >= barrier
            })
        };
        let left = (0..20_000).filter(|_| leaves()).count();
        assert!((900..1100).contains(&left), "{left}"); // 1000 wanted, three deviations of 31
    }

    #[test]
    fn tails_and_quantiles_are_scipys() {
        // scipy 1.17.1: norm.isf(p).
        for (p, z) in [
            (0.5, 0.0),
            (0.1, 1.2815515655446004),
            (0.025, 1.9599639845400545),
            (0.9, -1.2815515655446004),
            (1e-6, 4.753424308822899),
            (1e-60, 16.39727821271871),
            (1e-300, 37.0470962993612),
        ] {
            assert!((quantile(p) - z).abs() < 1e-12, "{p}: {}", quantile(p));
            assert!((upper(z) / p - 1.0).abs() < 1e-12, "{p}");
        }
        assert_eq!(quantile(0.0), f64::INFINITY);
        assert_eq!(quantile(1.0), f64::NEG_INFINITY);
    }
}
