//! Formulas of derived columns in tables that kernel developers publish.
//!
//! Percentages are in percent (5 is 5 %). Other results have the unit of the input, unless their
//! function says otherwise. A division by zero gives the IEEE 754 result, infinite or not a number;
//! callers check the divisor. `tests/fast/published.rs` recomputes five published documents with
//! these formulas.
//!
//! Quantiles of many values are computed from log-linear histograms with eight buckets for each
//! power of two, so that a quantile has an error of at most 1/8.

use std::cmp::Ordering;

/// Difference of `change` from `base`, in percent of `base`.
pub fn percent_change(base: f64, change: f64) -> f64 {
    (change - base) / base * 100.0
}

/// [`percent_change`] for values that may be 0: 0 % for equal values, `None` for another change
/// from 0.
pub fn checked_percent_change(base: f64, change: f64) -> Option<f64> {
    match (base, change) {
        _ if base == change => Some(0.0),
        (0.0, _) => None,
        _ => Some(percent_change(base, change)),
    }
}

/// Share of `part` in `whole`, in percent.
pub fn share_percent(part: f64, whole: f64) -> f64 {
    part / whole * 100.0
}

/// Average of `count` durations that add up to `sum`.
pub fn average(sum: f64, count: f64) -> f64 {
    sum / count
}

/// AIM7's jobs per minute: `users` users with `jobs_per_user` jobs each took `seconds` in total.
pub fn jobs_per_minute(jobs_per_user: f64, users: f64, seconds: f64) -> f64 {
    jobs_per_user * users * 60.0 / seconds
}

/// AIM7's job timing index: 100 minus the standard deviation in percent of the mean, truncated to a
/// whole number as AIM7 prints it. `mean` and `std_dev` are the mean and the population standard
/// deviation of the times of the users.
pub fn timing_index(mean: f64, std_dev: f64) -> f64 {
    (100.0 - share_percent(std_dev, mean)).trunc()
}

/// Extra cost per process and page, in the unit of `cost`. `cost` is the cost of `processes`
/// processes with `pages` pages each, minus the cost of the same processes without pages.
pub fn per_process_per_page(cost: f64, processes: f64, pages: f64) -> f64 {
    cost / processes / pages
}

/// Ratio of the contest benchmark: duration divided by the duration of the reference, which is
/// measured without load.
pub fn contest_ratio(seconds: f64, reference_seconds: f64) -> f64 {
    seconds / reference_seconds
}

/// Difference between largest and smallest value, in percent of the smallest. `None` for no values.
pub fn spread_percent(values: &[f64]) -> Option<f64> {
    let smallest = values.iter().copied().reduce(f64::min)?;
    let largest = values.iter().copied().reduce(f64::max)?;
    Some(percent_change(smallest, largest))
}

/// Arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| average(values.iter().sum(), values.len() as f64))
}

/// Middle value, or for an even number the mean of the middle two; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    let lower = sorted.len().checked_sub(1)? / 2;
    mean(&[sorted[lower], sorted[upper]])
}

/// Population standard deviation of `count` whole numbers, from their sum and the sum of their
/// squares. Differences are computed in integers, so that no digits cancel. `None` for no values,
/// and for impossible sums.
pub fn std_dev_from_sums(count: u64, sum: u64, squares: u128) -> Option<f64> {
    let count = u128::from(count);
    let square_of_sum = u128::from(sum) * u128::from(sum);
    let scaled = count.checked_mul(squares)?.checked_sub(square_of_sum)?;
    (count > 0).then(|| (scaled as f64).sqrt() / count as f64)
}

/// Spearman's rank correlation of pairs. Equal values have the mean of their ranks. `None` for
/// fewer than three pairs, and if all first or all second values are equal.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let (left, right): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (left, right) = (ranks(&left), ranks(&right));
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |left: &[f64], right: &[f64]| -> f64 {
        left.iter().zip(right).map(|(left, right)| (left - mean) * (right - mean)).sum()
    };
    let scale = (product(&left, &left) * product(&right, &right)).sqrt();
    (scale > 0.0).then(|| product(&left, &right) / scale)
}

/// Rank of each value, from 0. Equal values have the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let count = |value: f64, order: Ordering| {
        values.iter().filter(|other| other.total_cmp(&value) == order).count() as f64
    };
    let rank =
        |value: &f64| count(*value, Ordering::Less) + (count(*value, Ordering::Equal) - 1.0) / 2.0;
    values.iter().map(rank).collect()
}

/// Number of buckets for all 64-bit values.
pub const BUCKETS: usize = 512;

/// Binary logarithm of [`STEPS`].
const STEPS_LOG2: u32 = 3;
/// Number of buckets for each power of two. Values below this number have one bucket each.
const STEPS: u64 = 1 << STEPS_LOG2;

/// Index of a value's bucket.
pub fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let log2 = value.ilog2();
    let step = (value >> (log2 - STEPS_LOG2)) & (STEPS - 1);
    (u64::from(log2 - STEPS_LOG2 + 1) * STEPS + step) as usize
}

