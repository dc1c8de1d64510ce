//! The whole procedure on simulated machines, counted; and that the counting has teeth.
//!
//! Rates of many more runs are printed by `cargo bench --bench statistics` and are in
//! METHODOLOGY.md.

use super::noise::{SimulatedMachine, SimulatedNoise, USUAL, measured};
use super::*;
use crate::tables::median;

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
