//! How often ways to judge timings cry wolf, and how often they find 2 %: the same simulated
//! machine judged by rules of other tools and by ours.
//!
//! The rules of the others are written from their descriptions, and get the order in which those
//! tools measure: all of one side, then all of the other. Nothing here is timed.

use ktax::stats::random;
use ktax::stats::tables::median;
use ktax::stats::timed::{
    Detection, NextStep, PairOrder, RowPairs, Rules, SignedRank, Trial, TrialRow,
};

#[path = "../crates/ktax-stats/src/timed/noise.rs"]
mod noise;

use noise::{SimulatedMachine, SimulatedNoise, USUAL, simulate_run};

const RUNS: u64 = 4000;
const EFFECT: f64 = 0.02;

/// Says of times of the base and of the change whether it finds something.
type Rule = fn(&[f64], &[f64]) -> bool;

const RULES: [(&str, usize, Rule); 8] = [
    ("mean ± sigma, as hyperfine prints it", 10, mean_and_sigma),
    ("mean ± sigma, as hyperfine prints it", 60, mean_and_sigma),
    ("order of lkp ncompare", 3, order),
    ("order of lkp ncompare", 5, order),
    ("order of lkp ncompare", 10, order),
    ("Mann-Whitney, as benchstat", 10, mann_whitney),
    ("Mann-Whitney, as benchstat", 60, mann_whitney),
    ("Mann-Whitney, as benchstat", 120, mann_whitney),
];

fn main() {
    println!("{RUNS} simulated comparisons each\n");
    let calm = SimulatedNoise { slow: 0.0, drift: 0.0, ..USUAL };
    for (machine, noise) in [("slow noise and drift", USUAL), ("neither", calm)] {
        println!("{machine:<38} {:>12} {:>8} {:>6}", "of equals", "of 2 %", "boots");
        for (name, count, rule) in RULES {
            let finds = |effect| {
                let found = |seed: &u64| in_blocks(noise, effect, count, *seed, rule);
                percent((0..RUNS).filter(found).count())
            };
            let boots = 2 * count;
            println!("{name:<38} {:>12} {:>8} {boots:>6}", finds(0.0), finds(EFFECT));
        }
        let peeks =
            |effect| percent((0..RUNS / 4).filter(|seed| peek(noise, effect, *seed)).count() * 4);
        println!(
            "{:<38} {:>12} {:>8}",
            "signed rank after each of 60 pairs",
            peeks(0.0),
            peeks(EFFECT)
        );
        ours(noise);
        println!();
    }
}

fn percent(count: usize) -> String {
    format!("{:.1} %", 100.0 * count as f64 / RUNS as f64)
}

fn in_blocks(noise: SimulatedNoise, effect: f64, count: usize, seed: u64, rule: Rule) -> bool {
    let mut machine = SimulatedMachine::new(noise, seed);
    let mut block =
        |effect: f64| -> Vec<f64> { (0..count).map(|_| (machine.boot() + effect).exp()).collect() };
    let base = block(0.0);
    rule(&base, &block(effect.ln_1p()))
}

/// The ratio of means is further from 1 than the error that is printed behind it.
fn mean_and_sigma(base: &[f64], change: &[f64]) -> bool {
    let mean_and_deviation = |times: &[f64]| {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let squares = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
        (mean, (squares / (times.len() - 1) as f64).sqrt())
    };
    let ((base, base_sigma), (change, change_sigma)) =
        (mean_and_deviation(base), mean_and_deviation(change));
    let ratio = change / base;
    (ratio - 1.0).abs() > ratio * (base_sigma / base).hypot(change_sigma / change)
}

/// The least of one side is above the middle of the other, whose most is below the middle of it.
fn order(base: &[f64], change: &[f64]) -> bool {
    let above = |high: &[f64], low: &[f64]| {
        let least = high.iter().copied().fold(f64::INFINITY, f64::min);
        let most = low.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(least) > median(low) && median(high) > Some(most)
    };
    above(change, base) || above(base, change)
}

/// Mann-Whitney test by the normal approximation, at 5 %.
fn mann_whitney(base: &[f64], change: &[f64]) -> bool {
    let n = base.len() as f64;
    let above = |value: &f64| base.iter().filter(|other| value > *other).count();
    let above = change.iter().map(above).sum::<usize>() as f64;
    let deviation = (n * n * (2.0 * n + 1.0) / 12.0).sqrt();
    ((above - n * n / 2.0).abs() - 0.5) / deviation > 1.96
}

/// Stops as soon as the test by itself finds something.
fn peek(noise: SimulatedNoise, effect: f64, seed: u64) -> bool {
    let mut machine = SimulatedMachine::new(noise, seed);
    let slots = PairOrder::new(!seed).take(60);
    let pairs: Vec<f64> =
        slots.map(|slot| machine.pair(effect.ln_1p(), slot.change_first)).collect();
    (10..=60).any(|count| SignedRank::new(&pairs[..count]).p_value() <= 0.05)
}

/// Runs ktax's rules to the end: verdicts, coverage and numbers of pairs.
fn ours(noise: SimulatedNoise) {
    let trial = Trial::new(Rules::default(), 1);
    for effect in [0.0, 0.01, EFFECT, 0.05] {
        let rows: Vec<(TrialRow, usize)> = (0..RUNS)
            .map(|seed| simulate_run(&trial, noise, [0.0, effect.ln_1p()], seed))
            .collect();
        let count = |holds: &dyn Fn(&TrialRow) -> bool| {
            percent(rows.iter().filter(|row| holds(&row.0)).count())
        };
        let mean = |count: &dyn Fn(&(TrialRow, usize)) -> usize| {
            rows.iter().map(count).sum::<usize>() as f64 / RUNS as f64
        };
        let share = |verdict| count(&|row| row.verdict == verdict);
        let covers =
            |row: &TrialRow| row.ratio().low <= 1.0 + effect && 1.0 + effect <= row.ratio().high;
        println!(
            "ktax, {:>2.0} %: up {}, down {}, below the threshold {}, not detected {}, control {}; \
             interval holds it {}; pairs {:.0}, A/A {:.0}, boots {:.0}",
            100.0 * effect,
            share(Detection::Up),
            share(Detection::Down),
            share(Detection::Small),
            share(Detection::NotDetected),
            count(&|row| matches!(row.verdict, Detection::Inconclusive(_))),
            count(&covers),
            mean(&|row| row.0.pairs),
            mean(&|row| row.1),
            mean(&|row| 2 * (row.0.pairs + row.1)),
        );
    }
}
