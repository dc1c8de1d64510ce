//! The decision rule of timed rows: when a run stops, and the verdicts of its rows.
//!
//! **The A/A control** is base against base, in one run. A control must find no difference. It
//! finds one if the harness favours the change's place, or if Boots of the machine differ from each
//! other; then the row gets no verdict.
//!
//! The level is 1 % for one row, not 5 %, because each false alarm removes a correct verdict: that
//! costs 1 % of the power. Its number of pairs lets the control detect an error that is two or
//! three times as large as the smallest detectable effect. What it can detect is printed with it.
//!
//! **Multiple tests**: p-values are adjusted so that each can be compared with the level of all.
//! [`holm`] (Scandinavian Journal of Statistics 6, 1979) keeps the probability of one or more false
//! findings below the level, however the tests depend on each other. It is for headline rows.
//! [`benjamini_hochberg`] (JRSS B 57, 1995) keeps the share of false findings among all findings
//! below the level, if tests are independent or positively dependent. It is for secondary rows.
//!
//! **Several looks** at the data need not mean more false findings. After `k` of `K` equal parts of
//! the data, the normal statistic `Z_k` times `sqrt(k)` is a random walk of `k` independent
//! standard normal steps. O'Brien and Fleming (Biometrics 35, 1979) stop it at one constant
//! barrier, `|Z_k| sqrt(k) >= c`. A stop at the first look is then almost impossible, and at the
//! last look the bound is close to the usual one. The probability that a walk without drift leaves
//! the barrier is computed as by Armitage, McPherson and Rowe (JRSS A 132, 1969): the density of
//! the walks that are still inside, step by step, by numerical integration.
//!
//! This relation between `c` and the probability is used in both directions. A probability gives
//! the barrier ([`Looks::barrier`]), and with it the level of each look and the repeated confidence
//! interval (Jennison and Turnbull, JRSS B 51, 1989). The data give the smallest overall
//! probability at which they would have stopped ([`Looks::overall`]). That is the repeated p-value:
//! however the look was chosen, it is below `a` in at most a share `a` of null cases. So Holm's
//! method can use it.

use std::f64::consts::{PI, SQRT_2};

use super::shamos;
use super::signed_rank::{Interval, SignedRank};

/// The smallest number of pairs for a verdict.
pub const MIN_PAIRS: usize = 10;

/// The smallest number of A/A pairs for a verdict. All of seven are on one side of zero with
/// probability 2 / 2^7, which is above [`Rules::control_alpha`].
pub const MIN_CONTROLS: usize = 8;

/// The parameters of the decision rule. They are shares and probabilities, not percent.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The probability of one or more false verdicts among the headline rows, and the share of
    /// false ones among secondary findings. The intervals have the level `1 - alpha`.
    pub alpha: f64,
    /// The probability of detecting an effect as large as the minimum detectable effect.
    pub power: f64,
    /// The smallest relevant change, as a ratio minus one; downwards `1 / (1 + threshold)`.
    pub threshold: f64,
    pub max_pairs: usize,
    /// A fixed number of pairs with one look, instead of a pilot and five looks.
    pub pairs: Option<usize>,
    /// The level of the test that a row's A/A pairs differ from zero.
    pub control_alpha: f64,
    /// The largest permitted spread of A/A pairs, as a standard deviation of log-ratios.
    pub control_spread: f64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            alpha: 0.05,
            power: 0.9,
            threshold: 0.01,
            max_pairs: 200,
            pairs: None,
            control_alpha: 0.01,
            control_spread: 0.2,
        }
    }
}

/// One row's log-ratios so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pairs<'a> {
    /// `ln(change / base)` of each pair of Boots.
    pub pairs: &'a [f64],
    /// `ln(base / base)` of each A/A pair of Boots.
    pub controls: &'a [f64],
}

/// The result of the A/A pairs of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Control {
    pub pairs: usize,
    /// Estimate and interval of their log-ratios.
    pub log: Interval,
    /// Robust standard deviation of the log-ratios.
    pub spread: f64,
}

impl Control {
    /// `None` for fewer than two pairs.
    pub fn new(controls: &[f64], alpha: f64) -> Option<Control> {
        let spread = shamos(&[controls])?;
        let log = SignedRank::new(controls).interval(alpha)?;
        Some(Control { pairs: controls.len(), log, spread })
    }
}

