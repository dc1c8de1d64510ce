//! Repeatability of a measurement, and its comparison with another one.

use super::timed::{Interval, SignedRank, log_ratio};

/// Probability that an interval misses its true value.
const ALPHA: f64 = 0.05;

/// Cost of one of `count` things, from repeated times without any and with all of them: from the
/// 5th to the 95th percentile, never below 0.
pub fn nine_of_ten(times: &[[u64; 2]], count: f64) -> [f64; 2] {
    let mut empty: Vec<u64> = times.iter().map(|[empty, _]| *empty).collect();
    empty.sort_unstable();
    let empty = empty.get(empty.len() / 2).copied().unwrap_or_default();
    let each = times.iter().map(|[_, full]| full.saturating_sub(empty) as f64 / count);
    let mut each: Vec<f64> = each.collect();
    each.sort_by(f64::total_cmp);
    let beyond = each.len() / 20;
    let value_at = |index: usize| each.get(index).copied().unwrap_or_default();
    [value_at(beyond), value_at((each.len().saturating_sub(1 + beyond)).max(beyond))]
}

/// Distribution-free interval of the median, with its coverage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Between {
    pub low: f64,
    pub high: f64,
    /// Coverage, from 0.95 to 1.
    pub level: f64,
}

/// Interval of the median, from sorted values. Each of n independent values is below the median
/// with chance 1/2, whatever the distribution. So the k-th value from below is above it with the
/// chance of fewer than k heads of n coins, the k-th from above is below it with an equal chance,
/// and the coverage of the two is 1 - 2 P(heads < k). The largest k with 95 % or more is taken.
/// `None` for fewer than six values: five have 1 - 2/32 = 93.75 %.
pub fn median_between(sorted: &[f64]) -> Option<Between> {
    let n = sorted.len();
    // In logarithms: 2^-n is 0 for n > 1074.
    let mut chance = -(n as f64) * std::f64::consts::LN_2;
    let (mut k, mut below) = (0, 0.0);
    while k < n && 2.0 * (below + chance.exp()) <= ALPHA {
        below += chance.exp();
        k += 1;
        chance += ((n - k + 1) as f64 / k as f64).ln();
    }
    let low = *sorted.get(k.checked_sub(1)?)?;
    Some(Between { low, high: sorted[n - k], level: 1.0 - 2.0 * below })
}

/// Ratio of paired values, in percent above 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedChange {
    pub percent: f64,
    /// 95 % interval; `None` for fewer than six pairs, which exclude nothing.
    pub between: Option<[f64; 2]>,
}

/// Distance of `change` above `base`, in pairs that ran one after the other: Hodges and Lehmann's
/// estimate of the logarithms of their ratios, and the shifts that the signed-rank test does not
/// reject ([`super::timed`]). `None` if a pair has no ratio, because a value is 0, and without
/// pairs.
pub fn paired_change(base: &[f64], change: &[f64]) -> Option<PairedChange> {
    if base.len() != change.len() {
        return None;
    }
    let ratio = |(base, change): (&f64, &f64)| log_ratio(&[*base], &[*change]);
    let ratios: Vec<f64> = base.iter().zip(change).map(ratio).collect::<Option<_>>()?;
    let Interval { estimate, low, high } = SignedRank::new(&ratios).interval(ALPHA)?;
    let percent = |log: f64| log.exp_m1() * 100.0;
    let is_bounded = low.is_finite() && high.is_finite();
    let between = is_bounded.then(|| [percent(low), percent(high)]);
    Some(PairedChange { percent: percent(estimate), between })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_takes_what_nine_of_ten_rounds_say() {
        let times: Vec<_> = (0..200).map(|round| [100, 100 + 64 * round]).collect();
        assert_eq!(nine_of_ten(&times, 64.0), [10.0, 189.0]);
        // The counter's own time varies by more than nothing takes.
        assert_eq!(nine_of_ten(&[[100, 90]; 60], 64.0), [0.0, 0.0]);
        assert_eq!(nine_of_ten(&[], 64.0), [0.0, 0.0]);
    }

    #[test]
    fn the_median_lies_where_the_binomial_table_says() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        // n, the rank from both ends, and the level: Conover, Practical Nonparametric Statistics,
        // table A3, p = 1/2.
        for (n, rank, level) in [(6, 1, 0.96875), (8, 1, 0.992_187_5), (9, 2, 0.960_937_5)] {
            let between = median_between(&values[..n]).unwrap();
            assert_eq!((between.low, between.high), (rank as f64, (n + 1 - rank) as f64), "{n}");
            assert!((between.level - level).abs() < 1e-12, "{n}: {between:?}");
        }
        let ten = median_between(&values[..10]).unwrap();
        assert_eq!((ten.low, ten.high), (2.0, 9.0));
        assert!((ten.level - (1.0 - 22.0 / 1024.0)).abs() < 1e-12, "{ten:?}");
        for n in 0..6 {
            assert_eq!(median_between(&values[..n]), None, "{n}");
        }
    }

    #[test]
    fn many_values_give_what_the_normal_approximation_says() {
        for n in [1000, 2000, 10_000_usize] {
            let values: Vec<f64> = (1..=n).map(|value| value as f64).collect();
            let between = median_between(&values).unwrap();
            let half = 1.96 * (n as f64).sqrt() / 2.0;
            let middle = (n as f64 + 1.0) / 2.0;
            assert!((between.low - (middle - half)).abs() < 1.5, "{between:?}");
            assert!((between.high - (middle + half)).abs() < 1.5, "{between:?}");
            assert!((0.95..0.955).contains(&between.level), "{between:?}");
        }
    }

    #[test]
    fn a_change_is_of_the_base_and_up_is_up() {
        // The table of 2009, one pair of each.
        let percent = |base, change| paired_change(&[base], &[change]).unwrap().percent;
        assert_eq!(format!("{:+.2}", percent(1311.554526, 1360.624932)), "+3.74");
        assert_eq!(format!("{:+.2}", percent(1957153827.0, 2161280486.0)), "+10.43");
        assert_eq!(format!("{:+.2}", percent(2161280486.0, 1957153827.0)), "-9.44");
        // Each pair has a ratio of its own: a drift of both does not count.
        let drifting = paired_change(&[1.0, 10.0, 100.0], &[2.0, 20.0, 200.0]).unwrap();
        assert!((drifting.percent - 100.0).abs() < 1e-9, "{drifting:?}");
        assert_eq!(paired_change(&[1.0, 0.0], &[1.0, 1.0]), None);
        assert_eq!(paired_change(&[1.0], &[1.0, 1.0]), None);
        assert_eq!(paired_change(&[], &[]), None);
    }

    #[test]
    fn six_pairs_bound_a_change_and_five_do_not() {
        let base = [100.0; 6];
        let change = [101.0, 102.0, 103.0, 104.0, 105.0, 106.0];
        // All six have one sign in 2 of 64 tosses: the interval is from the least to the most.
        let [low, high] = paired_change(&base, &change).unwrap().between.unwrap();
        assert!((low - 1.0).abs() < 1e-9 && (high - 6.0).abs() < 1e-9, "{low} {high}");
        assert_eq!(paired_change(&base[..5], &change[..5]).unwrap().between, None);
        // A constant ratio is no change, to the last digit.
        let same = paired_change(&base, &base).unwrap();
        assert_eq!(same, PairedChange { percent: 0.0, between: Some([0.0, 0.0]) });
    }
}
