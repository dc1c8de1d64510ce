use super::*;
use proptest::prelude::*;

/// Differences for which tests/statistics/reference.py computes the expected values.
const DIFFERENCES: [f64; 25] = [
    -0.013794, 0.017217, -0.04689, 0.051873, 0.029149, 0.001239, 0.000642, 0.019115, 0.00197,
    0.003223, 0.031602, 0.025441, 0.008076, 0.007436, 0.014827, -0.008421, -0.002113, 0.026448,
    0.006086, -0.031233, -0.004318, 0.029699, 0.003032, 0.005538, 0.029255,
];

fn near(one: f64, other: f64) -> bool {
    one == other || (one - other).abs() <= 1e-9
}

fn p(differences: &[f64]) -> f64 {
    SignedRank::new(differences).p_value()
}

fn interval(differences: &[f64], alpha: f64) -> Interval {
    SignedRank::new(differences).interval(alpha).expect("some differences")
}

#[test]
fn estimate_p_value_and_intervals_equal_those_of_scipy() {
    assert!(near(p(&DIFFERENCES), 0.029578447341918945));
    let five = interval(&DIFFERENCES, 0.05);
    assert!(near(five.estimate, 0.0089295));
    assert!(near(five.low, 0.0009405) && near(five.high, 0.0164385), "{five:?}");
    let strict = interval(&DIFFERENCES, 0.001);
    assert!(near(strict.low, -0.006576) && near(strict.high, 0.024132), "{strict:?}");
}

#[test]
fn p_values_with_ties_and_zeros_equal_enumerated_ones() {
    let mixed = [0.0, 0.0, 1.0, 1.0, 2.0, -1.0, 3.0, 5.0, 5.0, -2.0, 4.0, 4.0];
    assert!(near(p(&mixed), 0.03515625));
    assert!(near(p(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0]), 0.021484375));
    assert!(near(p(&[0.0, 0.0, 0.0, 1.0, 2.0]), 0.5));
    assert!(near(p(&[2.0, 2.0, -2.0, 2.0]), 0.625));
}

#[test]
fn p_values_of_many_ranks_equal_those_of_scipy_or_of_integer_counts() {
    for (count, sums) in [
        (
            60,
            [(400, 9.172043091882319e-05), (640, 0.042723401180432885), (900, 0.9156224584788996)],
        ),
        (
            200,
            [
                (6000, 5.003084992669022e-07),
                (8400, 0.04398107896536342),
                (10000, 0.9519462676896153),
            ],
        ),
        (
            300,
            [
                (14000, 6.970935450032521e-09),
                (18000, 0.0022752676223351267),
                (22000, 0.7028321403048523),
            ],
        ),
    ] {
        for (sum, wanted) in sums {
            let p = NullDistribution::untied(count).two_sided(2 * sum);
            assert!((p / wanted - 1.0).abs() < 1e-9, "{count} {sum}: {p}");
        }
    }
}

#[test]
fn the_series_is_accurate_in_the_tails() {
    // For 300 ranks compare the series with the exact distribution.
    let ranks: Vec<u64> = (1..=300).map(|rank| 2 * rank).collect();
    let (exact, series) = (NullDistribution::new(&ranks), NullDistribution::series(&ranks));
    for (sum, within) in [(14000, 0.15), (18000, 2e-3), (19600, 1e-4), (22000, 1e-4)] {
        let (exact, series) = (exact.two_sided(2 * sum), series.two_sided(2 * sum));
        assert!((series / exact - 1.0).abs() < within, "{sum}: {exact} {series}");
    }
    let many: Vec<f64> = (0..301).map(|index| f64::from(index) - 100.5).collect();
    assert!(p(&many) < 1e-6 && interval(&many, 0.05).excludes_zero());
}

#[test]
fn few_and_equal_differences() {
    assert_eq!(SignedRank::new(&[]).interval(0.05), None);
    assert_eq!(SignedRank::new(&[]).p_value(), 1.0);
    let one = interval(&[0.3], 0.05);
    assert_eq!((one.estimate, one.low, one.high), (0.3, f64::NEG_INFINITY, f64::INFINITY));
    assert_eq!(p(&[0.3]), 1.0);
    // Five equal signs have p = 2 / 2^5 = 0.0625, six 0.03125.
    assert_eq!(interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05).low, f64::NEG_INFINITY);
    let six = interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.05);
    assert_eq!((six.estimate, six.low, six.high), (3.5, 1.0, 6.0));
    // Equal differences have the same p-values, and an interval without width.
    assert_eq!(interval(&[2.0; 5], 0.05).high, f64::INFINITY);
    let tied = interval(&[2.0; 6], 0.05);
    assert_eq!((tied.estimate, tied.low, tied.high), (2.0, 2.0, 2.0));
    let zeros = interval(&[0.0; 20], 0.05);
    assert_eq!((p(&[0.0; 20]), zeros.low, zeros.high), (1.0, 0.0, 0.0));
}

