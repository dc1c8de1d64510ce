use super::*;
use crate::tables::median;
use crate::timed::noise::{SimulatedMachine, SimulatedNoise, USUAL, simulate_run};
use crate::timed::{PairOrder, PairSlot};

/// Log-ratios of twenty pairs around an effect, at distances of ±0.1, ±0.2 … ±1 %.
fn pairs(effect: f64) -> Vec<f64> {
    let distance = |step: u32| f64::from(step + 1) * 0.001;
    (0..10).flat_map(|step| [effect + distance(step), effect - distance(step)]).collect()
}

fn judged(pairs: &[f64], controls: &[f64]) -> TrialRow {
    let trial = Trial::new(Rules { pairs: Some(20), ..Rules::default() }, 1);
    trial.judge(&[RowPairs { pairs, controls }], &[]).headline[0]
}

fn verdict_of(effect: f64) -> Detection {
    judged(&pairs(effect), &pairs(0.0)).verdict
}

#[test]
fn verdicts_depend_on_significance_and_threshold() {
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
fn inconclusive_rows_have_a_reason() {
    let (far, same) = (pairs(0.05), pairs(0.0));
    let reason = |pairs: &[f64], controls: &[f64]| match judged(pairs, controls).verdict {
        Detection::Inconclusive(reason) => Some(reason),
        _ => None,
    };
    assert_eq!(reason(&far, &same), None);
    assert_eq!(reason(&far[..9], &same), Some(InconclusiveReason::TooFewPairs));
    assert_eq!(reason(&[], &[]), Some(InconclusiveReason::TooFewPairs));
    assert_eq!(reason(&far, &same[..7]), Some(InconclusiveReason::TooFewControls));
    assert_eq!(reason(&far, &[]), Some(InconclusiveReason::TooFewControls));
    assert_eq!(reason(&far, &pairs(0.02)), Some(InconclusiveReason::BiasedControl));
    let wide: Vec<f64> = same.iter().map(|value| value * 50.0).collect();
    assert_eq!(reason(&far, &wide), Some(InconclusiveReason::NoisyControl));
    assert_eq!(reason(&[f64::NAN; 20], &same), Some(InconclusiveReason::NotFinite));
    assert_eq!(reason(&far, &[f64::INFINITY; 20]), Some(InconclusiveReason::NotFinite));
}

#[test]
fn ten_of_a_thousand_pairs_are_too_few() {
    let trial = Trial::new(Rules { pairs: Some(1000), ..Rules::default() }, 1);
    let (far, same) = (pairs(0.05), pairs(0.0));
    let row = trial.judge(&[RowPairs { pairs: &far[..10], controls: &same }], &[]).headline[0];
    assert_eq!(row.verdict, Detection::Inconclusive(InconclusiveReason::TooFewPairs));
    assert_eq!((row.log.low, row.detectable), (f64::NEG_INFINITY, f64::INFINITY));
}

#[test]
fn equal_pairs_have_no_detected_change_and_no_detectable_minimum() {
    let row = judged(&[0.0; 20], &[0.0; 8]);
    assert_eq!((row.verdict, row.p, row.detectable), (Detection::NotDetected, 1.0, 1.0));
}

#[test]
fn each_family_has_its_correction() {
    let trial = Trial::new(Rules { pairs: Some(20), ..Rules::default() }, 3);
    let (same, data) = (pairs(0.0), [pairs(0.05), pairs(0.0035), pairs(0.0025)]);
    let rows: Vec<RowPairs> =
        data.iter().map(|pairs| RowPairs { pairs, controls: &same }).collect();
    let found = trial.judge(&rows, &rows);
    let p: Vec<f64> = found.headline.iter().map(|row| row.p).collect();
    let adjusted = |rows: &[TrialRow]| rows.iter().map(|row| row.adjusted_p).collect::<Vec<_>>();
    assert_eq!(adjusted(&found.headline), holm(&p));
    assert_eq!(adjusted(&found.secondary), benjamini_hochberg(&p));
    assert!(found.headline.iter().chain(&found.secondary).all(|row| row.family == 3));
    // The second row alone would be significant. As one of three headline rows it is not.
    assert!(p[1] < 0.05 && found.headline[1].adjusted_p > 0.05, "{p:?}");
    assert_eq!(found.headline[1].verdict, Detection::NotDetected);
    // With more rows, the detectable effect is larger.
    let alone = judged(&data[2], &same);
    assert!(found.headline[2].detectable > alone.detectable);
}

#[test]
fn the_pilot_determines_the_cap_and_looks_are_at_fifths_of_it() {
    let trial = Trial::new(Rules { threshold: 0.005, ..Rules::default() }, 1);
    let (pairs, controls) = (pairs(0.002).repeat(20), pairs(0.0).repeat(20));
    let row = |count: usize| RowPairs { pairs: &pairs[..count], controls: &controls };
    assert_eq!(trial.next(&[row(9)]), NextStep::RunPair { cap: None });
    let cap = trial.cap(&[row(10)]).unwrap();
    assert!(cap % 5 == 0 && (20..=200).contains(&cap), "{cap}");
    assert_eq!(trial.next(&[row(cap - 1)]), NextStep::RunPair { cap: Some(cap) });
    assert_eq!(trial.next(&[row(cap)]), NextStep::Exhausted);
    // Neither pairs after the pilot nor the effect change the cap.
    assert_eq!(trial.cap(&[row(cap)]), Some(cap));
    // The row with the largest spread determines the cap, up to `max_pairs`.
    let wild: Vec<f64> = controls.iter().map(|value| value * 10.0).collect();
    let wild = RowPairs { pairs: &pairs[..10], controls: &wild };
    assert_eq!(trial.cap(&[row(10), wild]), Some(200));
    // A large effect ends the run at the first look, and not before.
    let far: Vec<f64> = pairs.iter().map(|value| value + 0.2).collect();
    let is_settled = |count: &usize| {
        let row = RowPairs { pairs: &far[..*count], controls: &controls };
        trial.next(&[row]) == NextStep::Settled
    };
    let first = (1..cap).find(is_settled).unwrap();
    assert!(first >= 10 && (1..5).any(|look| first == look * cap / 5), "{first} of {cap}");
    // The run does not end while another row is not settled.
    let rows = [RowPairs { pairs: &far[..first], controls: &controls }, row(first)];
    assert_eq!(trial.next(&rows), NextStep::RunPair { cap: Some(cap) });
}

#[test]
fn a_fixed_number_of_pairs_is_one_look() {
    let trial = Trial::new(Rules { pairs: Some(30), ..Rules::default() }, 1);
    let (far, same) = (pairs(0.3).repeat(2), pairs(0.0));
    for count in 0..30 {
        let row = RowPairs { pairs: &far[..count], controls: &same };
        assert_eq!(trial.next(&[row]), NextStep::RunPair { cap: Some(30) });
    }
    let row = RowPairs { pairs: &far[..30], controls: &same };
    assert_eq!(trial.next(&[row]), NextStep::Exhausted);
    // With one look, p-value and interval are those of the plain test.
    let found = trial.judge(&[row], &[]).headline[0];
    let plain = SignedRank::new(&far[..30]);
    assert!((found.p - plain.p_value()).abs() < 1e-12);
    assert_eq!(Some(found.log), plain.interval(0.05));
}

const P_VALUES: [f64; 7] = [0.01, 0.04, 0.03, 0.005, 0.55, 0.04, 0.2];

fn are_near(some: &[f64], others: &[f64]) -> bool {
    some.len() == others.len()
        && some.iter().zip(others).all(|(one, other)| (one - other).abs() < 1e-12)
}

#[test]
fn adjusted_p_values_equal_those_of_statsmodels_and_scipy() {
    // tests/statistics/reference.py computes the expected values by multipletests and
    // false_discovery_control.
    assert!(are_near(&holm(&P_VALUES), &[0.06, 0.16, 0.15, 0.035, 0.55, 0.16, 0.4]));
    let wanted = [0.035, 0.056, 0.056, 0.035, 0.55, 0.056, 0.23333333333333336];
    assert!(are_near(&benjamini_hochberg(&P_VALUES), &wanted));
}

#[test]
fn families_of_one_row_and_without_rows() {
    assert_eq!((holm(&[0.03]), benjamini_hochberg(&[0.03])), (vec![0.03], vec![0.03]));
    assert!(holm(&[]).is_empty() && benjamini_hochberg(&[]).is_empty());
    assert_eq!(holm(&[1.0, 0.9]), [1.0, 1.0]);
}

#[test]
fn barriers_equal_those_of_a_reference_integration() {
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
    assert!((looks.crossing_probability(3.0) - 0.23666130627137838).abs() < 1e-9);
    assert!((looks.crossing_probability(6.0) - 0.008274334825795204).abs() < 1e-9);
}

#[test]
fn the_barrier_equals_the_published_one() {
    // Jennison and Turnbull, Group Sequential Methods (2000): C_B(5, 0.05) = 2.040, which is
    // multiplied by sqrt(5 / k) at look k.
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
            let p = 2.0 * upper_tail(looks.bound(barrier, share));
            assert!(
                (looks.repeated_p_value(p, share) / alpha - 1.0).abs() < 1e-6,
                "{alpha} {share}"
            );
        }
    }
    // With one look there is no correction. Extremely small p-values keep their order.
    assert!((Looks::new(1).repeated_p_value(0.03, 1.0) - 0.03).abs() < 1e-12);
    assert_eq!(looks.repeated_p_value(1.0, 1.0), 1.0);
    assert!(looks.repeated_p_value(1e-60, 1.0) < looks.repeated_p_value(1e-50, 1.0));
    assert!(looks.repeated_p_value(1e-60, 1.0) > 0.0);
}

