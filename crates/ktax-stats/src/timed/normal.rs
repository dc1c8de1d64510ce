//! The normal distribution's upper tail and its inverse.
//!
//! `libm` has erfc, accurate far into the tail. The inverse uses Newton's method.

use std::f64::consts::{PI, SQRT_2};

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