/// The verdict of a timed row. "No change" is not one of them: a row without a detected change says
/// which change it would have detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// The change has larger values, by at least the threshold.
    Up,
    /// The change has smaller values, by at least the threshold.
    Down,
    /// The difference is significant and below the threshold.
    Small,
    /// No detected change. A change of [`TrialRow::detectable`] would have been detected.
    NotDetected,
    /// No verdict is possible.
    Inconclusive(Why),
}

/// Reasons why no verdict is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There are fewer than [`MIN_PAIRS`] pairs, or too few for an interval at this level.
    TooFewPairs,
    /// There are fewer than [`MIN_CONTROLS`] A/A pairs.
    TooFewControls,
    /// The A/A pairs differ significantly from zero.
    ControlOff,
    /// The spread of the A/A pairs is above the limit.
    ControlWide,
    /// A value is infinite or not a number.
    NotFinite,
}

impl Detection {
    /// Returns true if it is [`Detection::Up`] or [`Detection::Down`].
    pub fn is_up_or_down(self) -> bool {
        matches!(self, Detection::Up | Detection::Down)
    }
}

/// The result of one row. Effects are log-ratios if they are called `log`, otherwise ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialRow {
    pub verdict: Detection,
    pub pairs: usize,
    /// Estimate and interval of `ln(change / base)`, valid at every look.
    pub log: Interval,
    /// The repeated p-value of the row by itself.
    pub p: f64,
    /// The p-value, adjusted for the family.
    pub adjusted: f64,
    /// The number of rows in the family.
    pub family: usize,
    /// The minimum detectable effect as a ratio, such as 1.008; infinite if there is none.
    pub detectable: f64,
    /// The result of the A/A pairs; `None` for fewer than two.
    pub control: Option<Control>,
}

impl TrialRow {
    /// Estimate and interval as ratios of change to base, instead of their logarithms.
    pub fn ratio(&self) -> Interval {
        let Interval { estimate, low, high } = self.log;
        Interval { estimate: estimate.exp(), low: low.exp(), high: high.exp() }
    }
}

/// Judges the rows of a family under a cap. `strict` is the barrier of a row that is tested at a
/// share of the level; `adjust` adjusts the family's p-values.
fn judge(
    trial: &Trial,
    rows: &[Pairs],
    cap: usize,
    strict: f64,
    adjust: fn(&[f64]) -> Vec<f64>,
) -> Vec<TrialRow> {
    let mut judged: Vec<TrialRow> =
        rows.iter().map(|row| by_itself(trial, *row, cap, strict)).collect();
    let adjusted = adjust(&judged.iter().map(|row| row.p).collect::<Vec<_>>());
    for ((row, adjusted), pairs) in judged.iter_mut().zip(adjusted).zip(rows) {
        row.adjusted = adjusted;
        row.family = rows.len();
        row.verdict = verdict(trial, row, *pairs);
    }
    judged
}

/// Judges a row, except for what depends on the family.
fn by_itself(trial: &Trial, row: Pairs, cap: usize, strict: f64) -> TrialRow {
    let mut judged = TrialRow {
        verdict: Detection::NotDetected,
        pairs: row.pairs.len(),
        log: Interval { estimate: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY },
        p: 1.0,
        adjusted: 1.0,
        family: 1,
        detectable: f64::INFINITY,
        control: None,
    };
    if !is_finite(row) {
        return judged;
    }
    judged.control = Control::new(row.controls, trial.rules.control_alpha);
    let share = row.pairs.len() as f64 / cap as f64;
    let bound = trial.looks.bound(trial.one_row, share);
    let ranks = SignedRank::new(row.pairs);
    if let Some(log) = ranks.interval(2.0 * upper(bound)) {
        judged.log = log;
        judged.p = trial.looks.overall(ranks.p_value(), share);
        // The standard deviation of the estimate, from the interval's width.
        let deviation = (log.high - log.low) / (2.0 * bound);
        let reach = trial.looks.bound(strict, share) + quantile(1.0 - trial.rules.power);
        judged.detectable = (reach * deviation).exp();
    }
    judged
}

fn is_finite(row: Pairs) -> bool {
    row.pairs.iter().chain(row.controls).all(|value| value.is_finite())
}