#[test]
fn simulated_walks_cross_the_barrier_with_the_computed_probability() {
    let mut random = crate::random::Random::new(5);
    // The sum of twelve uniform numbers minus six has mean 0 and variance 1.
    let mut step = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
    let barrier = Looks::new(5).barrier(0.05);
    let mut is_crossed = || {
        let mut walk = 0.0;
        (0..5).fold(false, |crossed, _| {
            walk += step();
            crossed || f64::abs(walk) >= barrier
        })
    };
    let crossed = (0..20_000).filter(|_| is_crossed()).count();
    // Expected 1000, ± three standard deviations of 31.
    assert!((900..1100).contains(&crossed), "{crossed}");
}

#[test]
fn tails_and_quantiles_equal_those_of_scipy() {
    // Expected values from norm.isf(p) of scipy 1.17.1.
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
        assert!((upper_tail(z) / p - 1.0).abs() < 1e-12, "{p}");
    }
    assert_eq!(quantile(0.0), f64::INFINITY);
    assert_eq!(quantile(1.0), f64::NEG_INFINITY);
}

// Rates of verdicts of the whole procedure on simulated machines. Tests at the end check that these
// rates reveal wrong procedures.
//
// `cargo bench --bench statistics` prints the rates of many more runs, which are in METHODOLOGY.md.

