//! The parameters of the decision rule, and the A/A control: base against base, in one run.
//!
//! A control must find no difference. It finds one if the harness favours the change's place, or if
//! Boots of the machine differ from each other; then the row gets no verdict.
//!
//! The level is 1 % for one row, not 5 %, because each false alarm removes a correct verdict: that
//! costs 1 % of the power. Its number of pairs lets the control detect an error that is two or
//! three times as large as the smallest detectable effect. What it can detect is printed with it.

use super::looks::Looks;
use super::signed_rank::{Interval, SignedRank};
use super::spread::shamos;

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
    /// The largest number of pairs.
    pub most_pairs: usize,
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
            most_pairs: 200,
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

/// The rules, with what is the same for every row.
#[derive(Debug, Clone)]
pub(super) struct Barriers {
    pub rules: Rules,
    pub looks: Looks,
    /// The barrier of one row's interval.
    pub one_row: f64,
}

impl Barriers {
    pub fn control(&self, controls: &[f64]) -> Option<Control> {
        Control::new(controls, self.rules.control_alpha)
    }
}

/// The result of the A/A pairs of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Control {
    /// The number of A/A pairs.
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
