//! Log-ratios of pairs, a robust spread, and the components of variance.

use crate::tables::median;

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