/// Smallest value of a bucket, and the end of the bucket, which is the first value after it. The
/// end of the last bucket is 2^64, which is why the type is u128.
fn bucket_bounds(index: usize) -> (u128, u128) {
    let (power, step) = (index as u64 / STEPS, index as u64 % STEPS);
    match power {
        0 => (u128::from(step), u128::from(step) + 1),
        _ => {
            let width = 1u128 << (power - 1);
            let smallest = u128::from(STEPS + step) * width;
            (smallest, smallest + width)
        }
    }
}

/// Value below which `share` of all values lie, from the number of values in each bucket. Values
/// are assumed to be spread evenly within their bucket. `None` without values.
pub fn quantile(counts: &[u64], share: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let rank = share * total as f64;
    let mut below = 0.0;
    for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let in_bucket = *count as f64;
        if below + in_bucket >= rank {
            let (smallest, end) = bucket_bounds(index);
            let fraction = (rank - below) / in_bucket;
            return Some(smallest as f64 + fraction * (end - smallest - 1) as f64);
        }
        below += in_bucket;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact_and_the_largest_has_a_bucket() {
        for value in 0..16 {
            let (smallest, end) = bucket_bounds(bucket(value));
            assert_eq!((smallest, end), (u128::from(value), u128::from(value) + 1));
        }
        assert!(bucket(u64::MAX) < BUCKETS);
        assert_eq!(bucket_bounds(bucket(u64::MAX)).1, 1 << 64);
    }

    #[test]
    fn quantiles_of_uniform_values() {
        let mut counts = vec![0; BUCKETS];
        (1..=1000u64).for_each(|value| counts[bucket(value)] += 1);
        let median = quantile(&counts, 0.5).unwrap();
        assert!((median - 500.0).abs() < 5.0, "{median}");
        let high = quantile(&counts, 0.99).unwrap();
        assert!((high - 990.0).abs() < 40.0, "{high}");
        assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
    }

    proptest! {
        #[test]
        fn each_value_lies_in_its_bucket(value: u64) {
            let (smallest, end) = bucket_bounds(bucket(value));
            prop_assert!((smallest..end).contains(&u128::from(value)));
            // No bucket is wider than an eighth of its values.
            prop_assert!(value < STEPS || (end - smallest) * 8 <= smallest);
        }

        #[test]
        fn a_quantile_of_equal_values_is_off_by_an_eighth_at_most(value in 1u64..1 << 60) {
            let mut counts = vec![0; BUCKETS];
            counts[bucket(value)] = 7;
            let median = quantile(&counts, 0.5).unwrap();
            prop_assert!((median - value as f64).abs() <= value as f64 / 8.0);
        }
    }

    #[test]
    fn an_increase_is_a_positive_change() {
        assert_eq!(percent_change(4.0, 5.0), 25.0);
        assert_eq!(percent_change(5.0, 4.0), -20.0);
        assert_eq!(share_percent(1.0, 8.0), 12.5);
    }

    #[test]
    fn jobs_per_minute_counts_all_users() {
        assert_eq!(jobs_per_minute(104.0, 500.0, 26.0), 120_000.0); // 52 000 jobs in 26 s
    }

    #[test]
    fn the_job_timing_index_is_truncated() {
        assert_eq!(timing_index(7.0, 0.0), 100.0);
        assert_eq!(timing_index(10.0, 1.0), 90.0);
        assert_eq!(timing_index(30.0, 1.0), 96.0); // 1 - 1/30 = 0.9667
    }

    #[test]
    fn per_process_per_page_keeps_the_unit() {
        assert_eq!(per_process_per_page(1_024_000.0, 1000.0, 512.0), 2.0);
        assert_eq!(contest_ratio(90.0, 60.0), 1.5);
    }

    #[test]
    fn mean_median_and_spread_of_few_values() {
        assert_eq!((mean(&[]), median(&[])), (None, None));
        assert_eq!(spread_percent(&[]), None);
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(median(&[6.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[6.0, 1.0, 2.0, 4.0]), Some(3.0));
        assert_eq!(median(&[5.0]), Some(5.0));
        assert_eq!(spread_percent(&[110.0, 100.0, 105.0]), Some(10.0));
    }

    #[test]
    fn rank_correlations_of_textbook_examples() {
        let up = [(1.0, 10.0), (2.0, 400.0), (3.0, 401.0)];
        assert_eq!(spearman(&up), Some(1.0));
        assert_eq!(spearman(&up.map(|(one, other)| (one, -other))), Some(-1.0));
        // 1 - 6 · Σd² / (n · (n² - 1)), with d of 1, 1, 0, 0, 0.
        let swapped = [(1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (4.0, 4.0), (5.0, 5.0)];
        assert!((spearman(&swapped).unwrap() - 0.9).abs() < 1e-12);
        // Expected value with ties from scipy.stats.spearmanr.
        let ties = [(1.0, 1.0), (2.0, 1.0), (2.0, 3.0), (4.0, 4.0)];
        assert!((spearman(&ties).unwrap() - 0.833_333_333_333).abs() < 1e-9);
        assert_eq!(spearman(&up[..2]), None);
        assert_eq!(spearman(&[(1.0, 1.0); 5]), None);
    }
}
