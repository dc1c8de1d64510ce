use super::*;
use crate::tables::median;
use crate::timed::noise::{SimulatedMachine, SimulatedNoise, USUAL, measured};
use crate::timed::{Order, Slot};

/// Twenty pairs around an effect: ±0.1, ±0.2 … ±1 %.
fn pairs(effect: f64) -> Vec<f64> {
    let one = |step: u32| f64::from(step + 1) * 0.001;
    (0..10).flat_map(|step| [effect + one(step), effect - one(step)]).collect()
}

fn judged(pairs: &[f64], controls: &[f64]) -> TrialRow {
    let trial = Trial::new(Rules { pairs: Some(20), ..Rules::default() }, 1);
    trial.judge(&[Pairs { pairs, controls }], &[]).headline[0]
}

fn verdict_of(effect: f64) -> Detection {
    judged(&pairs(effect), &pairs(0.0)).verdict
}

#[test]
fn certain_and_large_enough() {
    assert_eq!(verdict_of(0.05), Detection::Up);
    assert_eq!(verdict_of(-0.05), Detection::Down);
    // ln 1.01 = 0.00995.
    assert_eq!(verdict_of(0.0099), Detection::Small);
    assert_eq!(verdict_of(0.0100), Detection::Up);
    assert_eq!(verdict_of(-0.0099), Detection::Small);
    assert_eq!(verdict_of(-0.0100), Detection::Down);
    assert_eq!(verdict_of(0.0), Detection::NotDetected);
    let ratio = judged(&pairs(0.05), &pairs(0.0)).ratio();
    assert!((ratio.estimate - 0.05f64.exp()).abs() < 1e-9 && ratio.low < ratio.high);
}

#[test]
fn why_there_is_no_answer() {
    let (far, same) = (pairs(0.05), pairs(0.0));
    let why = |pairs: &[f64], controls: &[f64]| match judged(pairs, controls).verdict {
        Detection::Inconclusive(why) => Some(why),
        _ => None,
    };
    assert_eq!(why(&far, &same), None);
    assert_eq!(why(&far[..9], &same), Some(Why::TooFewPairs));
    assert_eq!(why(&[], &[]), Some(Why::TooFewPairs));
    assert_eq!(why(&far, &same[..7]), Some(Why::TooFewControls));
    assert_eq!(why(&far, &[]), Some(Why::TooFewControls));
    assert_eq!(why(&far, &pairs(0.02)), Some(Why::ControlOff));
    let wide: Vec<f64> = same.iter().map(|value| value * 50.0).collect();
    assert_eq!(why(&far, &wide), Some(Why::ControlWide));
    assert_eq!(why(&[f64::NAN; 20], &same), Some(Why::NotFinite));
    assert_eq!(why(&far, &[f64::INFINITY; 20]), Some(Why::NotFinite));
}

#[test]
fn ten_of_a_thousand_pairs_exclude_nothing() {
    let trial = Trial::new(Rules { pairs: Some(1000), ..Rules::default() }, 1);
    let (far, same) = (pairs(0.05), pairs(0.0));
    let row = trial.judge(&[Pairs { pairs: &far[..10], controls: &same }], &[]).headline[0];
    assert_eq!(row.verdict, Detection::Inconclusive(Why::TooFewPairs));
    assert_eq!((row.log.low, row.detectable), (f64::NEG_INFINITY, f64::INFINITY));
}

#[test]
fn equal_pairs_are_not_detected_and_would_have_been() {
    let row = judged(&[0.0; 20], &[0.0; 8]);
    assert_eq!((row.verdict, row.p, row.detectable), (Detection::NotDetected, 1.0, 1.0));
}

#[test]
fn each_family_has_its_correction() {
    let trial = Trial::new(Rules { pairs: Some(20), ..Rules::default() }, 3);
    let (same, data) = (pairs(0.0), [pairs(0.05), pairs(0.0035), pairs(0.0025)]);
    let rows: Vec<Pairs> = data.iter().map(|pairs| Pairs { pairs, controls: &same }).collect();
    let found = trial.judge(&rows, &rows);
    let p: Vec<f64> = found.headline.iter().map(|row| row.p).collect();
    let adjusted = |rows: &[TrialRow]| rows.iter().map(|row| row.adjusted).collect::<Vec<_>>();
    assert_eq!(adjusted(&found.headline), holm(&p));
    assert_eq!(adjusted(&found.secondary), benjamini_hochberg(&p));
    assert!(found.headline.iter().chain(&found.secondary).all(|row| row.family == 3));
    // By itself the second would be certain; as one of three it is not among the headlines.
    assert!(p[1] < 0.05 && found.headline[1].adjusted > 0.05, "{p:?}");
    assert_eq!(found.headline[1].verdict, Detection::NotDetected);
    // More rows want a larger effect.
    let alone = judged(&data[2], &same);
    assert!(found.headline[2].detectable > alone.detectable);
}

