//! Whether two orders are alike.

use std::cmp::Ordering;

/// Spearman's rank correlation of pairs; equal values share their ranks. `None` of fewer than three
/// pairs, and where all values of a side are the same.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let (one, other): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (one, other) = (ranks(&one), ranks(&other));
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).map(|(one, other)| (one - mean) * (other - mean)).sum()
    };
    let scale = (product(&one, &one) * product(&other, &other)).sqrt();
    (scale > 0.0).then(|| product(&one, &other) / scale)
}

/// Rank of each value; equal values get the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let count = |value: f64, order: Ordering| {
        values.iter().filter(|other| other.total_cmp(&value) == order).count() as f64
    };
    let rank =
        |value: &f64| count(*value, Ordering::Less) + (count(*value, Ordering::Equal) - 1.0) / 2.0;
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_are_those_of_textbooks() {
        let up = [(1.0, 10.0), (2.0, 400.0), (3.0, 401.0)];
        assert_eq!(spearman(&up), Some(1.0));
        assert_eq!(spearman(&up.map(|(one, other)| (one, -other))), Some(-1.0));
        // 1 - 6 · Σd² / (n · (n² - 1)), with d of 1, 1, 0, 0, 0.
        let swapped = [(1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0)];
        assert!((spearman(&swapped).unwrap() - 0.9).abs() < 1e-12);
        // Ties, as scipy.stats.spearmanr has them.
        let ties = [(1.0, 1.0), (2.0, 1.0), (2.0, 3.0), (4.0, 4.0)];
        assert!((spearman(&ties).unwrap() - 0.833_333_333_333).abs() < 1e-9);
        assert_eq!(spearman(&up[..2]), None);
        assert_eq!(spearman(&[(1.0, 1.0); 5]), None);
    }
}
