//! A simulated machine: what one Boot after the other takes, as a logarithm.
//!
//! Slow noise (AR(1): a neighbour that comes and goes), noise of its own for each Boot, now and
//! then a Boot that takes much longer, and a drift. `benches/statistics.rs` includes this file too.

use super::random::Random;
use super::{Next, Order, Pairs, Trial, TrialRow};

/// Parameters of the noise, as shares of a Boot's time.
#[derive(Clone, Copy)]
pub struct SimulatedNoise {
    /// Standard deviation of each Boot by itself.
    pub own: f64,
    /// Standard deviation of the slow noise.
    pub slow: f64,
    /// Share of the slow noise that is left after one Boot.
    pub keep: f64,
    /// Share of Boots that have an accident.
    pub accidents: f64,
    /// Average cost of an accident; exponential.
    pub accident: f64,
    /// Slow-down from each Boot to the next.
    pub drift: f64,
}

/// 2 % of its own, 2 % slow, 3 % of Boots 10 % late on average; 4 % slower after 200 Boots.
pub const USUAL: SimulatedNoise = SimulatedNoise {
    own: 0.02,
    slow: 0.02,
    keep: 0.95,
    accidents: 0.03,
    accident: 0.10,
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

    /// The logarithm of the next Boot's time, without its workload.
    pub fn boot(&mut self) -> f64 {
        let SimulatedNoise { own, slow, keep, accidents, accident, drift } = self.noise;
        let fresh = slow * (1.0 - keep * keep).sqrt();
        self.slow = keep * self.slow + fresh * normal(&mut self.random);
        self.drift += drift;
        let late = self.random.unit() < accidents;
        let late = if late { -accident * (1.0 - self.random.unit()).ln() } else { 0.0 };
        self.slow + self.drift + own * normal(&mut self.random) + late
    }

    /// `ln(change / base)` of a pair in which the change costs `effect` more.
    pub fn pair(&mut self, effect: f64, change_first: bool) -> f64 {
        let (first, second) = (self.boot(), self.boot());
        effect + if change_first { first - second } else { second - first }
    }
}

/// Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Measures until the rules say stop; returns the row, and the number of A/A pairs. The second cost
/// is the change's, the first that of an A/A pair's second place; both are logarithms.
pub fn measured(
    trial: &Trial,
    noise: SimulatedNoise,
    costs: [f64; 2],
    seed: u64,
) -> (TrialRow, usize) {
    let mut machine = SimulatedMachine::new(noise, seed);
    let (mut pairs, mut controls) = (Vec::new(), Vec::new());
    for slot in Order::new(!seed) {
        let pair = machine.pair(costs[usize::from(!slot.is_control)], slot.change_first);
        if slot.is_control {
            controls.push(pair)
        } else {
            pairs.push(pair)
        }
        let rows = [Pairs { pairs: &pairs, controls: &controls }];
        if !matches!(trial.next(&rows), Next::GoOn { .. }) {
            return (trial.judge(&rows, &[]).headline[0], controls.len());
        }
    }
    unreachable!("an order has no end")
}