#[test]
fn the_pilot_sets_a_cap_and_the_looks_are_at_fifths() {
    let trial = Trial::new(Rules { threshold: 0.005, ..Rules::default() }, 1);
    let (pairs, controls) = (pairs(0.002).repeat(20), pairs(0.0).repeat(20));
    let row = |count: usize| Pairs { pairs: &pairs[..count], controls: &controls };
    assert_eq!(trial.next(&[row(9)]), Next::GoOn { cap: None });
    let cap = trial.cap(&[row(10)]).unwrap();
    assert!(cap % 5 == 0 && (20..=200).contains(&cap), "{cap}");
    assert_eq!(trial.next(&[row(cap - 1)]), Next::GoOn { cap: Some(cap) });
    assert_eq!(trial.next(&[row(cap)]), Next::Exhausted);
    // Pairs after the pilot leave the cap alone, and so does the effect.
    assert_eq!(trial.cap(&[row(cap)]), Some(cap));
    // The row that spreads most decides, and the largest cap is a bound.
    let wild: Vec<f64> = controls.iter().map(|value| value * 10.0).collect();
    let wild = Pairs { pairs: &pairs[..10], controls: &wild };
    assert_eq!(trial.cap(&[row(10), wild]), Some(200));
    // A large effect ends it at the first look that there is, and not before.
    let far: Vec<f64> = pairs.iter().map(|value| value + 0.2).collect();
    let ends = |count: &usize| {
        let row = Pairs { pairs: &far[..*count], controls: &controls };
        trial.next(&[row]) == Next::Settled
    };
    let first = (1..cap).find(ends).unwrap();
    assert!(first >= 10 && (1..5).any(|look| first == look * cap / 5), "{first} of {cap}");
    // Not while another row is open.
    let rows = [Pairs { pairs: &far[..first], controls: &controls }, row(first)];
    assert_eq!(trial.next(&rows), Next::GoOn { cap: Some(cap) });
}

#[test]
fn a_fixed_number_of_pairs_is_one_look() {
    let trial = Trial::new(Rules { pairs: Some(30), ..Rules::default() }, 1);
    let (far, same) = (pairs(0.3).repeat(2), pairs(0.0));
    for count in 0..30 {
        let row = Pairs { pairs: &far[..count], controls: &same };
        assert_eq!(trial.next(&[row]), Next::GoOn { cap: Some(30) });
    }
    let row = Pairs { pairs: &far[..30], controls: &same };
    assert_eq!(trial.next(&[row]), Next::Exhausted);
    // One look at all of it is the test itself.
    let found = trial.judge(&[row], &[]).headline[0];
    let plain = SignedRank::new(&far[..30]);
    assert!((found.p - plain.p_value()).abs() < 1e-12);
    assert_eq!(Some(found.log), plain.interval(0.05));
}

const P: [f64; 7] = [0.01, 0.04, 0.03, 0.005, 0.55, 0.04, 0.2];

fn are_near(some: &[f64], others: &[f64]) -> bool {
    some.len() == others.len()
        && some.iter().zip(others).all(|(one, other)| (one - other).abs() < 1e-12)
}

#[test]
fn adjusted_p_values_are_those_of_statsmodels_and_scipy() {
    // tests/statistics/reference.py: multipletests and false_discovery_control.
    assert!(are_near(&holm(&P), &[0.06, 0.16, 0.15, 0.035, 0.55, 0.16, 0.4]));
    let wanted = [0.035, 0.056, 0.056, 0.035, 0.55, 0.056, 0.23333333333333336];
    assert!(are_near(&benjamini_hochberg(&P), &wanted));
}

