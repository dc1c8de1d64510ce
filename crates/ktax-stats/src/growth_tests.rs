use proptest::prelude::*;

use super::*;

/// Points at 16, 32, … 16384 of a cost above a base of 1000.
fn points(cost: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    (4..=14).map(|power| f64::from(1 << power)).map(|n| (n, 1000.0 + cost(n))).collect()
}

fn alone(base: f64, points: &[(f64, f64)]) -> Option<Fit> {
    fit(&Curve { base, points: points.to_vec() }, &[])
}

fn order(points: &[(f64, f64)]) -> String {
    alone(1000.0, points).unwrap().order("pages")
}

/// The exponent and its interval, to two places.
fn power(fit: &Fit) -> [f64; 3] {
    let power = fit.power.unwrap();
    [power.exponent, power.low, power.high].map(|number| (number * 100.0).round() / 100.0)
}

#[test]
fn powers_without_noise_are_exact_for_any_cost() {
    for (exponent, words) in [
        (0.0, "O(1)"),
        (1.0, "O(pages)"),
        (1.3, "O(pages^1.3)"),
        (0.5, "O(pages^0.5)"),
        (2.0, "O(pages^2.0)"),
        (-1.0, "O(pages^-1.0)"),
    ] {
        // The first scale is so large that costs with the power -1 exceed 5 % of the base.
        for (scale, words) in [(5e6, words), (1e-3, "")] {
            let fit = alone(1000.0, &points(|n| scale * n.powf(exponent))).unwrap();
            let found = fit.power.unwrap();
            assert!((found.exponent - exponent).abs() < 1e-4, "{exponent}: {fit:?}");
            assert!(found.high - found.low < 1e-4, "{exponent}: {fit:?}");
            assert!(words.is_empty() || fit.order("pages") == words, "{words}: {fit:?}");
            // 16 to 16384 are eleven; the upper half are the five from 1024.
            assert_eq!((fit.smallest_size, fit.points), (1024.0, 5));
        }
    }
}

#[test]
fn costs_within_a_twentieth_of_the_base_are_constant() {
    let wobbling = points(|n| if n.log2() % 2.0 == 0.0 { 9.0 } else { -9.0 });
    for (curve, exponent) in
        [(points(|_| 0.0), None), (wobbling, None), (points(|n| 1e-4 * n), Some(1.0))]
    {
        let fit = alone(1000.0, &curve).unwrap();
        assert_eq!((fit.growth, fit.order("pages").as_str()), (GrowthClass::Negligible, "O(1)"));
        let found = fit.power.map(|power| (power.exponent * 1e6).round() / 1e6);
        assert_eq!(found, exponent, "{fit:?}"); // costs of at most 1.6 above 1000
    }
    // 5.1 % at one size is not negligible. Other costs are below the base, so there is no power.
    let above = |n: f64| if n > 16_000.0 { 51.0 } else { -9.0 };
    let fit = alone(1000.0, &points(above)).unwrap();
    assert_eq!(
        (fit.growth, fit.power, fit.order("pages").as_str()),
        (GrowthClass::Unclear, None, "unclear")
    );
    assert_eq!(fit.distance_range, (-0.009, 0.051));
}

/// Instructions in process context of one fork, exit and wait over a shared file mapping, counted
/// on Debian's 6.1 and 6.12 cloud kernels. On 6.12 the costs are within 5 % of the base.
#[test]
fn growth_of_counted_file_pages() {
    for (base, above, expected, growth) in [
        (
            133_492.1,
            [8_160.57, 8_737.01, 9_836.96, 12_278.31],
            [0.19, 0.04, 0.35],
            GrowthClass::Constant,
        ),
        (
            152_790.8,
            [3_998.24, 4_390.43, 5_386.65, 7_096.36],
            [0.28, 0.10, 0.46],
            GrowthClass::Negligible,
        ),
    ] {
        let sizes = [4096.0, 8192.0, 16384.0, 32768.0];
        let small = [64.0, 512.0, 1024.0, 2048.0].map(|size| (size, base + above[0]));
        let points: Vec<(f64, f64)> = small
            .into_iter()
            .chain(sizes.into_iter().zip(above.map(|added| base + added)))
            .collect();
        let fit = alone(base, &points).unwrap();
        assert_eq!((power(&fit), fit.growth), (expected, growth), "{fit:?}");
        assert_eq!(
            (fit.smallest_size, fit.points, fit.order("pages").as_str()),
            (4096.0, 4, "O(1)")
        );
    }
}

#[test]
fn the_interval_contains_the_exponents_of_all_layouts() {
    let shown = Curve { base: 1000.0, points: points(|n| 40.0 * n) };
    // A base that moves by 20 000 of 40 960 at the smallest fitted size.
    let moved =
        |shift: f64| Curve { base: 30_000.0 + shift, points: points(|n| 29_000.0 + 40.0 * n) };
    let still = fit(&shown, &[moved(0.0)]).unwrap();
    assert_eq!((power(&still), still.growth), ([1.0, 1.0, 1.0], GrowthClass::Linear));
    let layouts = [moved(0.0), moved(20_000.0), moved(-20_000.0)];
    let wide = fit(&shown, &layouts).unwrap();
    assert_eq!(power(&wide), [1.0, 0.87, 1.22]);
    let exponent = |layout| fit(&layouts[layout], &[]).unwrap().power.unwrap().exponent;
    let found = wide.power.unwrap();
    assert_eq!((found.low, found.high), (exponent(2), exponent(1)));
    // If one Layout has no power, the fit has none.
    let none = fit(&shown, &[moved(0.0), moved(50_000.0)]).unwrap();
    assert_eq!((none.power, none.growth), (None, GrowthClass::Unclear));
}

