//! The A/A control: base against base, within the same run.
//!
//! Where nothing differs nothing may be found. A harness that favours what stands in the change's
//! place, or a machine on which no two Boots are alike, shows here, and then no verdict is given.
//!
//! The level is 1 % for one row, not 5 %, because each false alarm takes a true verdict away: the
//! price is a hundredth of the power. What the control can see is printed with it: as many pairs as
//! it has, it sees an error some two or three times as large as the smallest effect.

use super::signed_rank::{Interval, SignedRank};
use super::spread::shamos;

/// What the A/A pairs of one row say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Control {
    /// How many there were.
    pub pairs: usize,
    /// As log-ratios.
    pub log: Interval,
    /// Robust standard deviation of the log-ratios.
    pub spread: f64,
}

impl Control {
    /// `None` of fewer than two.
    pub fn of(controls: &[f64], alpha: f64) -> Option<Control> {
        let spread = shamos(&[controls])?;
        let log = SignedRank::new(controls).interval(alpha)?;
        Some(Control { pairs: controls.len(), log, spread })
    }
}