fn verdict(trial: &Trial, row: &TrialRow, pairs: Pairs) -> Detection {
    if !is_finite(pairs) {
        return Detection::Inconclusive(Why::NotFinite);
    }
    if row.pairs < MIN_PAIRS || row.detectable.is_infinite() {
        return Detection::Inconclusive(Why::TooFewPairs);
    }
    let Some(control) = row.control.filter(|control| control.pairs >= MIN_CONTROLS) else {
        return Detection::Inconclusive(Why::TooFewControls);
    };
    if control.log.excludes_zero() {
        return Detection::Inconclusive(Why::ControlOff);
    }
    if control.spread > trial.rules.control_spread {
        return Detection::Inconclusive(Why::ControlWide);
    }
    if row.adjusted > trial.rules.alpha || !row.log.excludes_zero() {
        return Detection::NotDetected;
    }
    match row.log.estimate {
        estimate if estimate.abs() < trial.rules.threshold.ln_1p() => Detection::Small,
        estimate if estimate > 0.0 => Detection::Up,
        _ => Detection::Down,
    }
}

/// The lowest cap, even after a quiet pilot: among ten pairs, two outliers hide any effect, and in
/// the simulation one of 17 pairs is an outlier.
const LEAST_CAP: usize = 20;

/// The number of looks of a run whose length the pilot decides.
const LOOKS: usize = 5;

/// A safety factor: eight values give a standard deviation to a quarter, and a cap that is too low
/// costs power.
const PILOT: f64 = 1.1;

/// The ratio of the variance of the Hodges-Lehmann estimate to that of a mean, for normal values.
const HODGES_LEHMANN: f64 = PI / 3.0;

/// The answer of [`Trial::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Run the next pair of the [`super::Order`]. `cap` is the largest number of pairs, known after
    /// the pilot.
    GoOn { cap: Option<usize> },
    /// Every headline row is settled.
    Settled,
    /// The last look was taken.
    Exhausted,
}

/// The results of all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Headline rows, adjusted by Holm.
    pub headline: Vec<TrialRow>,
    /// Secondary rows, adjusted by Benjamini and Hochberg.
    pub secondary: Vec<TrialRow>,
}

/// The rules, with their barriers computed. It keeps no data, so an interrupted run goes on from
/// the pairs that were measured.
#[derive(Debug, Clone)]
pub struct Trial {
    rules: Rules,
    looks: Looks,
    /// The barrier of one row's interval.
    one_row: f64,
    /// The barrier of one headline row, Bonferroni-corrected over all of them.
    strict: f64,
}

impl Trial {
    /// A trial with this number of headline rows; 0 counts as 1.
    pub fn new(rules: Rules, headline_rows: usize) -> Trial {
        let looks = Looks::new(if rules.pairs.is_some() { 1 } else { LOOKS });
        let one_row = looks.barrier(rules.alpha);
        let strict = looks.barrier(rules.alpha / headline_rows.max(1) as f64);
        Trial { rules, looks, one_row, strict }
    }

    /// Returns true to go on. Ask after each pair, with the headline rows so far.
    ///
    /// There is a look at each fifth of the cap, but none before [`MIN_PAIRS`]. The number of pairs
    /// is that of the row with the most: a failed pair is missing in its row only.
    pub fn next(&self, headline: &[Pairs]) -> Next {
        let Some(cap) = self.cap(headline) else { return Next::GoOn { cap: None } };
        let count = headline.iter().map(|row| row.pairs.len()).max().unwrap_or(0);
        if count >= cap {
            Next::Exhausted
        } else if self.planned_looks(cap).any(|look| look == count)
            // A row without any pair will have none.
            && self
                .judge(headline, &[])
                .headline
                .iter()
                .all(|row| row.pairs == 0 || self.is_settled(row))
        {
            Next::Settled
        } else {
            Next::GoOn { cap: Some(cap) }
        }
    }

    /// The numbers of pairs at which there was a look so far, in ascending order.
    pub fn looks(&self, headline: &[Pairs]) -> Vec<usize> {
        let Some(cap) = self.cap(headline) else { return Vec::new() };
        let count = headline.iter().map(|row| row.pairs.len()).max().unwrap_or(0);
        self.planned_looks(cap).chain([cap]).filter(|look| *look <= count).collect()
    }

