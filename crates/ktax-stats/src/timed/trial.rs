//! The decision rule of timed rows: when a run stops, and the verdicts of its rows.
//!
//! **The A/A control** compares the base with itself in the same run. It must find no difference.
//! If it finds one, the harness favours the role of the change, or Boots of the machine differ from
//! each other, and the row gets no verdict.
//!
//! The level of the control is 1 % for one row, not 5 %, because each false alarm removes a correct
//! verdict, which costs 1 % of the power. With its number of pairs, the control detects an error
//! that is two or three times as large as the smallest detectable effect of the row. Reports print
//! the smallest error that the control can detect.
//!
//! **Multiple tests**: p-values are adjusted so that each can be compared with the common level.
//! [`holm`] (Scandinavian Journal of Statistics 6, 1979) keeps the probability of one or more false
//! findings below the level, for any dependence between the tests. It is for headline rows.
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
//! probability at which they would have stopped the walk ([`Looks::repeated_p_value`]). This is the
//! repeated p-value: for any choice of the look, it is below `a` in at most a share `a` of null
//! cases. So Holm's method can use it.

use std::f64::consts::{PI, SQRT_2};

use super::shamos;
use super::signed_rank::{Interval, SignedRank};

/// Minimum number of pairs for a verdict.
pub const MIN_PAIRS: usize = 10;

/// Minimum number of A/A pairs for a verdict. Seven pairs are all on one side of zero with
/// probability 2 / 2^7, which is above [`Rules::control_alpha`], so they could never fail the
/// control.
pub const MIN_CONTROLS: usize = 8;

/// Parameters of the decision rule, as shares and probabilities, not in percent.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Maximum probability of a false verdict among the headline rows, and maximum share of false
    /// verdicts among the verdicts of secondary rows. Intervals have the level `1 - alpha`.
    pub alpha: f64,
    /// Probability of detecting an effect as large as the minimum detectable effect.
    pub power: f64,
    /// Smallest change with a verdict, as a ratio minus one: ratios above `1 + threshold` or below
    /// `1 / (1 + threshold)`.
    pub threshold: f64,
    /// Maximum number of pairs after a pilot.
    pub max_pairs: usize,
    /// Fixed number of pairs with one look, instead of a pilot and five looks.
    pub pairs: Option<usize>,
    /// Level of the test that a row's A/A pairs differ from zero.
    pub control_alpha: f64,
    /// Maximum spread of A/A pairs, as a standard deviation of log-ratios.
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

/// Log-ratios of one row so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowPairs<'a> {
    /// `ln(change / base)` of each pair of Boots.
    pub pairs: &'a [f64],
    /// `ln(base / base)` of each A/A pair of Boots.
    pub controls: &'a [f64],
}

/// Result of the A/A pairs of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Control {
    pub pairs: usize,
    /// Estimate and interval of the log-ratio.
    pub log: Interval,
    /// Robust standard deviation of the log-ratios.
    pub spread: f64,
}

impl Control {
    /// Computes estimate, interval and spread; `None` for fewer than two pairs.
    pub fn new(controls: &[f64], alpha: f64) -> Option<Control> {
        let spread = shamos(&[controls])?;
        let log = SignedRank::new(controls).interval(alpha)?;
        Some(Control { pairs: controls.len(), log, spread })
    }
}

/// Verdict of a timed row. There is no verdict "no change": a row without a detected change has the
/// smallest change that it would have detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// The change has significantly larger values, by at least the threshold.
    Up,
    /// The change has significantly smaller values, by at least the threshold.
    Down,
    /// The difference is significant and below the threshold.
    Small,
    /// No detected change. A change of [`TrialRow::detectable`] would have been detected.
    NotDetected,
    /// No verdict is possible.
    Inconclusive(InconclusiveReason),
}

/// Reasons why no verdict is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InconclusiveReason {
    /// There are fewer than [`MIN_PAIRS`] pairs, or too few for an interval at this level.
    TooFewPairs,
    /// There are fewer than [`MIN_CONTROLS`] A/A pairs.
    TooFewControls,
    /// The A/A pairs differ significantly from zero.
    BiasedControl,
    /// The spread of the A/A pairs is above [`Rules::control_spread`].
    NoisyControl,
    /// A value is infinite or not a number.
    NotFinite,
}

impl Detection {
    /// Returns true for [`Detection::Up`] and [`Detection::Down`].
    pub fn is_up_or_down(self) -> bool {
        matches!(self, Detection::Up | Detection::Down)
    }
}

