//! Simulated machine: the logarithm of the time of each Boot.
//!
//! The time has slow noise (AR(1), as from other virtual machines on the same host), independent
//! noise of each Boot, rare Boots that take much longer, and a drift. `benches/statistics.rs`
//! includes this file, too.

use super::random::Random;
use super::{NextStep, PairOrder, RowPairs, Trial, TrialRow};

/// Parameters of the noise, as shares of a Boot's time.
#[derive(Clone, Copy)]
pub struct SimulatedNoise {
    /// Standard deviation of the independent noise of each Boot.
    pub own: f64,
    /// Standard deviation of the slow noise.
    pub slow: f64,
    /// Share of the slow noise that is left after one Boot.
    pub keep: f64,
    /// Share of Boots that take much longer.
    pub outliers: f64,
    /// Mean of the exponentially distributed extra time of such Boots.
    pub outlier_mean: f64,
    /// Increase from each Boot to the next.
    pub drift: f64,
}

/// Typical noise: 2 % independent, 2 % slow, 3 % of Boots 10 % longer on average, and a drift of 4
/// % over 200 Boots.
pub const USUAL: SimulatedNoise = SimulatedNoise {
    own: 0.02,
    slow: 0.02,
    keep: 0.95,
    outliers: 0.03,
    outlier_mean: 0.10,
    drift: 0.0002,
};

pub struct SimulatedMachine {
    random: Random,
    noise: SimulatedNoise,
    slow: f64,
    drift: f64,
}

impl SimulatedMachine {
    pub fn new(noise: SimulatedNoise, seed: u64) -> SimulatedMachine {
        let mut random = Random::new(seed);
        let slow = noise.slow * normal(&mut random);
        SimulatedMachine { random, noise, slow, drift: 0.0 }
    }

    /// Logarithm of the next Boot's time, without the cost of the workload.
    pub fn boot(&mut self) -> f64 {
        let SimulatedNoise { own, slow, keep, outliers, outlier_mean, drift } = self.noise;
        let fresh = slow * (1.0 - keep * keep).sqrt();
        self.slow = keep * self.slow + fresh * normal(&mut self.random);
        self.drift += drift;
        let is_outlier = self.random.unit() < outliers;
        let extra = if is_outlier { -outlier_mean * (1.0 - self.random.unit()).ln() } else { 0.0 };
        self.slow + self.drift + own * normal(&mut self.random) + extra
    }

    /// `ln(change / base)` of a pair in which the change costs `effect` more.
    pub fn pair(&mut self, effect: f64, change_first: bool) -> f64 {
        let (first, second) = (self.boot(), self.boot());
        effect + if change_first { first - second } else { second - first }
    }
}

/// Standard normal number, by the method of Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Simulates a run until the rules stop it; returns the row and the number of A/A pairs. `costs`
/// has the effect in A/A pairs, as from an unfair harness, and the effect in other pairs, both as
/// logarithms.
pub fn simulate_run(
    trial: &Trial,
    noise: SimulatedNoise,
    costs: [f64; 2],
    seed: u64,
) -> (TrialRow, usize) {
    let mut machine = SimulatedMachine::new(noise, seed);
    let (mut pairs, mut controls) = (Vec::new(), Vec::new());
    for slot in PairOrder::new(!seed) {
        let pair = machine.pair(costs[usize::from(!slot.is_control)], slot.change_first);
        if slot.is_control {
            controls.push(pair)
        } else {
            pairs.push(pair)
        }
        let rows = [RowPairs { pairs: &pairs, controls: &controls }];
        if !matches!(trial.next(&rows), NextStep::RunPair { .. }) {
            return (trial.judge(&rows, &[]).headline[0], controls.len());
        }
    }
    unreachable!("an order is endless")
}