/// Simulates a run until its end, and returns the row.
fn run(trial: &Trial, noise: SimulatedNoise, effect: f64, bias: f64, seed: u64) -> TrialRow {
    simulate_run(trial, noise, [bias, effect + bias], seed).0
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

/// Number of rows whose interval contains the effect.
fn count_covered(rows: &[TrialRow], effect: f64) -> usize {
    let effect = f64::ln_1p(effect);
    count(rows, |row| row.log.low <= effect && effect <= row.log.high)
}

#[test]
fn equal_sides_rarely_get_a_verdict() {
    let rows = runs(400, 0.0);
    let verdicts = count(&rows, is_verdict);
    assert!(verdicts <= 20, "{verdicts} of 400");
    assert!(count_covered(&rows, 0.0) >= 372, "{} of 400", count_covered(&rows, 0.0)); // 93 %
}

#[test]
fn an_effect_of_two_percent_is_detected_and_covered() {
    let rows = runs(200, 0.02);
    let found = count(&rows, |row| row.verdict == Detection::Up);
    assert!(found >= 180, "{found} of 200");
    assert!(count_covered(&rows, 0.02) >= 186, "{} of 200", count_covered(&rows, 0.02));
}

#[test]
fn an_effect_of_five_percent_is_covered() {
    let rows = runs(200, 0.05);
    assert!(count_covered(&rows, 0.05) >= 186, "{} of 200", count_covered(&rows, 0.05));
}

#[test]
fn the_minimum_detectable_effect_is_detected_with_the_stated_power() {
    let trial = Trial::new(Rules { pairs: Some(40), ..Rules::default() }, 1);
    let rows = |effect: f64| -> Vec<TrialRow> {
        (0..100).map(|seed| run(&trial, USUAL, effect, 0.0, seed)).collect()
    };
    let detectable: Vec<f64> = rows(0.0).iter().map(|row| row.detectable).collect();
    let rows = rows(median(&detectable).unwrap().ln());
    let detected = count(&rows, is_verdict);
    // Expected 90, ± two standard deviations of 3.
    assert!((83..=97).contains(&detected), "{detected} of 100");
}

#[test]
fn a_family_keeps_its_level_and_finds_the_changed_row() {
    // Rows of one pair of Boots share the slow noise.
    let trial = Trial::new(Rules { pairs: Some(60), ..Rules::default() }, 11);
    let (mut false_verdicts, mut found) = (0, 0);
    for seed in 0..100 {
        let rows: Vec<Vec<f64>> = (0..11)
            .map(|row| {
                let mut own =
                    SimulatedMachine::new(SimulatedNoise { slow: 0.0, ..USUAL }, 1000 * seed + row);
                let mut shared = SimulatedMachine::new(
                    SimulatedNoise { own: 0.0, outliers: 0.0, ..USUAL },
                    seed,
                );
                let slots = PairOrder::new(!seed).filter(|slot| !slot.is_control).take(60);
                let effect = if row == 10 { 0.03 } else { 0.0 };
                slots
                    .map(|slot| {
                        own.pair(effect, slot.change_first) + shared.pair(0.0, slot.change_first)
                    })
                    .collect()
            })
            .collect();
        let controls = [0.01, -0.01, 0.02, -0.02, 0.03, -0.03, 0.04, -0.04];
        let rows: Vec<RowPairs> =
            rows.iter().map(|pairs| RowPairs { pairs, controls: &controls }).collect();
        let judged = trial.judge(&rows, &[]).headline;
        false_verdicts += usize::from(judged[..10].iter().any(is_verdict));
        found += usize::from(judged[10].verdict == Detection::Up);
    }
    assert!(false_verdicts <= 10, "{false_verdicts} of 100"); // expected 5, + two deviations of 2.2
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn an_unfair_harness_gets_no_verdict() {
    let trial = Trial::new(Rules { pairs: Some(100), ..Rules::default() }, 1);
    let rows: Vec<TrialRow> = (0..50).map(|seed| run(&trial, USUAL, 0.0, 0.05, seed)).collect();
    let off = count(&rows, |row| {
        row.verdict == Detection::Inconclusive(InconclusiveReason::BiasedControl)
    });
    assert!(off >= 48, "{off} of 50");
    let wild = SimulatedNoise { own: 0.5, ..USUAL };
    let row = run(&trial, wild, 0.0, 0.0, 1);
    assert_eq!(row.verdict, Detection::Inconclusive(InconclusiveReason::NoisyControl));
}

// Each of the following wrong procedures must have a high rate of false findings.

/// Number of A/A runs in which the plain test is significant at any of these numbers of pairs.
fn count_findings(pairs: impl Fn(u64) -> Vec<f64>, looks: &[usize]) -> usize {
    let is_finding =
        |pairs: &[f64]| looks.iter().any(|look| SignedRank::new(&pairs[..*look]).p_value() <= 0.05);
    (0..400).filter(|seed| is_finding(&pairs(*seed))).count()
}

/// Log-ratios of an A/A run with pairs in random order.
fn in_random_order(seed: u64) -> Vec<f64> {
    let mut machine = SimulatedMachine::new(USUAL, seed);
    let slots = PairOrder::new(!seed).take(60);
    slots.map(|slot| machine.pair(0.0, slot.change_first)).collect()
}

#[test]
fn peeking_after_every_other_pair_has_many_false_findings() {
    let peeking: Vec<usize> = (10..=60).step_by(2).collect();
    let (once, often) =
        (count_findings(in_random_order, &[60]), count_findings(in_random_order, &peeking));
    assert!(once <= 28, "{once} of 400"); // expected 20, + two deviations of 4.4
    assert!(often > 60, "{often} of 400");
}

#[test]
fn boots_in_blocks_have_many_false_findings() {
    let in_blocks = |seed| {
        let mut machine = SimulatedMachine::new(USUAL, seed);
        let base: Vec<f64> = (0..60).map(|_| machine.boot()).collect();
        base.iter().map(|base| machine.boot() - base).collect()
    };
    let found = count_findings(in_blocks, &[60]);
    assert!(found > 120, "{found} of 400");
}

#[test]
fn a_fixed_order_has_many_false_findings_if_second_boots_are_faster() {
    let warm = |change_first: &dyn Fn(&PairSlot) -> bool, seed: u64| -> Vec<f64> {
        let mut machine = SimulatedMachine::new(USUAL, seed);
        let pair = |slot: PairSlot| {
            let first = change_first(&slot);
            machine.pair(if first { 0.02 } else { -0.02 }, first)
        };
        PairOrder::new(!seed).take(60).map(pair).collect()
    };
    let fixed = count_findings(|seed| warm(&|_| false, seed), &[60]);
    let random = count_findings(|seed| warm(&|slot| slot.change_first, seed), &[60]);
    assert!(fixed > 300, "{fixed} of 400");
    assert!(random <= 28, "{random} of 400");
}