/// Result of one row. Fields named `log` have log-ratios, other effects are ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialRow {
    pub verdict: Detection,
    pub pairs: usize,
    /// Estimate and interval of `ln(change / base)`, valid at every look.
    pub log: Interval,
    /// Repeated p-value, not adjusted for other rows.
    pub p: f64,
    /// p-value, adjusted for the family of rows.
    pub adjusted_p: f64,
    /// Number of rows in the family.
    pub family: usize,
    /// Minimum detectable effect as a ratio, such as 1.008; infinite with too few pairs.
    pub detectable: f64,
    /// Result of the A/A pairs; `None` for fewer than two.
    pub control: Option<Control>,
}

impl TrialRow {
    /// Estimate and interval as ratios of change to base.
    pub fn ratio(&self) -> Interval {
        let Interval { estimate, low, high } = self.log;
        Interval { estimate: estimate.exp(), low: low.exp(), high: high.exp() }
    }
}

/// Judges the rows of a family. `cap` is the largest number of pairs, `corrected_barrier` the
/// Bonferroni-corrected barrier for the minimum detectable effect, and `adjust` adjusts the
/// p-values of the family.
fn judge_family(
    trial: &Trial,
    rows: &[RowPairs],
    cap: usize,
    corrected_barrier: f64,
    adjust: fn(&[f64]) -> Vec<f64>,
) -> Vec<TrialRow> {
    let mut judged: Vec<TrialRow> =
        rows.iter().map(|row| judge_single(trial, *row, cap, corrected_barrier)).collect();
    let adjusted = adjust(&judged.iter().map(|row| row.p).collect::<Vec<_>>());
    for ((row, adjusted_p), pairs) in judged.iter_mut().zip(adjusted).zip(rows) {
        row.adjusted_p = adjusted_p;
        row.family = rows.len();
        row.verdict = verdict(trial, row, *pairs);
    }
    judged
}

/// Judges a row without its family. Verdict, adjusted p-value and number of rows are added later.
fn judge_single(trial: &Trial, row: RowPairs, cap: usize, corrected_barrier: f64) -> TrialRow {
    let mut judged = TrialRow {
        verdict: Detection::NotDetected,
        pairs: row.pairs.len(),
        log: Interval { estimate: 0.0, low: f64::NEG_INFINITY, high: f64::INFINITY },
        p: 1.0,
        adjusted_p: 1.0,
        family: 1,
        detectable: f64::INFINITY,
        control: None,
    };
    if !is_finite(row) {
        return judged;
    }
    judged.control = Control::new(row.controls, trial.rules.control_alpha);
    let share = row.pairs.len() as f64 / cap as f64;
    let bound = trial.looks.bound(trial.single_barrier, share);
    let ranks = SignedRank::new(row.pairs);
    if let Some(log) = ranks.interval(2.0 * upper_tail(bound)) {
        judged.log = log;
        judged.p = trial.looks.repeated_p_value(ranks.p_value(), share);
        // Derive the standard deviation of the estimate from the width of the interval.
        let deviation = (log.high - log.low) / (2.0 * bound);
        let deviations =
            trial.looks.bound(corrected_barrier, share) + quantile(1.0 - trial.rules.power);
        judged.detectable = (deviations * deviation).exp();
    }
    judged
}

fn is_finite(row: RowPairs) -> bool {
    row.pairs.iter().chain(row.controls).all(|value| value.is_finite())
}

fn verdict(trial: &Trial, row: &TrialRow, pairs: RowPairs) -> Detection {
    if !is_finite(pairs) {
        return Detection::Inconclusive(InconclusiveReason::NotFinite);
    }
    if row.pairs < MIN_PAIRS || row.detectable.is_infinite() {
        return Detection::Inconclusive(InconclusiveReason::TooFewPairs);
    }
    let Some(control) = row.control.filter(|control| control.pairs >= MIN_CONTROLS) else {
        return Detection::Inconclusive(InconclusiveReason::TooFewControls);
    };
    if control.log.excludes_zero() {
        return Detection::Inconclusive(InconclusiveReason::BiasedControl);
    }
    if control.spread > trial.rules.control_spread {
        return Detection::Inconclusive(InconclusiveReason::NoisyControl);
    }
    if row.adjusted_p > trial.rules.alpha || !row.log.excludes_zero() {
        return Detection::NotDetected;
    }
    match row.log.estimate {
        estimate if estimate.abs() < trial.rules.threshold.ln_1p() => Detection::Small,
        estimate if estimate > 0.0 => Detection::Up,
        _ => Detection::Down,
    }
}

