use super::*;

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9
}

const GROUPS: [&[f64]; 4] = [&[1.0, 1.2, 0.9], &[1.5, 1.7], &[0.7, 0.8, 0.75, 0.9, 0.6], &[1.1]];

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
    assert!(near(shamos(&GROUPS).unwrap(), 0.1572537123761296)); // numpy, scipy's normal quartile
    assert_eq!(shamos(&[&[1.0], &[2.0]]), None);
    let mut random = crate::random::Random::new(1);
    let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    let mut values: Vec<f64> = (0..200).map(|_| normal()).collect();
    assert!((shamos(&[&values]).unwrap() - 1.0).abs() < 0.15);
    values[..10].fill(1e6);
    assert!((shamos(&[&values]).unwrap() - 1.0).abs() < 0.25);
}