    /// The looks before the last.
    fn planned_looks(&self, cap: usize) -> impl Iterator<Item = usize> + use<> {
        let looks = self.looks.count();
        (1..looks).map(move |look| (look * cap).div_ceil(looks)).filter(|count| *count >= MIN_PAIRS)
    }

    /// Judges each row; may be called at any time, between looks and after an interrupt too.
    pub fn judge(&self, headline: &[Pairs], secondary: &[Pairs]) -> Judged {
        let cap = self.cap(headline).unwrap_or(self.rules.max_pairs);
        let strict = match secondary.len() {
            0 | 1 => self.one_row,
            rows => self.looks.barrier(self.rules.alpha / rows as f64),
        };
        Judged {
            headline: judge(self, headline, cap, self.strict, holm),
            secondary: judge(self, secondary, cap, strict, benjamini_hochberg),
        }
    }

    /// The largest number of pairs, from the spread in the pilot: enough to detect a change as
    /// large as the threshold in every headline row. `None` before the pilot is over.
    ///
    /// The spread is that of the A/A pairs alone. Pairs whose signs agree by chance are close
    /// together, so they would lower the cap just when they mislead. In 10 000 simulated
    /// comparisons of equal Sides, 4.7 % instead of 4.0 % then got a false verdict.
    pub fn cap(&self, headline: &[Pairs]) -> Option<usize> {
        if let Some(pairs) = self.rules.pairs {
            return Some(pairs);
        }
        let needed = headline.iter().map(|row| {
            row.pairs.get(..MIN_PAIRS)?;
            Some(self.needed(shamos(&[row.controls.get(..MIN_CONTROLS)?])?))
        });
        // A row with failed pairs is not waited for.
        let needed = needed.flatten().reduce(f64::max)?;
        let fifths = (needed / LOOKS as f64).ceil().min(self.rules.max_pairs as f64) as usize;
        Some((fifths * LOOKS).max(LEAST_CAP).min(self.rules.max_pairs))
    }

    /// The number of pairs that detects the threshold if pairs have this standard deviation.
    fn needed(&self, deviation: f64) -> f64 {
        let reach = self.looks.bound(self.strict, 1.0) + quantile(1.0 - self.rules.power);
        HODGES_LEHMANN * (reach * PILOT * deviation / self.rules.threshold.ln_1p()).powi(2)
    }

    /// Returns true if more pairs would not change the verdict.
    fn is_settled(&self, row: &TrialRow) -> bool {
        row.verdict.is_up_or_down() || row.log.is_within(self.rules.threshold.ln_1p())
    }
}

/// Adjusted p-values, in the order given.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in ascending(p).into_iter().enumerate() {
        largest = largest.max(p[index] * (p.len() - rank) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

/// Adjusted p-values, in the order given.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut least: f64 = 1.0;
    for (rank, index) in ascending(p).into_iter().enumerate().rev() {
        least = least.min(p[index] * p.len() as f64 / (rank + 1) as f64);
        adjusted[index] = least;
    }
    adjusted
}

fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

/// Nodes of the Gauss-Legendre rule. Within a barrier of 10 they lie at most 0.4 deviations of a
/// step apart, which integrates normal densities to all digits.
const NODES: usize = 40;

/// Equally spaced looks; the last is at all of the data.
#[derive(Debug, Clone)]
pub struct Looks {
    count: usize,
    /// Nodes in [0, 1] and their weights.
    nodes: Vec<(f64, f64)>,
}

