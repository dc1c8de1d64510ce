//! How far a run of timed pairs is: on stderr, and only if that is a terminal.

use indicatif::ProgressBar;

use super::super::progress::{say, spinner};
use crate::analyse;
use crate::model::{TimedPair, TimedPlan};

/// The progress of one run directory.
pub struct Progress {
    bar: ProgressBar,
    peek: bool,
}

impl Progress {
    /// With `peek` what is known so far is shown, too.
    pub fn new(peek: bool) -> Progress {
        if peek {
            note!("ktax: looking does not change when it stops");
        }
        let bar = spinner();
        // Its thread would take the CPU from what is measured.
        bar.disable_steady_tick();
        Progress { bar, peek }
    }

    /// Shows what is there.
    pub fn show(&self, plan: &TimedPlan, pairs: &[TimedPair]) {
        let done = analyse::progress(plan, pairs);
        let most = done.cap.map(|cap| format!(" of at most {cap}")).unwrap_or_default();
        let mut message = format!("pairs: {}{most}; A/A pairs: {}", done.pairs, done.controls);
        if self.peek {
            let known = analyse::estimates(plan, pairs);
            let known = known.iter().map(|(row, ratio)| format!("{row} {ratio:.3}"));
            message += &format!("; {}", known.collect::<Vec<_>>().join(", "));
            // A log has every step; a terminal the last one.
            if self.bar.is_hidden() {
                note!("ktax: {message}");
            }
        }
        say(&self.bar, &message);
    }

    /// Takes it away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
