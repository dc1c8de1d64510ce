use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::random::Random;

/// Judges with a threshold in percent of the base.
fn judge_percent(base: &[f64], change: &[f64], percent: f64) -> Option<Difference> {
    judge(base, change, |median| percent / 100.0 * base[median].abs())
}

fn decide(base: &[f64], change: &[f64], threshold_percent: f64) -> Decision {
    judge_percent(base, change, threshold_percent)
        .expect("both sides have equally many values")
        .decision
}

#[test]
fn range_is_largest_minus_smallest() {
    assert_eq!(range(&[]), 0.0);
    assert_eq!(range(&[7.0]), 0.0);
    assert_eq!(range(&[3.0, -1.0, 2.0]), 4.0); // 3 - -1
}

#[test]
fn median_index_is_the_first_index_of_the_lower_median() {
    assert_eq!(median_index(&[]), None);
    assert_eq!(median_index(&[5.0]), Some(0));
    assert_eq!(median_index(&[9.0, 1.0, 5.0]), Some(2)); // sorted 1 5 9, the middle is 5
    assert_eq!(median_index(&[4.0, 1.0, 3.0, 2.0]), Some(3)); // sorted 1 2 3 4, lower middle is 2
    assert_eq!(median_index(&[8.0, 2.0, 2.0, 2.0, 1.0]), Some(1)); // 2, first seen at 1
}

#[test]
fn equal_pairs_are_the_same_for_any_number_and_noise() {
    assert_eq!(decide(&[100.0], &[100.0], 0.0), Decision::Same);
    assert_eq!(decide(&[100.0, 170.0, 90.0], &[100.0, 170.0, 90.0], 0.0), Decision::Same);
}

#[test]
fn four_layouts_are_too_few() {
    assert_eq!(decide(&[100.0; 4], &[200.0; 4], 0.0), Decision::TooFew);
    assert_eq!(decide(&[100.0, 100.0], &[100.0, 101.0], 50.0), Decision::TooFew);
    assert_eq!(decide(&[100.0; 5], &[200.0; 5], 0.0), Decision::Slower);
}

#[test]
fn empty_and_unequal_sides_have_no_difference() {
    assert_eq!(judge_percent(&[], &[], 0.0), None);
    assert_eq!(judge_percent(&[1.0], &[1.0, 2.0], 0.0), None);
}

#[test]
fn the_gap_must_exceed_the_noise() {
    let base = [100.0, 102.0, 101.0, 100.0, 101.0]; // range 2
    // Ranges 2 and 1, noise 2; gap 104 - 102 = 2: not above 2.
    assert_eq!(decide(&base, &[104.0, 105.0, 104.0, 104.0, 105.0], 0.0), Decision::Undetected);
    // Gap 105 - 102 = 3 > 2.
    assert_eq!(decide(&base, &[105.0, 106.0, 105.0, 105.0, 106.0], 0.0), Decision::Slower);
    // A noisier change: range 4, gap 3.
    assert_eq!(decide(&base, &[105.0, 109.0, 105.0, 105.0, 109.0], 0.0), Decision::Undetected);
    // Downwards: gap 100 - 97 = 3 > 2.
    assert_eq!(decide(&base, &[96.0, 97.0, 96.0, 96.0, 97.0], 0.0), Decision::Faster);
}

#[test]
fn one_instruction_is_a_change_without_noise() {
    assert_eq!(decide(&[98.0; 5], &[99.0; 5], 0.0), Decision::Slower);
}

#[test]
fn a_delta_equal_to_the_threshold_is_a_change() {
    // 1 of 1000 is 0.1 %.
    assert_eq!(decide(&[1000.0; 5], &[1001.0; 5], 0.1), Decision::Slower);
    assert_eq!(decide(&[1000.0; 5], &[1001.0; 5], 0.11), Decision::Small);
    // Within the noise no change is seen, whatever the threshold.
    let base = [1000.0, 1001.0, 1000.0, 1001.0, 1000.0];
    assert_eq!(decide(&base, &[1001.0; 5], 0.11), Decision::Undetected);
    assert_eq!(decide(&[1000.0; 5], &[999.0; 5], 0.1), Decision::Faster);
}

#[test]
fn a_base_of_zero_has_no_threshold() {
    assert_eq!(decide(&[0.0; 5], &[1.0; 5], 5.0), Decision::Slower);
}

