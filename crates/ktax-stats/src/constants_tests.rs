use super::*;
use crate::random::Random;

/// Instructions, misses of three caches, page walks, branch misses.
const SLOW: [f64; 6] = [0.4, 9.0, 28.0, 160.0, 35.0, 18.0];

/// Logarithm of a random factor with a median of 1. The sum of twelve uniform numbers has nearly a
/// normal distribution with a standard deviation of 1.
fn noise(random: &mut Random, deviation: f64) -> f64 {
    deviation * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0)
}

/// Rows like those of kernels: sizes over four powers of ten, and few of the rare things.
fn machine(seed: u64, rows: usize, costs: &[f64; 6], deviation: f64) -> Vec<Observation<6>> {
    let mut random = Random::new(seed);
    (0..rows)
        .map(|row| {
            let instructions = 100.0 * 10f64.powf(4.0 * random.unit());
            let mut share = |max: f64| instructions * max * random.unit().powi(3);
            let counts = [1.0, share(0.2), share(0.05), share(0.02), share(0.02), share(0.05)];
            let counts = [&[instructions][..], &counts[1..]].concat().try_into().unwrap();
            let fixed = 100.0 * random.below(4) as f64;
            let measured = (fixed + dot(&counts, costs)) * noise(&mut random, deviation).exp();
            Observation { group: row % 8, counts, fixed, measured }
        })
        .collect()
}

#[test]
fn constants_without_noise_are_exact() {
    let found = constants(&machine(1, 60, &SLOW, 0.0)).unwrap();
    for (value, cost) in found.values.iter().zip(SLOW) {
        assert!((value / cost - 1.0).abs() < 1e-6, "{found:?}");
    }
    assert!((found.error.0 - 1.0).abs() < 1e-6 && (found.error.1 - 1.0).abs() < 1e-6, "{found:?}");
    assert_eq!(found.groups, 8);
}

#[test]
fn costs_are_not_negative() {
    let free = [0.4, 0.0, 28.0, 0.0, 35.0, 18.0];
    for seed in 0..20 {
        let found = constants(&machine(seed, 60, &free, 0.1)).unwrap();
        assert!(found.values.iter().all(|value| *value >= 0.0), "{found:?}");
        assert!(found.values[1] < 1.5 && found.values[3] < 15.0, "{found:?}");
    }
}

#[test]
fn the_error_interval_covers_nine_of_ten_new_rows() {
    let (mut inside, mut all) = (0, 0);
    for seed in 0..40 {
        let found = constants(&machine(seed, 60, &SLOW, 0.2)).unwrap();
        for row in machine(seed + 1000, 50, &SLOW, 0.2) {
            let ratio = row.measured / row.predicted(&found.values);
            inside += usize::from(found.error.0 <= ratio && ratio <= found.error.1);
            all += 1;
        }
    }
    let share = f64::from(inside as u32) / f64::from(all);
    assert!((0.85..0.97).contains(&share), "{share}");
}

#[test]
fn rows_of_another_machine_lie_outside_the_error_interval() {
    let found = constants(&machine(1, 60, &SLOW, 0.1)).unwrap();
    let other = machine(2, 60, &SLOW.map(|cost| cost * 2.0), 0.1);
    let inside = other.iter().filter(|row| {
        row.fixed == 0.0 && row.measured / row.predicted(&found.values) <= found.error.1
    });
    assert_eq!(inside.count(), 0);
}