/// Minimum cap, also after a quiet pilot. In the simulation one of 17 pairs is an outlier, and
/// among only ten pairs two outliers hide any effect.
const MIN_CAP: usize = 20;

/// Number of looks of a run with a pilot.
const LOOKS: usize = 5;

/// Safety factor on the spread in the pilot. Eight values determine a standard deviation to about
/// 25 %, and a cap that is too low costs power.
const PILOT_FACTOR: f64 = 1.1;

/// Variance of the Hodges-Lehmann estimate divided by that of the mean, for normal values.
const HODGES_LEHMANN_VARIANCE: f64 = PI / 3.0;

/// Answer of [`Trial::next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Run the next pair of the [`super::PairOrder`]. `cap` is the largest number of pairs, which
    /// is known after the pilot.
    RunPair { cap: Option<usize> },
    /// Stop, because more pairs would not change the verdict of any headline row.
    Settled,
    /// Stop, because the largest number of pairs is reached.
    Exhausted,
}

/// Results of all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedRows {
    /// Headline rows, with p-values adjusted by [`holm`].
    pub headline: Vec<TrialRow>,
    /// Secondary rows, with p-values adjusted by [`benjamini_hochberg`].
    pub secondary: Vec<TrialRow>,
}

/// Decision rule with its barriers. It has no measured data, so an interrupted run continues from
/// its stored pairs.
#[derive(Debug, Clone)]
pub struct Trial {
    rules: Rules,
    looks: Looks,
    /// Barrier of the interval of a single row.
    single_barrier: f64,
    /// Barrier of a headline row, Bonferroni-corrected for the number of headline rows.
    corrected_barrier: f64,
}

impl Trial {
    /// Trial with this number of headline rows; 0 is treated as 1.
    pub fn new(rules: Rules, headline_rows: usize) -> Trial {
        let looks = Looks::new(if rules.pairs.is_some() { 1 } else { LOOKS });
        let single_barrier = looks.barrier(rules.alpha);
        let corrected_barrier = looks.barrier(rules.alpha / headline_rows.max(1) as f64);
        Trial { rules, looks, single_barrier, corrected_barrier }
    }

    /// Next step of a run, to be asked after each pair, with the headline rows so far.
    ///
    /// The data are looked at after each fifth of the cap, but not before [`MIN_PAIRS`]. The number
    /// of pairs of the run is that of the row with most pairs, because a row may lack failed pairs.
    pub fn next(&self, headline: &[RowPairs]) -> NextStep {
        let Some(cap) = self.cap(headline) else {
            return NextStep::RunPair { cap: None };
        };
        let count = headline.iter().map(|row| row.pairs.len()).max().unwrap_or(0);
        if count >= cap {
            NextStep::Exhausted
        } else if self.planned_looks(cap).any(|look| look == count)
            // Ignore rows without pairs, whose Boots all failed.
            && self
                .judge(headline, &[])
                .headline
                .iter()
                .all(|row| row.pairs == 0 || self.is_settled(row))
        {
            NextStep::Settled
        } else {
            NextStep::RunPair { cap: Some(cap) }
        }
    }

    /// Numbers of pairs after which the data were looked at so far, in ascending order.
    pub fn looks(&self, headline: &[RowPairs]) -> Vec<usize> {
        let Some(cap) = self.cap(headline) else { return Vec::new() };
        let count = headline.iter().map(|row| row.pairs.len()).max().unwrap_or(0);
        self.planned_looks(cap).chain([cap]).filter(|look| *look <= count).collect()
    }

    /// Numbers of pairs at the looks before the last one.
    fn planned_looks(&self, cap: usize) -> impl Iterator<Item = usize> + use<> {
        let looks = self.looks.count();
        (1..looks).map(move |look| (look * cap).div_ceil(looks)).filter(|count| *count >= MIN_PAIRS)
    }