#[test]
fn a_difference_has_its_deltas_noise_and_detectable_deltas() {
    // Deltas 5, 3, 7, 5, 5; sorted 3 5 5 5 7, so the median is pair 0. Ranges 2 and 4, noise 4.
    let (base, change) = ([100.0, 102.0, 102.0, 101.0, 101.0], [105.0, 105.0, 109.0, 106.0, 106.0]);
    let finding = judge_percent(&base, &change, 1.0).unwrap();
    assert_eq!((finding.median, finding.smallest_delta, finding.largest_delta), (0, 3.0, 7.0));
    assert_eq!(finding.noise, 4.0);
    // Up: the gap is 105 - 102 = 3 of 4, so 1 more than 5. Down: the gap is 100 - 109 = -9, so 13
    // less than 5.
    assert_eq!(finding.detectable_deltas, Some(DetectableDeltas { slower: 6.0, faster: 8.0 }));
    assert_eq!((finding.decision, finding.detectable()), (Decision::Undetected, Some(8.0)));
    // Without noise, the detectable delta is the threshold: 1 % of 200.
    assert_eq!(judge_percent(&[200.0; 5], &[200.0; 5], 1.0).unwrap().detectable(), Some(2.0));
    // With a verdict, the detectable delta of its direction: up 4 - 4 + 6, down 4 + 10 - 6.
    let finding = judge_percent(&base, &change.map(|value| value + 2.0), 1.0).unwrap();
    assert_eq!((finding.decision, finding.detectable()), (Decision::Slower, Some(6.0)));
}

/// In the last two cases, twice the noise would be a wrong estimate of the detectable delta.
#[test]
fn a_delta_reaches_the_detectable_one_only_with_a_verdict() {
    let noisy = [1000.0, 1001.0, 1000.5, 1000.2, 1000.9];
    let wide = judge_percent(&noisy, &noisy.map(|value| value + 2.0), 0.0).unwrap();
    assert_eq!((wide.decision, wide.detectable()), (Decision::Undetected, Some(2.0)));
    // Each Side has an outlier towards the other Side: twice the noise is 2.
    let (base, change) =
        ([1000.0, 1000.0, 1000.0, 1000.0, 1001.0], [1002.9, 1002.9, 1001.9, 1002.9, 1002.9]);
    let near = judge_percent(&base, &change, 0.0).unwrap();
    assert_eq!(near.decision, Decision::Undetected);
    assert!((near.detectable().unwrap() - 3.0).abs() < 1e-9, "{near:?}"); // the delta is 2.9
    // Each Side has an outlier away from the other Side: 1.1 is more than the noise.
    let (base, change) =
        ([1000.0, 1001.0, 1001.0, 1001.0, 1001.0], [1002.1, 1002.1, 1002.1, 1003.1, 1002.1]);
    let far = judge_percent(&base, &change, 0.0).unwrap();
    assert_eq!(far.decision, Decision::Slower);
    assert!((far.detectable().unwrap() - 1.0).abs() < 1e-9, "{far:?}"); // the delta is 1.1
}

fn mirrored(decision: Decision) -> Decision {
    match decision {
        Decision::Slower => Decision::Faster,
        Decision::Faster => Decision::Slower,
        other => other,
    }
}

/// Pairs of counts: integers that are often equal, and sometimes far apart.
fn pairs() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let near = (1000u32..1010, 1000u32..1020);
    let far = (0u32..5000, 0u32..5000);
    proptest::collection::vec(prop_oneof![4 => near, 1 => far], 1..9)
}

/// Pairs whose Sides have many, ten, two or one possible values each.
fn noisy_pairs(layouts: Range<usize>) -> impl Strategy<Value = Vec<(u32, u32)>> {
    let noise = || prop_oneof![Just(1u32), Just(2), Just(10), Just(1000)];
    (noise(), noise(), 1u32..50, 0u32..3000, layouts).prop_flat_map(
        |(base_values, change_values, step, above, layouts)| {
            let base = (0..base_values).prop_map(move |index| 1500 + step * index);
            let change = (0..change_values).prop_map(move |index| above + step * index);
            proptest::collection::vec((base, change), layouts)
        },
    )
}

fn thresholds() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..2.0, 0.0..50.0]
}

fn sides(pairs: &[(u32, u32)]) -> (Vec<f64>, Vec<f64>) {
    pairs.iter().map(|(base, change)| (f64::from(*base), f64::from(*change))).unzip()
}

