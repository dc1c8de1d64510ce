//! Repeatability of a measurement, and comparison of two repeated measurements.

use super::timed::{Interval, SignedRank, log_ratio};

/// Maximum probability that an interval does not contain the true value.
const ALPHA: f64 = 0.05;

/// Interval with 9 of 10 values of the cost of one thing, from the 5th to the 95th percentile and
/// never below 0. Each element of `times` has the time without things and the time with `count`
/// things.
pub fn cost_interval(times: &[[u64; 2]], count: f64) -> [f64; 2] {
    let mut empty: Vec<u64> = times.iter().map(|[empty, _]| *empty).collect();
    empty.sort_unstable();
    let empty = empty.get(empty.len() / 2).copied().unwrap_or_default();
    let costs = times.iter().map(|[_, full]| full.saturating_sub(empty) as f64 / count);
    let mut costs: Vec<f64> = costs.collect();
    costs.sort_by(f64::total_cmp);
    // 5 % of the values at each end are outside the interval.
    let outside = costs.len() / 20;
    let cost_at = |index: usize| costs.get(index).copied().unwrap_or_default();
    [cost_at(outside), cost_at((costs.len().saturating_sub(1 + outside)).max(outside))]
}

/// Distribution-free interval of the median, with its coverage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    pub low: f64,
    pub high: f64,
    /// Coverage probability, from 0.95 to 1.
    pub level: f64,
}

/// Interval of the median, from sorted values. Each of n independent values is below the median
/// with probability 1/2, for any distribution. So the k-th smallest value is above the median with
/// the probability of fewer than k heads of n coins, and the k-th largest value is below the median
/// with the same probability. The coverage of the interval between the two is 1 - 2 P(heads < k).
/// The largest k with a coverage of 95 % or more is used. `None` for fewer than six values, because
/// the coverage of five values is only 1 - 2/32 = 93.75 %.
pub fn median_interval(sorted: &[f64]) -> Option<MedianInterval> {
    let n = sorted.len();
    // Logarithm of the probability of k heads. The probability itself would be 0 for n > 1074.
    let mut log_probability = -(n as f64) * std::f64::consts::LN_2;
    let (mut k, mut below) = (0, 0.0);
    while k < n && 2.0 * (below + log_probability.exp()) <= ALPHA {
        below += log_probability.exp();
        k += 1;
        log_probability += ((n - k + 1) as f64 / k as f64).ln();
    }
    let low = *sorted.get(k.checked_sub(1)?)?;
    Some(MedianInterval { low, high: sorted[n - k], level: 1.0 - 2.0 * below })
}

/// Change between paired values, in percent of the base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedChange {
    pub percent: f64,
    /// 95 % interval; `None` for fewer than six pairs, whose interval is unbounded.
    pub interval: Option<[f64; 2]>,
}