    /// Judges all rows. It may be called at any time, also between looks and after an interrupted
    /// run.
    pub fn judge(&self, headline: &[RowPairs], secondary: &[RowPairs]) -> JudgedRows {
        let cap = self.cap(headline).unwrap_or(self.rules.max_pairs);
        let secondary_barrier = match secondary.len() {
            0 | 1 => self.single_barrier,
            rows => self.looks.barrier(self.rules.alpha / rows as f64),
        };
        JudgedRows {
            headline: judge_family(self, headline, cap, self.corrected_barrier, holm),
            secondary: judge_family(self, secondary, cap, secondary_barrier, benjamini_hochberg),
        }
    }

    /// Largest number of pairs, from the spread in the pilot: enough to detect a change as large as
    /// the threshold in every headline row. `None` during the pilot.
    ///
    /// The spread is estimated from A/A pairs alone. If the other pairs were used, pairs that agree
    /// by chance would lower the cap, and their false verdict would not be corrected by more pairs.
    /// In 10 000 simulated comparisons of equal Sides, 4.7 % instead of 4.0 % then got a false
    /// verdict.
    pub fn cap(&self, headline: &[RowPairs]) -> Option<usize> {
        if let Some(pairs) = self.rules.pairs {
            return Some(pairs);
        }
        let needed = headline.iter().map(|row| {
            row.pairs.get(..MIN_PAIRS)?;
            Some(self.needed_pairs(shamos(&[row.controls.get(..MIN_CONTROLS)?])?))
        });
        // Ignore rows that lack pairs of the pilot because Boots failed.
        let needed = needed.flatten().reduce(f64::max)?;
        let fifths = (needed / LOOKS as f64).ceil().min(self.rules.max_pairs as f64) as usize;
        Some((fifths * LOOKS).max(MIN_CAP).min(self.rules.max_pairs))
    }

    /// Number of pairs that detects a change as large as the threshold, if log-ratios have this
    /// standard deviation.
    fn needed_pairs(&self, deviation: f64) -> f64 {
        let deviations =
            self.looks.bound(self.corrected_barrier, 1.0) + quantile(1.0 - self.rules.power);
        HODGES_LEHMANN_VARIANCE
            * (deviations * PILOT_FACTOR * deviation / self.rules.threshold.ln_1p()).powi(2)
    }

    /// Returns true if more pairs would not change the verdict.
    fn is_settled(&self, row: &TrialRow) -> bool {
        row.verdict.is_up_or_down() || row.log.is_within(self.rules.threshold.ln_1p())
    }
}

/// p-values adjusted by the method of Holm, in the order of `p`.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in ascending(p).into_iter().enumerate() {
        largest = largest.max(p[index] * (p.len() - rank) as f64).min(1.0);
        adjusted[index] = largest;
    }
    adjusted
}

/// p-values adjusted by the method of Benjamini and Hochberg, in the order of `p`.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![0.0; p.len()];
    let mut smallest: f64 = 1.0;
    for (rank, index) in ascending(p).into_iter().enumerate().rev() {
        smallest = smallest.min(p[index] * p.len() as f64 / (rank + 1) as f64);
        adjusted[index] = smallest;
    }
    adjusted
}

/// Indices that sort `p` in ascending order.
fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

/// Number of nodes of the Gauss-Legendre rule. For a barrier of 10, the distance between nodes is
/// at most 0.4 standard deviations of a step, which integrates normal densities to machine
/// precision.
const NODES: usize = 40;

/// Equally spaced looks at the data. The last look has all data.
#[derive(Debug, Clone)]
pub struct Looks {
    count: usize,
    /// Nodes of the Gauss-Legendre rule in [0, 1], with their weights.
    nodes: Vec<(f64, f64)>,
}

impl Looks {
    /// Makes `count` looks, but at least one.
    pub fn new(count: usize) -> Looks {
        Looks { count: count.max(1), nodes: gauss_legendre(NODES) }
    }

    /// Number of looks.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Probability that a walk without drift is outside ±`barrier` at one of the looks.
    pub fn crossing_probability(&self, barrier: f64) -> f64 {
        if barrier <= 0.0 {
            return 1.0;
        }
        // The density is symmetric, so compute it for the upper half only. Each step adds the walks
        // from both halves.
        let nodes: Vec<(f64, f64)> =
            self.nodes.iter().map(|(x, weight)| (x * barrier, weight * barrier)).collect();
        let mut inside: Vec<f64> = nodes.iter().map(|(x, _)| density(*x)).collect();
        let exits: Vec<f64> =
            nodes.iter().map(|(x, _)| upper_tail(barrier - x) + upper_tail(barrier + x)).collect();
        let steps: Vec<f64> = nodes
            .iter()
            .flat_map(|(x, _)| nodes.iter().map(move |(y, _)| density(x - y) + density(x + y)))
            .collect();
        let mut probability = 2.0 * upper_tail(barrier);
        for _ in 1..self.count {
            let mass: Vec<f64> =
                nodes.iter().zip(&inside).map(|((_, weight), density)| weight * density).collect();
            let integrate =
                |values: &[f64]| values.iter().zip(&mass).map(|(value, mass)| value * mass).sum();
            let exited: f64 = integrate(&exits);
            probability += 2.0 * exited;
            inside = steps.chunks(NODES).map(integrate).collect();
        }
        probability.min(1.0)
    }