#[test]
fn a_family_of_one_and_of_none() {
    assert_eq!((holm(&[0.03]), benjamini_hochberg(&[0.03])), (vec![0.03], vec![0.03]));
    assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
    assert_eq!(holm(&[1.0, 0.9]), [1.0, 1.0]);
}

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
        let mut walk = 0.0;
        (0..5).fold(false, |left, _| {
            walk += step();
            left || f64::abs(walk) >= barrier
        })
    };
    let left = (0..20_000).filter(|_| leaves()).count();
    assert!((900..1100).contains(&left), "{left}"); // 1000 wanted, three deviations of 31
}

#[test]
fn tails_and_quantiles_are_scipys() {
    // scipy 1.17.1: norm.isf(p).
    for (p, z) in [
        (0.5, 0.0),
        (0.1, 1.2815515655446004),
        (0.025, 1.9599639845400545),
        (0.9, -1.2815515655446004),
        (1e-6, 4.753424308822899),
        (1e-60, 16.39727821271871),
        (1e-300, 37.0470962993612),
    ] {
        assert!((quantile(p) - z).abs() < 1e-12, "{p}: {}", quantile(p));
        assert!((upper(z) / p - 1.0).abs() < 1e-12, "{p}");
    }
    assert_eq!(quantile(0.0), f64::INFINITY);
    assert_eq!(quantile(1.0), f64::NEG_INFINITY);
}

// The whole procedure on simulated machines, counted; and that the counting has teeth.
//
// Rates of many more runs are printed by `cargo bench --bench statistics` and are in
// METHODOLOGY.md.

/// Runs until it says stop; how many pairs does not matter here.
fn run(trial: &Trial, noise: SimulatedNoise, effect: f64, bias: f64, seed: u64) -> TrialRow {
    measured(trial, noise, [bias, effect + bias], seed).0
}

fn runs(count: u64, effect: f64) -> Vec<TrialRow> {
    let trial = Trial::new(Rules::default(), 1);
    (0..count).map(|seed| run(&trial, USUAL, effect.ln_1p(), 0.0, seed)).collect()
}

fn count(rows: &[TrialRow], holds: impl Fn(&TrialRow) -> bool) -> usize {
    rows.iter().filter(|row| holds(row)).count()
}

fn is_verdict(row: &TrialRow) -> bool {
    row.verdict.is_up_or_down() || row.verdict == Detection::Small
}

fn covers(rows: &[TrialRow], effect: f64) -> usize {
    let effect = f64::ln_1p(effect);
    count(rows, |row| row.log.low <= effect && effect <= row.log.high)
}

#[test]
fn four_hundred_comparisons_of_equals() {
    let rows = runs(400, 0.0);
    let verdicts = count(&rows, is_verdict);
    assert!(verdicts <= 20, "{verdicts} of 400");
    assert!(covers(&rows, 0.0) >= 372, "{} of 400", covers(&rows, 0.0)); // 93 %
}

#[test]
fn two_percent_are_found_and_covered() {
    let rows = runs(200, 0.02);
    let found = count(&rows, |row| row.verdict == Detection::Up);
    assert!(found >= 180, "{found} of 200");
    assert!(covers(&rows, 0.02) >= 186, "{} of 200", covers(&rows, 0.02));
}

#[test]
fn five_percent_are_covered() {
    let rows = runs(200, 0.05);
    assert!(covers(&rows, 0.05) >= 186, "{} of 200", covers(&rows, 0.05));
}

#[test]
fn what_would_have_been_seen_is_seen() {
    let trial = Trial::new(Rules { pairs: Some(40), ..Rules::default() }, 1);
    let rows = |effect: f64| -> Vec<TrialRow> {
        (0..100).map(|seed| run(&trial, USUAL, effect, 0.0, seed)).collect()
    };
    let detectable: Vec<f64> = rows(0.0).iter().map(|row| row.detectable).collect();
    let rows = rows(median(&detectable).unwrap().ln());
    let seen = count(&rows, is_verdict);
    assert!((83..=97).contains(&seen), "{seen} of 100"); // 90 wanted, and two deviations of 3
}