/// Change from `base` to `change`, from pairs that were measured one after the other: Hodges and
/// Lehmann's estimate of the log-ratios, with the shifts that the signed-rank test does not reject
/// ([`super::timed`]). `None` without pairs, and if a value is not positive.
pub fn paired_change(base: &[f64], change: &[f64]) -> Option<PairedChange> {
    if base.len() != change.len() {
        return None;
    }
    let ratio = |(base, change): (&f64, &f64)| log_ratio(&[*base], &[*change]);
    let ratios: Vec<f64> = base.iter().zip(change).map(ratio).collect::<Option<_>>()?;
    let Interval { estimate, low, high } = SignedRank::new(&ratios).interval(ALPHA)?;
    let percent = |log: f64| log.exp_m1() * 100.0;
    let is_bounded = low.is_finite() && high.is_finite();
    let interval = is_bounded.then(|| [percent(low), percent(high)]);
    Some(PairedChange { percent: percent(estimate), interval })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_intervals_have_nine_of_ten_values() {
        let times: Vec<_> = (0..200).map(|round| [100, 100 + 64 * round]).collect();
        assert_eq!(cost_interval(&times, 64.0), [10.0, 189.0]);
        // With things the time is smaller than without, so the cost is cut at 0.
        assert_eq!(cost_interval(&[[100, 90]; 60], 64.0), [0.0, 0.0]);
        assert_eq!(cost_interval(&[], 64.0), [0.0, 0.0]);
    }

    #[test]
    fn median_intervals_have_ranks_and_levels_of_the_binomial_table() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        // Number of values, rank from both ends, and level, from table A3 with p = 1/2 of Conover,
        // Practical Nonparametric Statistics.
        for (n, rank, level) in [(6, 1, 0.96875), (8, 1, 0.992_187_5), (9, 2, 0.960_937_5)] {
            let interval = median_interval(&values[..n]).unwrap();
            assert_eq!((interval.low, interval.high), (rank as f64, (n + 1 - rank) as f64), "{n}");
            assert!((interval.level - level).abs() < 1e-12, "{n}: {interval:?}");
        }
        let ten = median_interval(&values[..10]).unwrap();
        assert_eq!((ten.low, ten.high), (2.0, 9.0));
        assert!((ten.level - (1.0 - 22.0 / 1024.0)).abs() < 1e-12, "{ten:?}");
        for n in 0..6 {
            assert_eq!(median_interval(&values[..n]), None, "{n}");
        }
    }

    #[test]
    fn median_intervals_of_many_values_equal_the_normal_approximation() {
        for n in [1000, 2000, 10_000_usize] {
            let values: Vec<f64> = (1..=n).map(|value| value as f64).collect();
            let interval = median_interval(&values).unwrap();
            let half = 1.96 * (n as f64).sqrt() / 2.0;
            let middle = (n as f64 + 1.0) / 2.0;
            assert!((interval.low - (middle - half)).abs() < 1.5, "{interval:?}");
            assert!((interval.high - (middle + half)).abs() < 1.5, "{interval:?}");
            assert!((0.95..0.955).contains(&interval.level), "{interval:?}");
        }
    }

    #[test]
    fn a_paired_change_is_in_percent_of_the_base() {
        // The table of 2009, one pair of each.
        let percent = |base, change| paired_change(&[base], &[change]).unwrap().percent;
        assert_eq!(format!("{:+.2}", percent(1311.554526, 1360.624932)), "+3.74");
        assert_eq!(format!("{:+.2}", percent(1957153827.0, 2161280486.0)), "+10.43");
        assert_eq!(format!("{:+.2}", percent(2161280486.0, 1957153827.0)), "-9.44");
        // A drift that affects both values of a pair equally has no influence.
        let drifting = paired_change(&[1.0, 10.0, 100.0], &[2.0, 20.0, 200.0]).unwrap();
        assert!((drifting.percent - 100.0).abs() < 1e-9, "{drifting:?}");
        assert_eq!(paired_change(&[1.0, 0.0], &[1.0, 1.0]), None);
        assert_eq!(paired_change(&[1.0], &[1.0, 1.0]), None);
        assert_eq!(paired_change(&[], &[]), None);
    }

    #[test]
    fn six_pairs_have_an_interval_and_five_do_not() {
        let base = [100.0; 6];
        let change = [101.0, 102.0, 103.0, 104.0, 105.0, 106.0];
        // By chance all six have the same sign in 2 of 64 cases, which is less than 5 %. So the
        // interval extends from the smallest to the largest change.
        let [low, high] = paired_change(&base, &change).unwrap().interval.unwrap();
        assert!((low - 1.0).abs() < 1e-9 && (high - 6.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(paired_change(&base[..5], &change[..5]).unwrap().interval, None);
        // Equal values have a change of exactly 0.
        let same = paired_change(&base, &base).unwrap();
        assert_eq!(same, PairedChange { percent: 0.0, interval: Some([0.0, 0.0]) });
    }
}