proptest! {
    /// The threshold is 0 here, because a threshold is a share of the base and would differ.
    #[test]
    fn swapping_the_sides_mirrors_the_decision(pairs in pairs()) {
        let (base, change) = sides(&pairs);
        prop_assert_eq!(decide(&base, &change, 0.0), mirrored(decide(&change, &base, 0.0)));
    }

    /// Factors are powers of two, which are exact in `f64`.
    #[test]
    fn a_common_factor_changes_nothing(pairs in pairs(), power in -20i32..20, percent in 0.0..2.0) {
        let (base, change) = sides(&pairs);
        let factor = f64::powi(2.0, power);
        let scaled = |values: &[f64]| values.iter().map(|v| v * factor).collect::<Vec<_>>();
        let plain = judge_percent(&base, &change, percent).unwrap();
        let scaled = judge_percent(&scaled(&base), &scaled(&change), percent).unwrap();
        prop_assert_eq!(scaled.decision, plain.decision);
        prop_assert_eq!(scaled.median, plain.median);
        prop_assert_eq!(scaled.detectable(), plain.detectable().map(|delta| delta * factor));
    }

    /// A change has a gap, so the deltas of all pairs have its direction.
    #[test]
    fn all_deltas_of_a_change_have_its_direction(pairs in pairs()) {
        let (base, change) = sides(&pairs);
        let finding = judge_percent(&base, &change, 0.0).unwrap();
        match finding.decision {
            Decision::Slower => prop_assert!(finding.smallest_delta > finding.noise),
            Decision::Faster => prop_assert!(finding.largest_delta < -finding.noise),
            _ => {}
        }
    }

    /// Shifts the median delta just above and just below the detectable delta of each direction:
    /// only the former has a verdict.
    #[test]
    fn verdicts_begin_at_the_detectable_deltas(
        pairs in noisy_pairs(5..9), percent in thresholds()
    ) {
        let (base, change) = sides(&pairs);
        let found = judge_percent(&base, &change, percent).unwrap();
        let delta = change[found.median] - base[found.median];
        let with_delta = |new_delta: f64| {
            let shifted: Vec<f64> =
                change.iter().map(|value| value + new_delta - delta).collect();
            decide(&base, &shifted, percent)
        };
        let DetectableDeltas { slower, faster } = found.detectable_deltas.unwrap();
        prop_assert!(found.noise <= slower && found.noise <= faster);
        prop_assert_eq!(with_delta(slower.floor() + 1.0), Decision::Slower);
        prop_assert_ne!(with_delta(slower.ceil() - 1.0), Decision::Slower);
        prop_assert_eq!(with_delta(-faster.floor() - 1.0), Decision::Faster);
        prop_assert_ne!(with_delta(1.0 - faster.ceil()), Decision::Faster);
    }

    /// A row with a verdict has no smaller delta, a row without a verdict no larger one.
    #[test]
    fn verdicts_agree_with_the_detectable_delta(
        pairs in noisy_pairs(5..9), percent in thresholds()
    ) {
        let (base, change) = sides(&pairs);
        let found = judge_percent(&base, &change, percent).unwrap();
        let size = (change[found.median] - base[found.median]).abs();
        let detectable = found.detectable().unwrap();
        match found.decision {
            Decision::Slower | Decision::Faster => prop_assert!(size >= detectable),
            _ => prop_assert!(size <= detectable),
        }
    }

    #[test]
    fn with_few_layouts_nothing_is_detectable(
        pairs in noisy_pairs(1..5), shift in 0u32..1_000_000
    ) {
        let (base, change) = sides(&pairs);
        let shifted: Vec<f64> = change.iter().map(|value| value + f64::from(shift)).collect();
        let found = judge_percent(&base, &shifted, 0.0).unwrap();
        prop_assert!(matches!(found.decision, Decision::Same | Decision::TooFew));
        prop_assert_eq!(found.detectable(), None);
    }
}

// Simulations of false verdicts: both Sides draw from one distribution. The draws are independent,
// which is the worst case, because the pairing by Layout then cancels nothing. There is no
// threshold, and the seed is fixed. The rates with three and four Layouts are the reason for
// `MIN_LAYOUTS`.

const TRIALS: usize = 20_000;

/// Nearly normal: the sum of twelve uniform numbers minus six has mean 0 and variance 12 × 1/12 =
/// 1.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
}

/// Cauchy distribution, which has neither mean nor variance.
fn heavy_tailed(random: &mut Random) -> f64 {
    (std::f64::consts::PI * (random.unit() - 0.5)).tan()
}

/// Two values, as counts often have: under a Layout, data either cross a page or do not.
fn two_valued(random: &mut Random) -> f64 {
    if random.coin() { 40.0 } else { 0.0 }
}

/// Number of rows among [`TRIALS`] that the rule would call a change without `MIN_LAYOUTS`.
fn false_verdicts(layouts: usize, mut noise: impl FnMut(&mut Random) -> f64) -> usize {
    let mut random = Random::new(20_260_801);
    let mut side = || -> Vec<f64> { (0..layouts).map(|_| 1e6 + noise(&mut random)).collect() };
    (0..TRIALS).filter(|_| separation(&side(), &side()).is_some()).count()
}

// Bounds of the tests are above the rates that were measured with this seed. Rates over 4 000 000
// trials, in percent:
//
// Layouts  normal  heavy-tailed  two-valued
//       3   0.765        0.238       3.13
//       4   0.058        0.010       0.77
//       5   0.0043       0.0004      0.19

#[test]
fn five_layouts_rarely_give_false_verdicts() {
    assert_eq!(MIN_LAYOUTS, 5);
    assert!(false_verdicts(5, normal) <= 10); // measured: 1, 0.005 %
    assert!(false_verdicts(5, heavy_tailed) <= 10); // measured: 0
}

#[test]
fn two_valued_noise_has_the_binomial_rate_of_false_verdicts() {
    // 2 / 2^10 of 20 000 is 39. The gap cannot help if each Side has only one of the values.
    assert!(false_verdicts(5, two_valued) <= 60); // measured: 35, 0.18 %
}

#[test]
fn fewer_layouts_give_too_many_false_verdicts() {
    assert!((100..=250).contains(&false_verdicts(3, normal))); // measured: 155, 0.78 %
    assert!((500..=750).contains(&false_verdicts(3, two_valued))); // 2 / 2^6: 625; measured: 633
    assert!((100..=250).contains(&false_verdicts(4, two_valued))); // 2 / 2^8: 156; measured: 158
}