#[test]
fn only_the_upper_half_is_fitted() {
    // As with shared page tables: each page has a cost until all tables are shared.
    assert_eq!(order(&points(|n| 40.0 * n.min(1024.0))), "O(1)");
    // A fixed cost that is small compared to that of the pages.
    assert_eq!(order(&points(|n| 2000.0 + 40.0 * n)), "O(pages)");
    assert_eq!(order(&points(|n| 40.0 * n + if n < 600.0 { 1e6 } else { 0.0 })), "O(pages)");
}

/// Instructions in process context for one fork, exit and wait, counted by ktax on Debian's
/// 6.1.0 cloud kernel: without extra anonymous pages, and with them.
#[test]
fn counted_anonymous_pages_are_linear() {
    let counted = [
        (16.0, 144_834.86),
        (32.0, 150_621.27),
        (64.0, 162_597.94),
        (128.0, 186_108.5),
        (256.0, 233_169.63),
        (512.0, 340_588.98),
        (1024.0, 541_777.23),
        (2048.0, 944_877.4),
        (4096.0, 1_750_431.7),
        (8192.0, 3_360_981.17),
        (16384.0, 6_574_172.25),
        (32768.0, 12_996_107.5),
    ];
    let fit = alone(124_596.7, &counted).unwrap();
    assert_eq!((fit.order("pages").as_str(), fit.points), ("O(pages)", 6));
    assert_eq!(power(&fit), [0.99, 0.98, 1.0]);
}

#[test]
fn a_unit_cost_within_a_factor_of_two_is_linear() {
    let cached = |cost: f64| move |n: f64| n * (40.0 + cost * (n / 1024.0).log2().clamp(0.0, 4.0));
    assert_eq!(order(&points(cached(9.0))), "O(pages)"); // 40 to 76 for a page
    assert_eq!(order(&points(cached(25.0))), "O(pages^1.4)"); // 40 to 140
}

#[test]
fn scattered_costs_are_unclear() {
    let wild = |n: f64| if n.log2() % 2.0 == 0.0 { 4000.0 } else { 40_000.0 + n };
    let fit = alone(1000.0, &points(wild)).unwrap();
    assert_eq!(fit.growth, GrowthClass::Unclear, "{fit:?}");
    assert_eq!(fit.order("pages"), "unclear");
}

#[test]
fn too_few_points_and_invalid_numbers_are_refused() {
    let good = points(|n| n);
    assert!(alone(1000.0, &good).is_some());
    assert_eq!(alone(1000.0, &[]), None);
    assert_eq!(alone(1000.0, &good[..2]), None);
    assert_eq!(alone(1000.0, &good[..3]), None); // 16 to 64 is a span of 4
    assert!(alone(1000.0, &good[..4]).is_none()); // and so is 32 to 128
    assert!(alone(1000.0, &[good[0], good[2], good[4]]).is_some());
    assert_eq!(alone(-1.0, &good), None);
    assert_eq!(alone(f64::NAN, &good), None);
    assert_eq!(alone(0.0, &points(|_| -1000.0)), None);
    for bad in [(0.0, 1.0), (-1.0, 1.0), (f64::INFINITY, 1.0), (1e9, f64::NAN), (f64::NAN, 1.0)] {
        assert_eq!(alone(1000.0, &[good[0], good[4], bad]), None, "{bad:?}");
    }
}

#[test]
fn the_interval_equals_the_textbook_formula() {
    // y = 1, 3, 2, 4 at x = 1 … 4: slope 0.8, residual 1.8, standard error sqrt(1.8 / 2 / 5).
    let (slope, half_width) = slope(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0)]).unwrap();
    assert!((slope - 0.8).abs() < 1e-12);
    assert!((half_width - 4.303 * 0.18_f64.sqrt()).abs() < 1e-12);
}

/// Probability that |T| is below `t`, by the finite series for whole degrees of freedom (Abramowitz
/// and Stegun 26.7.3 and 26.7.4).
fn probability_within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2;
    let (mut term, mut sum) = (if odd == 1 { cosine } else { 1.0 }, 0.0);
    for k in (2 + odd..=freedom).step_by(2) {
        sum += term;
        term *= cosine * cosine * (k - 1) as f64 / k as f64;
    }
    if odd == 1 { (angle + sine * sum) * std::f64::consts::FRAC_2_PI } else { sine * sum }
}

#[test]
fn students_quantiles_cover_95_percent() {
    for freedom in 1..=30 {
        let covered = probability_within(student(freedom), freedom);
        assert!((covered - 0.95).abs() < 1e-4, "{freedom}: {covered}");
    }
    assert!(probability_within(student(1000), 1000) > 0.95);
}

proptest! {
    #[test]
    fn the_exponent_does_not_depend_on_order_and_unit(
        costs in proptest::collection::vec(1.0..1e6f64, 4..12), scale in 1e-6..1e6f64
    ) {
        let sizes = (4..).map(|power| f64::from(1 << power));
        let forward: Vec<(f64, f64)> = sizes.zip(costs.iter().copied()).collect();
        let scaled = forward.iter().rev().map(|(size, cost)| (*size, cost * scale));
        let backward: Vec<(f64, f64)> = scaled.collect();
        match (alone(0.0, &forward), alone(0.0, &backward)) {
            (None, None) => prop_assert!(costs.len() < 8, "span of the upper half"),
            (Some(one), Some(other)) => {
                let (one, other) = (one.power.unwrap(), other.power.unwrap());
                prop_assert!((one.exponent - other.exponent).abs() < 1e-6);
                prop_assert!((one.high - other.high).abs() < 1e-6);
            }
            different => prop_assert!(false, "{different:?}"),
        }
    }
}
