//! The A/A control: base against base, within the same run.
//!
//! A control must find no difference. It finds one if the harness favours the change's place, or if
//! Boots of the machine differ from each other; then the row gets no verdict.
//!
//! The level is 1 % for one row, not 5 %, because each false alarm removes a correct verdict: that
//! costs 1 % of the power. Its number of pairs lets the control detect an error that is two or
//! three times as large as the smallest detectable effect. What it can detect is printed with it.

use super::signed_rank::{Interval, SignedRank};
use super::spread::shamos;

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
    pub fn of(controls: &[f64], alpha: f64) -> Option<Control> {
        let spread = shamos(&[controls])?;
        let log = SignedRank::new(controls).interval(alpha)?;
        Some(Control { pairs: controls.len(), log, spread })
    }
}