    /// Barrier that a walk without drift crosses with probability `alpha`.
    pub fn barrier(&self, alpha: f64) -> f64 {
        // The barrier is between that of a single look and the Bonferroni-corrected one. Solve for
        // the logarithm of the probability, which is nearly linear, by regula falsi with the
        // Illinois rule (Dowell and Jarratt 1971), which halves the value at an end that is
        // retained.
        if self.count == 1 {
            return quantile(alpha / 2.0);
        }
        let root = (self.count as f64).sqrt();
        let excess = |barrier: f64| (self.crossing_probability(barrier) / alpha).ln();
        let mut low = root * quantile(alpha / 2.0);
        let mut high = root * quantile(alpha / 2.0 / self.count as f64);
        let (mut low_excess, mut high_excess) = (excess(low), excess(high));
        for _ in 0..100 {
            if low_excess <= 0.0 {
                return low;
            }
            let middle = high - high_excess * (high - low) / (high_excess - low_excess);
            let middle_excess = excess(middle);
            if middle_excess.abs() < 1e-14 || high - low < 1e-13 * high {
                return middle;
            }
            if middle_excess > 0.0 {
                (low, low_excess, high_excess) = (middle, middle_excess, high_excess / 2.0);
            } else {
                (high, high_excess, low_excess) = (middle, middle_excess, low_excess / 2.0);
            }
        }
        high
    }

    /// Value of `|Z|` that reaches a barrier with this share of the data. The share may be between
    /// two looks, for a run that stopped early. A share above 1 is treated as 1.
    pub fn bound(&self, barrier: f64, share: f64) -> f64 {
        barrier / (self.count as f64 * share.min(1.0)).sqrt()
    }

    /// Repeated p-value for a two-sided p-value `p` with this share of the data.
    pub fn repeated_p_value(&self, p: f64, share: f64) -> f64 {
        if p >= 1.0 {
            return 1.0;
        }
        self.crossing_probability(quantile(p / 2.0) * (self.count as f64 * share.min(1.0)).sqrt())
    }
}

/// Nodes and weights of the Gauss-Legendre rule in [0, 1], by Newton's method for the roots of the
/// Legendre polynomial, with start values near the Chebyshev nodes.
fn gauss_legendre(count: usize) -> Vec<(f64, f64)> {
    let n = count as f64;
    let node = |i: usize| {
        let mut x = (PI * (i as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..10 {
            let (mut previous, mut value) = (1.0, x);
            for k in 2..=count {
                let k = k as f64;
                let next = ((2.0 * k - 1.0) * x * value - (k - 1.0) * previous) / k;
                (previous, value) = (value, next);
            }
            slope = n * (x * value - previous) / (x * x - 1.0);
            x -= value / slope;
        }
        (f64::midpoint(1.0, x), 1.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..count).map(node).collect()
}

/// Probability that a standard normal value is above `z`.
pub fn upper_tail(z: f64) -> f64 {
    libm::erfc(z / SQRT_2) / 2.0
}

/// Density of the standard normal distribution.
pub fn density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / (2.0 * PI).sqrt()
}

/// Value `z` that a standard normal value exceeds with probability `p`; infinite for `p` of 0 or 1.
///
/// Newton's method on the logarithm of the upper tail. The tail is below exp(-z^2 / 2) / 2, so the
/// start value is not below the solution. The logarithm is concave, so no step goes below the
/// solution.
pub fn quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -quantile(1.0 - p);
    }
    if p <= 0.0 {
        return f64::INFINITY;
    }
    let mut z = (-2.0 * (2.0 * p).ln()).sqrt();
    for _ in 0..50 {
        let tail = upper_tail(z);
        if tail <= 0.0 {
            // Beyond 38 standard deviations, the tail is below the smallest double.
            return z;
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