#[test]
fn ten_rows_of_equals_and_one_of_three_percent() {
    // The rows of one pair of boots share its slow noise; the family keeps the level of one row.
    let trial = Trial::new(Rules { pairs: Some(60), ..Rules::default() }, 11);
    let (mut false_verdicts, mut found) = (0, 0);
    for seed in 0..100 {
        let rows: Vec<Vec<f64>> = (0..11)
            .map(|row| {
                let mut own =
                    SimulatedMachine::new(SimulatedNoise { slow: 0.0, ..USUAL }, 1000 * seed + row);
                let mut shared = SimulatedMachine::new(
                    SimulatedNoise { own: 0.0, accidents: 0.0, ..USUAL },
                    seed,
                );
                let slots = Order::new(!seed).filter(|slot| !slot.is_control).take(60);
                let effect = if row == 10 { 0.03 } else { 0.0 };
                slots
                    .map(|slot| {
                        own.pair(effect, slot.change_first) + shared.pair(0.0, slot.change_first)
                    })
                    .collect()
            })
            .collect();
        let controls = [0.01, -0.01, 0.02, -0.02, 0.03, -0.03, 0.04, -0.04];
        let rows: Vec<Pairs> =
            rows.iter().map(|pairs| Pairs { pairs, controls: &controls }).collect();
        let judged = trial.judge(&rows, &[]).headline;
        false_verdicts += usize::from(judged[..10].iter().any(is_verdict));
        found += usize::from(judged[10].verdict == Detection::Up);
    }
    assert!(false_verdicts <= 10, "{false_verdicts} of 100"); // 5 wanted, two deviations of 2.2
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn a_harness_that_favours_a_place_gets_no_verdict() {
    let trial = Trial::new(Rules { pairs: Some(100), ..Rules::default() }, 1);
    let rows: Vec<TrialRow> = (0..50).map(|seed| run(&trial, USUAL, 0.0, 0.05, seed)).collect();
    let off = count(&rows, |row| row.verdict == Detection::Inconclusive(Why::ControlOff));
    assert!(off >= 48, "{off} of 50");
    let wild = SimulatedNoise { own: 0.5, ..USUAL };
    let row = run(&trial, wild, 0.0, 0.0, 1);
    assert_eq!(row.verdict, Detection::Inconclusive(Why::ControlWide));
}

// The counting above must catch each of these wrong ways.

/// Number of A/A runs in which the test by itself finds something at any of these numbers of pairs.
fn finds(pairs: impl Fn(u64) -> Vec<f64>, looks: &[usize]) -> usize {
    let finds =
        |pairs: &[f64]| looks.iter().any(|look| SignedRank::new(&pairs[..*look]).p_value() <= 0.05);
    (0..400).filter(|seed| finds(&pairs(*seed))).count()
}

fn in_random_order(seed: u64) -> Vec<f64> {
    let mut machine = SimulatedMachine::new(USUAL, seed);
    let slots = Order::new(!seed).take(60);
    slots.map(|slot| machine.pair(0.0, slot.change_first)).collect()
}

#[test]
fn peeking_after_every_other_pair_is_caught() {
    let peeking: Vec<usize> = (10..=60).step_by(2).collect();
    let (once, often) = (finds(in_random_order, &[60]), finds(in_random_order, &peeking));
    assert!(once <= 28, "{once} of 400"); // 20 wanted, and two deviations of 4.4
    assert!(often > 60, "{often} of 400");
}

#[test]
fn all_of_one_side_after_all_of_the_other_is_caught() {
    let in_blocks = |seed| {
        let mut machine = SimulatedMachine::new(USUAL, seed);
        let base: Vec<f64> = (0..60).map(|_| machine.boot()).collect();
        base.iter().map(|base| machine.boot() - base).collect()
    };
    let found = finds(in_blocks, &[60]);
    assert!(found > 120, "{found} of 400");
}

#[test]
fn the_base_always_first_is_caught_where_the_second_boot_is_warm() {
    let warm = |change_first: &dyn Fn(&Slot) -> bool, seed: u64| -> Vec<f64> {
        let mut machine = SimulatedMachine::new(USUAL, seed);
        let pair = |slot: Slot| {
            let first = change_first(&slot);
            machine.pair(if first { 0.02 } else { -0.02 }, first)
        };
        Order::new(!seed).take(60).map(pair).collect()
    };
    let fixed = finds(|seed| warm(&|_| false, seed), &[60]);
    let drawn = finds(|seed| warm(&|slot| slot.change_first, seed), &[60]);
    assert!(fixed > 300, "{fixed} of 400");
    assert!(drawn <= 28, "{drawn} of 400");
}