/// p-value by enumeration of all 2^n signs of the ranks.
fn enumerated_p_value(differences: &[f64]) -> f64 {
    let rank = |difference: f64| {
        let below = differences.iter().filter(|value| value.abs() < difference.abs()).count();
        let tied = differences.iter().filter(|value| value.abs() == difference.abs()).count();
        (2 * below + tied + 1) as i64
    };
    let signed: Vec<(i64, f64)> = differences
        .iter()
        .filter(|value| **value != 0.0)
        .map(|value| (rank(*value), *value))
        .collect();
    let sum = |is_up: &dyn Fn(usize) -> bool| -> i64 {
        signed.iter().enumerate().map(|(i, (rank, _))| if is_up(i) { *rank } else { -rank }).sum()
    };
    let observed = sum(&|index| signed[index].1 > 0.0).abs();
    let as_extreme =
        (0..1u32 << signed.len()).filter(|signs| sum(&|i| signs >> i & 1 == 1).abs() >= observed);
    as_extreme.count() as f64 / f64::from(1u32 << signed.len())
}

/// Interval of the shifts that the enumerated test does not reject, from a scan over all gaps.
fn scanned_interval(differences: &[f64], alpha: f64) -> (f64, f64) {
    let mut means: Vec<f64> = differences
        .iter()
        .flat_map(|one| differences.iter().map(move |other| f64::midpoint(*one, *other)))
        .collect();
    means.sort_by(f64::total_cmp);
    means.dedup();
    let is_accepted = |shift: f64| {
        let shifted: Vec<f64> = differences.iter().map(|value| value - shift).collect();
        enumerated_p_value(&shifted) > alpha
    };
    let gaps = means.windows(2).filter(|gap| is_accepted(f64::midpoint(gap[0], gap[1])));
    let all: Vec<&[f64]> = gaps.collect();
    (all[0][0], all[all.len() - 1][1])
}

/// Differences in sixteenths, so that shifts and means are exact, and with few possible values, so
/// that ties are frequent.
fn coarse_differences(max_count: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((-40i32..40).prop_map(|value| f64::from(value) / 16.0), 1..max_count)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn p_values_equal_enumerated_ones(differences in coarse_differences(11)) {
        prop_assert!(near(p(&differences), enumerated_p_value(&differences)));
    }

    #[test]
    fn swapping_the_sides_negates_estimate_and_interval(
        differences in coarse_differences(30), alpha in 0.001..0.5
    ) {
        let swapped: Vec<f64> = differences.iter().map(|value| -value).collect();
        let (one, other) = (interval(&differences, alpha), interval(&swapped, alpha));
        prop_assert_eq!(one.estimate, -other.estimate);
        prop_assert_eq!((one.low, one.high), (-other.high, -other.low));
        prop_assert_eq!(p(&differences), p(&swapped));
    }

    #[test]
    fn estimate_and_interval_follow_linear_maps(
        differences in coarse_differences(30), shift in -8i32..8, power in 0u32..8
    ) {
        let (shift, factor) = (f64::from(shift), f64::from(1 << power));
        let mapped: Vec<f64> = differences.iter().map(|value| value * factor + shift).collect();
        let (one, other) = (interval(&differences, 0.05), interval(&mapped, 0.05));
        prop_assert_eq!(one.estimate * factor + shift, other.estimate);
        let expected = (one.low * factor + shift, one.high * factor + shift);
        prop_assert_eq!(expected, (other.low, other.high));
    }

    #[test]
    fn the_interval_has_the_shifts_that_the_test_accepts(
        differences in coarse_differences(10), alpha in 0.01..0.3
    ) {
        let found = interval(&differences, alpha);
        prop_assert!(found.low <= found.estimate && found.estimate <= found.high);
        prop_assume!(found.low.is_finite() && found.low < found.high);
        prop_assert_eq!((found.low, found.high), scanned_interval(&differences, alpha));
    }

    #[test]
    fn the_interval_and_the_p_value_agree(differences in coarse_differences(40)) {
        // Skip cases in which zero is the end of a gap: there the test has additional ties.
        let found = interval(&differences, 0.05);
        let is_end = |one: &f64| differences.iter().any(|other| one + other == 0.0);
        prop_assume!(!differences.iter().any(is_end));
        prop_assert_eq!(found.excludes_zero(), p(&differences) <= 0.05);
    }
}
