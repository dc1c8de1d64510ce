//! When to stop, and what to say.

use super::barriers::Barriers;
use super::family::{benjamini_hochberg, holm};
use super::looks::Looks;
use super::normal::quantile;
use super::row::{Row, judge};
use super::rules::{MIN_CONTROLS, MIN_PAIRS, Pairs, Rules};
use super::spread::shamos;

/// A pilot that saw a quiet machine gets no lower cap: among ten pairs, two accidents hide
/// whatever there is, and one of 17 simulated pairs has one.
const LEAST_CAP: usize = 20;

/// Looks of a run whose length the pilot decides.
const LOOKS: usize = 5;

/// Eight values know a standard deviation to a quarter, and a cap that is too low costs power.
const PILOT: f64 = 1.1;

/// What the variance of Hodges and Lehmann's estimate is above that of a mean, for normal values.
const HODGES_LEHMANN: f64 = std::f64::consts::PI / 3.0;

/// What [`Trial::next`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Run the next pair of the [`super::Order`]. `cap` is the number of pairs after which it ends
    /// at the latest, known when the pilot is over.
    GoOn { cap: Option<usize> },
    /// Every headline row is settled.
    Settled,
    /// The last look was taken.
    Exhausted,
}

/// What [`Trial::judge`] says of all rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// By Holm.
    pub headline: Vec<Row>,
    /// By Benjamini and Hochberg.
    pub secondary: Vec<Row>,
}

/// The rules, with their barriers computed. It remembers nothing of the data: a run that was
/// interrupted goes on from what was measured.
#[derive(Debug, Clone)]
pub struct Trial {
    barriers: Barriers,
    /// The barrier of one headline row where all of them are tested, after Bonferroni.
    strict: f64,
}

impl Trial {
    /// For so many headline rows; none counts as one.
    pub fn new(rules: Rules, headline_rows: usize) -> Trial {
        let looks = Looks::new(if rules.pairs.is_some() { 1 } else { LOOKS });
        let one_row = looks.barrier(rules.alpha);
        let strict = looks.barrier(rules.alpha / headline_rows.max(1) as f64);
        Trial { barriers: Barriers { rules, looks, one_row }, strict }
    }

    /// Asked after each pair, with what is known of the headline rows: go on?
    ///
    /// Looks are at fifths of the cap, and none before [`MIN_PAIRS`]; the number of pairs is that
    /// of the row that has most (a pair that failed is missing in its row only).
    pub fn next(&self, headline: &[Pairs]) -> Next {
        let Some(cap) = self.cap(headline) else { return Next::GoOn { cap: None } };
        let count = headline.iter().map(|row| row.pairs.len()).max().unwrap_or(0);
        let is_look = |look: usize| count == (look * cap).div_ceil(self.barriers.looks.count());
        if count >= cap {
            Next::Exhausted
        } else if count >= MIN_PAIRS
            && (1..self.barriers.looks.count()).any(is_look)
            // What has no pair by now will have none.
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

    /// One result for each row, at any time; between looks and after an interrupt too.
    pub fn judge(&self, headline: &[Pairs], secondary: &[Pairs]) -> Judged {
        let cap = self.cap(headline).unwrap_or(self.barriers.rules.most_pairs);
        let strict = match secondary.len() {
            0 | 1 => self.barriers.one_row,
            rows => self.barriers.looks.barrier(self.barriers.rules.alpha / rows as f64),
        };
        Judged {
            headline: judge(&self.barriers, headline, cap, self.strict, holm),
            secondary: judge(&self.barriers, secondary, cap, strict, benjamini_hochberg),
        }
    }

    /// The largest number of pairs, from the spread in the pilot: the threshold is to be seen in
    /// every headline row. `None` before the pilot is over.
    ///
    /// The spread is that of the A/A pairs alone. Pairs whose signs agree by chance lie close
    /// together, so a cap that saw them would be low just where they mislead: in 10 000 simulated
    /// comparisons of equals that made 4.7 % certain instead of 4.0 %.
    pub fn cap(&self, headline: &[Pairs]) -> Option<usize> {
        if let Some(pairs) = self.barriers.rules.pairs {
            return Some(pairs);
        }
        let needed = headline.iter().map(|row| {
            row.pairs.get(..MIN_PAIRS)?;
            Some(self.needed(shamos(&[row.controls.get(..MIN_CONTROLS)?])?))
        });
        // A row in which pairs failed is not waited for.
        let needed = needed.flatten().reduce(f64::max)?;
        let fifths =
            (needed / LOOKS as f64).ceil().min(self.barriers.rules.most_pairs as f64) as usize;
        Some((fifths * LOOKS).max(LEAST_CAP).min(self.barriers.rules.most_pairs))
    }

    /// Pairs that let the threshold be seen where pairs have this standard deviation.
    fn needed(&self, deviation: f64) -> f64 {
        let reach =
            self.barriers.looks.bound(self.strict, 1.0) + quantile(1.0 - self.barriers.rules.power);
        HODGES_LEHMANN * (reach * PILOT * deviation / self.barriers.rules.threshold.ln_1p()).powi(2)
    }

    /// Whether more pairs would change nothing that matters.
    fn is_settled(&self, row: &Row) -> bool {
        row.verdict.is_up_or_down() || row.log.is_within(self.barriers.rules.threshold.ln_1p())
    }
}
