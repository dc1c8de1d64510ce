//! The result of one row.

use super::normal::{quantile, upper};
use super::rules::Barriers;
use super::rules::Control;
use super::rules::{MIN_CONTROLS, MIN_PAIRS, Pairs};
use super::signed_rank::{Interval, SignedRank};

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

/// Why no verdict is possible.
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
    /// Whether it is [`Detection::Up`] or [`Detection::Down`].
    pub fn is_up_or_down(self) -> bool {
        matches!(self, Detection::Up | Detection::Down)
    }
}

/// The result of one row. Effects are log-ratios if they are called `log`, otherwise ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialRow {
    /// The verdict.
    pub verdict: Detection,
    /// The number of pairs.
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
pub(super) fn judge(
    barriers: &Barriers,
    rows: &[Pairs],
    cap: usize,
    strict: f64,
    adjust: fn(&[f64]) -> Vec<f64>,
) -> Vec<TrialRow> {
    let mut judged: Vec<TrialRow> =
        rows.iter().map(|row| by_itself(barriers, *row, cap, strict)).collect();
    let adjusted = adjust(&judged.iter().map(|row| row.p).collect::<Vec<_>>());
    for ((row, adjusted), pairs) in judged.iter_mut().zip(adjusted).zip(rows) {
        row.adjusted = adjusted;
        row.family = rows.len();
        row.verdict = verdict(barriers, row, *pairs);
    }
    judged
}

/// Judges a row, except for what depends on the family.
fn by_itself(barriers: &Barriers, row: Pairs, cap: usize, strict: f64) -> TrialRow {
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
    judged.control = barriers.control(row.controls);
    let share = row.pairs.len() as f64 / cap as f64;
    let bound = barriers.looks.bound(barriers.one_row, share);
    let ranks = SignedRank::new(row.pairs);
    if let Some(log) = ranks.interval(2.0 * upper(bound)) {
        judged.log = log;
        judged.p = barriers.looks.overall(ranks.p_value(), share);
        // The standard deviation of the estimate, from the interval's width.
        let deviation = (log.high - log.low) / (2.0 * bound);
        let reach = barriers.looks.bound(strict, share) + quantile(1.0 - barriers.rules.power);
        judged.detectable = (reach * deviation).exp();
    }
    judged
}

fn is_finite(row: Pairs) -> bool {
    row.pairs.iter().chain(row.controls).all(|value| value.is_finite())
}

fn verdict(barriers: &Barriers, row: &TrialRow, pairs: Pairs) -> Detection {
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
    if control.spread > barriers.rules.control_spread {
        return Detection::Inconclusive(Why::ControlWide);
    }
    if row.adjusted > barriers.rules.alpha || !row.log.excludes_zero() {
        return Detection::NotDetected;
    }
    match row.log.estimate {
        estimate if estimate.abs() < barriers.rules.threshold.ln_1p() => Detection::Small,
        estimate if estimate > 0.0 => Detection::Up,
        _ => Detection::Down,
    }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