#[test]
fn the_fit_minimizes_ratios_not_differences() {
    // One thing, where the mean of ratios and the ratio of means are far apart.
    let observation = |counts: f64, measured| Observation {
        group: counts as usize % 2,
        counts: [counts],
        fixed: 0.0,
        measured,
    };
    let rows: Vec<_> = (1..=40)
        .map(|row| {
            observation(f64::from(row), f64::from(row) * if row % 4 < 2 { 1.2 } else { 1.0 / 1.2 })
        })
        .collect();
    let found = fit(&rows.iter().collect::<Vec<_>>()).values;
    assert!((found[0] - 1.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn undetermined_constants_are_refused() {
    let rows = machine(1, 60, &SLOW, 0.1);
    assert_eq!(constants(&rows[..29]), Err(NoConstants::TooFew(29)));
    let one = rows.iter().map(|row| Observation { group: 3, ..*row }).collect::<Vec<_>>();
    assert_eq!(constants(&one), Err(NoConstants::OneGroup));
    assert!(matches!(constants(&machine(1, 60, &SLOW, 1.0)), Err(NoConstants::TooWrong(_))));
    let nothing = rows.iter().map(|row| Observation { counts: [0.0; 6], ..*row });
    let nothing = constants(&nothing.collect::<Vec<_>>());
    assert!(matches!(nothing, Err(NoConstants::TooWrong(_))), "{nothing:?}");
    // Without the larger group, too few observations are left.
    let in_group = |group| move |row: &Observation<6>| Observation { group, ..*row };
    let large: Vec<_> =
        rows[..40].iter().map(in_group(0)).chain(rows[40..].iter().map(in_group(1))).collect();
    assert_eq!(constants(&large), Err(NoConstants::TooFew(20)));
}

#[test]
fn bounds_of_collinear_things_span_their_common_cost() {
    let twins = machine(1, 60, &SLOW, 0.0).into_iter().map(|row| {
        let [a, b, c, d, e, _] = row.counts;
        let counts = [a, b, c, d, e, e];
        Observation { counts, measured: row.fixed + dot(&counts, &SLOW), ..row }
    });
    let Constants { values, bounds, .. } = constants(&twins.collect::<Vec<_>>()).unwrap();
    assert!((values[4] + values[5] - 53.0).abs() < 1e-6, "{values:?}");
    // How the cost is split between the two is unknown.
    for (low, high) in &bounds[4..] {
        assert!(*low < 1e-6 && (high - 53.0).abs() < 1e-6, "{bounds:?}");
    }
}

/// Rows of a hierarchy of caches: a part of the misses of one cache also misses the next one, so
/// that their counts are correlated.
fn hierarchy(seed: u64, rows: usize) -> Vec<Observation<6>> {
    let mut random = Random::new(seed);
    (0..rows)
        .map(|row| {
            let instructions = 100.0 * 10f64.powf(4.0 * random.unit());
            let l1 = instructions * 0.1 * random.unit().powi(2);
            let references = l1 * (0.2 + 0.4 * random.unit());
            let misses = references * 0.3 * random.unit();
            let walks = references * (0.05 + 0.3 * random.unit());
            let branches = instructions * 0.02 * random.unit();
            let counts = [instructions, l1, references, misses, walks, branches];
            let measured = dot(&counts, &SLOW) * noise(&mut random, 0.15).exp();
            Observation { group: row % 10, counts, fixed: 0.0, measured }
        })
        .collect()
}

#[test]
fn intervals_cover_nine_of_ten_constants_and_differences() {
    let (mut constants_in, mut differences_in, mut all) = (0, 0, 0);
    for seed in 0..60 {
        let found = constants(&hierarchy(seed, 60)).unwrap();
        let (low_error, high_error) = (found.error.0.min(1.0), found.error.1.max(1.0));
        let bounds = found.bounds.map(|(low, high)| (low * low_error, high * high_error));
        let is_in = |((low, high), cost): (&(f64, f64), &f64)| low <= cost && cost <= high;
        constants_in += bounds.iter().zip(&SLOW).filter(|both| is_in(*both)).count();
        // A change that adds some things and removes others.
        let mut random = Random::new(seed + 9000);
        let counts: [f64; 6] = std::array::from_fn(|_| 20.0 * random.unit() - 10.0);
        let end = |choose: fn(f64, f64) -> f64| -> f64 {
            counts.iter().zip(bounds).map(|(count, (a, b))| choose(count * a, count * b)).sum()
        };
        let cost = dot(&counts, &SLOW);
        differences_in += usize::from(end(f64::min) <= cost && cost <= end(f64::max));
        all += 1;
    }
    let share = |count: usize, all: usize| count as f64 / all as f64;
    let shares = (share(constants_in, 6 * all), share(differences_in, all));
    assert!(shares.0 >= 0.9 && shares.1 >= 0.9, "{shares:?}");
}