impl Looks {
    /// `count` looks, at least 1.
    pub fn new(count: usize) -> Looks {
        Looks { count: count.max(1), nodes: gauss_legendre(NODES) }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// The probability that a walk without drift is outside ±`barrier` at one of the looks.
    pub fn crossing(&self, barrier: f64) -> f64 {
        if barrier <= 0.0 {
            return 1.0;
        }
        // By symmetry the density is kept for the upper half only, and each step comes from both.
        let places: Vec<(f64, f64)> =
            self.nodes.iter().map(|(x, weight)| (x * barrier, weight * barrier)).collect();
        let mut within: Vec<f64> = places.iter().map(|(x, _)| density(*x)).collect();
        let leaves: Vec<f64> =
            places.iter().map(|(x, _)| upper(barrier - x) + upper(barrier + x)).collect();
        let steps: Vec<f64> = places
            .iter()
            .flat_map(|(x, _)| places.iter().map(move |(y, _)| density(x - y) + density(x + y)))
            .collect();
        let mut chance = 2.0 * upper(barrier);
        for _ in 1..self.count {
            let mass: Vec<f64> =
                places.iter().zip(&within).map(|((_, weight), f)| weight * f).collect();
            let sum = |with: &[f64]| with.iter().zip(&mass).map(|(with, mass)| with * mass).sum();
            let left: f64 = sum(&leaves);
            chance += 2.0 * left;
            within = steps.chunks(NODES).map(sum).collect();
        }
        chance.min(1.0)
    }

    /// The barrier that a walk without drift leaves with probability `alpha`.
    pub fn barrier(&self, alpha: f64) -> f64 {
        // Between the need of the last look alone and Bonferroni's. Regula falsi on the logarithm,
        // which is nearly straight; the end that stays weighs half as much each time (Dowell and
        // Jarratt 1971, the Illinois rule).
        if self.count == 1 {
            return quantile(alpha / 2.0);
        }
        let last = (self.count as f64).sqrt();
        let above = |barrier: f64| (self.crossing(barrier) / alpha).ln();
        let mut low = last * quantile(alpha / 2.0);
        let mut high = last * quantile(alpha / 2.0 / self.count as f64);
        let (mut at_low, mut at_high) = (above(low), above(high));
        for _ in 0..100 {
            if at_low <= 0.0 {
                return low;
            }
            let middle = high - at_high * (high - low) / (at_high - at_low);
            let here = above(middle);
            if here.abs() < 1e-14 || high - low < 1e-13 * high {
                return middle;
            }
            if here > 0.0 {
                (low, at_low, at_high) = (middle, here, at_high / 2.0);
            } else {
                (high, at_high, at_low) = (middle, here, at_low / 2.0);
            }
        }
        high
    }

    /// The `|Z|` that reaches a barrier when this share of the data is there. A share between two
    /// looks is for a run that stopped early; a share above 1 counts as 1.
    pub fn bound(&self, barrier: f64, share: f64) -> f64 {
        barrier / (self.count as f64 * share.min(1.0)).sqrt()
    }

    /// The repeated p-value of a two-sided `p` when this share of the data is there.
    pub fn overall(&self, p: f64, share: f64) -> f64 {
        if p >= 1.0 {
            return 1.0;
        }
        self.crossing(quantile(p / 2.0) * (self.count as f64 * share.min(1.0)).sqrt())
    }
}

/// Nodes and weights in [0, 1]: Newton's method on the Legendre polynomial, from Chebyshev's nodes.
fn gauss_legendre(count: usize) -> Vec<(f64, f64)> {
    let n = count as f64;
    let node = |i: usize| {
        let mut x = (PI * (i as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..10 {
            let (mut before, mut value) = (1.0, x);
            for k in 2..=count {
                let k = k as f64;
                (before, value) = (value, ((2.0 * k - 1.0) * x * value - (k - 1.0) * before) / k);
            }
            slope = n * (x * value - before) / (x * x - 1.0);
            x -= value / slope;
        }
        (f64::midpoint(1.0, x), 1.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..count).map(node).collect()
}

/// The probability that a standard normal value is above `z`.
pub fn upper(z: f64) -> f64 {
    libm::erfc(z / SQRT_2) / 2.0
}

/// The density of the standard normal distribution.
pub fn density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / (2.0 * PI).sqrt()
}

/// The `z` that a standard normal value exceeds with probability `p`; infinite for `p` of 0 or 1.
///
/// Newton on the logarithm of the tail, from the right: the tail is below exp(-z^2 / 2) / 2, so the
/// start is never left of the solution, and the logarithm is concave, so no step passes it.
pub fn quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    if p <= 0.0 {
        return f64::INFINITY;
    }
    let mut z = (-2.0 * (2.0 * p).ln()).sqrt();
    for _ in 0..50 {
        let tail = upper(z);
        if tail <= 0.0 {
            return z; // Beyond 38 deviations there are no numbers left.
        }
        let step = (tail / p).ln() * tail / density(z);
        z += step;
        if step.abs() <= 1e-14 * z.abs() {
            break;
        }
    }
    z
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
