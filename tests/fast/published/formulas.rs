//! Formulas that only the published documents need.

use ktax::stats::tables::mean;

/// The largest population standard deviation that values between `least` and `most` with this
/// `mean` can have (Bhatia and Davis, 2000): all of them at the two ends. A printed deviation above
/// it has the wrong unit. `None` if the mean does not lie between.
pub fn widest_std_dev(least: f64, mean: f64, most: f64) -> Option<f64> {
    (least <= mean && mean <= most).then(|| ((most - mean) * (mean - least)).sqrt())
}

/// The standard deviation of these values and no others: divided by n, not by n - 1. Twice through
/// the values instead of a sum of squares, which would cancel. `None` for no values.
pub fn population_std_dev(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let squares: Vec<f64> = values.iter().map(|value| (value - centre).powi(2)).collect();
    mean(&squares).map(f64::sqrt)
}

#[test]
fn the_deviation_is_of_these_values_alone() {
    assert_eq!(population_std_dev(&[]), None);
    assert_eq!(population_std_dev(&[5.0]), Some(0.0));
    // The textbook's eight: mean 5, squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32, 32 / 8 = 4.
    assert_eq!(population_std_dev(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), Some(2.0));
}

#[test]
fn no_values_are_wider_than_the_widest() {
    assert_eq!(widest_std_dev(0.0, 5.0, 10.0), Some(5.0)); // half at 0, half at 10
    assert_eq!(population_std_dev(&[0.0, 10.0]), Some(5.0));
    assert_eq!(widest_std_dev(7.0, 7.0, 7.0), Some(0.0));
    assert_eq!(widest_std_dev(8.0, 7.0, 9.0), None);
    assert_eq!(widest_std_dev(8.0, f64::NAN, 9.0), None);
}
