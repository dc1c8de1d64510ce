//! Barriers are of tests/statistics/reference.py: Simpson's rule on a grid of 1501 points, and
//! SciPy's root finder.

use super::*;

#[test]
fn barriers_are_those_of_another_integration() {
    for (count, alpha, wanted) in [
        (1, 0.05, 1.9599639845400545),
        (1, 0.0025, 3.023341439739154),
        (2, 0.05, 2.796509681291264),
        (2, 0.01, 3.6480623286815304),
        (2, 0.0025, 4.277007849342294),
        (5, 0.05, 4.561742297932387),
        (5, 0.01, 5.861115572214397),
        (5, 0.0025, 6.825835090223081),
    ] {
        let barrier = Looks::new(count).barrier(alpha);
        assert!((barrier - wanted).abs() < 1e-9, "{count} {alpha}: {barrier}");
    }
    let looks = Looks::new(5);
    assert!((looks.crossing(3.0) - 0.23666130627137838).abs() < 1e-9);
    assert!((looks.crossing(6.0) - 0.008274334825795204).abs() < 1e-9);
}

#[test]
fn the_barrier_is_the_published_one() {
    // Jennison and Turnbull, Group Sequential Methods (2000): C_B(5, 0.05) = 2.040, to be
    // multiplied by sqrt(5 / k).
    let looks = Looks::new(5);
    let barrier = looks.barrier(0.05);
    assert!((looks.bound(barrier, 1.0) - 2.040).abs() < 5e-4);
    assert!((looks.bound(barrier, 0.2) - 4.562).abs() < 5e-4);
}

#[test]
fn the_repeated_p_value_is_the_level_at_which_the_barrier_is_met() {
    let looks = Looks::new(5);
    for alpha in [0.2, 0.05, 0.001, 1e-8] {
        let barrier = looks.barrier(alpha);
        for share in [0.2, 0.37, 1.0] {
            let p = 2.0 * upper(looks.bound(barrier, share));
            assert!((looks.overall(p, share) / alpha - 1.0).abs() < 1e-6, "{alpha} {share}");
        }
    }
    // One look is no correction, none at all cannot be, and a walk far out keeps its order.
    assert!((Looks::new(1).overall(0.03, 1.0) - 0.03).abs() < 1e-12);
    assert_eq!(looks.overall(1.0, 1.0), 1.0);
    assert!(looks.overall(1e-60, 1.0) < looks.overall(1e-50, 1.0));
    assert!(looks.overall(1e-60, 1.0) > 0.0);
}

#[test]
fn walks_leave_as_often_as_computed() {
    let mut random = crate::random::Random::new(5);
    // The sum of twelve uniforms less six: mean 0, variance 1.
    let mut step = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    let barrier = Looks::new(5).barrier(0.05);
    let mut leaves = || {
        let mut at = 0.0;
        (0..5).fold(false, |left, _| {
            at += step();
            left || f64::abs(at) >= barrier
        })
    };
    let left = (0..20_000).filter(|_| leaves()).count();
    assert!((900..1100).contains(&left), "{left}"); // 1000 wanted, three deviations of 31
}
