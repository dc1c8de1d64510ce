//! Log-linear histograms: eight buckets for each power of two, so that a quantile is known to an
//! eighth of itself, for any size of values.

/// Number of buckets of all 64-bit values.
pub const BUCKETS: usize = 512;

/// Powers of two below this have a bucket for each value; above, each has [`STEPS`] buckets.
const STEPS_LOG2: u32 = 3;
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

/// Least value of a bucket, and the one after its largest; u128, because the last one's is 2^64.
fn bounds(index: usize) -> (u128, u128) {
    let (power, step) = (index as u64 / STEPS, index as u64 % STEPS);
    match power {
        0 => (u128::from(step), u128::from(step) + 1),
        _ => {
            let width = 1u128 << (power - 1);
            let least = u128::from(STEPS + step) * width;
            (least, least + width)
        }
    }
}

/// Value below which this share lies, spread evenly within its bucket; `None` without values.
pub fn quantile(counts: &[u64], share: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let wanted = share * total as f64;
    let mut below = 0.0;
    for (index, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let here = *count as f64;
        if below + here >= wanted {
            let (least, end) = bounds(index);
            let within = (wanted - below) / here;
            return Some(least as f64 + within * (end - least - 1) as f64);
        }
        below += here;
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
            let (least, end) = bounds(bucket(value));
            assert_eq!((least, end), (u128::from(value), u128::from(value) + 1));
        }
        assert!(bucket(u64::MAX) < BUCKETS);
        assert_eq!(bounds(bucket(u64::MAX)).1, 1 << 64);
    }

    #[test]
    fn a_quantile_is_where_it_should_be() {
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
            let (least, end) = bounds(bucket(value));
            prop_assert!((least..end).contains(&u128::from(value)));
            // No bucket is wider than an eighth of its values.
            prop_assert!(value < STEPS || (end - least) * 8 <= least);
        }

        #[test]
        fn a_quantile_of_equal_values_is_off_by_an_eighth_at_most(value in 1u64..1 << 60) {
            let mut counts = vec![0; BUCKETS];
            counts[bucket(value)] = 7;
            let median = quantile(&counts, 0.5).unwrap();
            prop_assert!((median - value as f64).abs() <= value as f64 / 8.0);
        }
    }
}
