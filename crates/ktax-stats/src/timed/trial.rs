//! When a run stops, and the verdicts of its rows.

use super::family::{benjamini_hochberg, holm};
use super::looks::Looks;
use super::normal::quantile;
use super::row::{TrialRow, judge};
use super::rules::Barriers;
use super::rules::{MIN_CONTROLS, MIN_PAIRS, Pairs, Rules};
use super::spread::shamos;

/// The lowest cap, even after a quiet pilot: among ten pairs, two outliers hide any effect, and in
/// the simulation one of 17 pairs is an outlier.
const LEAST_CAP: usize = 20;

/// The number of looks of a run whose length the pilot decides.
const LOOKS: usize = 5;

/// A safety factor: eight values give a standard deviation to a quarter, and a cap that is too low
/// costs power.
const PILOT: f64 = 1.1;

/// The ratio of the variance of the Hodges-Lehmann estimate to that of a mean, for normal values.
const HODGES_LEHMANN: f64 = std::f64::consts::PI / 3.0;

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
    barriers: Barriers,
    /// The barrier of one headline row, Bonferroni-corrected over all of them.
    strict: f64,
}

impl Trial {
    /// A trial with this number of headline rows; 0 counts as 1.
    pub fn new(rules: Rules, headline_rows: usize) -> Trial {
        let looks = Looks::new(if rules.pairs.is_some() { 1 } else { LOOKS });
        let one_row = looks.barrier(rules.alpha);
        let strict = looks.barrier(rules.alpha / headline_rows.max(1) as f64);
        Trial { barriers: Barriers { rules, looks, one_row }, strict }
    }

    /// Whether to go on. Ask after each pair, with the headline rows so far.
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
        let looks = self.barriers.looks.count();
        (1..looks).map(move |look| (look * cap).div_ceil(looks)).filter(|count| *count >= MIN_PAIRS)
    }

    /// Judges each row. It may be called at any time, between looks and after an interrupt too.
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

    /// The largest number of pairs, from the spread in the pilot: enough to detect a change as
    /// large as the threshold in every headline row. `None` before the pilot is over.
    ///
    /// The spread is that of the A/A pairs alone. Pairs whose signs agree by chance are close
    /// together, so they would lower the cap just when they mislead. In 10 000 simulated
    /// comparisons of equal Sides, 4.7 % instead of 4.0 % then got a false verdict.
    pub fn cap(&self, headline: &[Pairs]) -> Option<usize> {
        if let Some(pairs) = self.barriers.rules.pairs {
            return Some(pairs);
        }
        let needed = headline.iter().map(|row| {
            row.pairs.get(..MIN_PAIRS)?;
            Some(self.needed(shamos(&[row.controls.get(..MIN_CONTROLS)?])?))
        });
        // A row with failed pairs is not waited for.
        let needed = needed.flatten().reduce(f64::max)?;
        let fifths =
            (needed / LOOKS as f64).ceil().min(self.barriers.rules.most_pairs as f64) as usize;
        Some((fifths * LOOKS).max(LEAST_CAP).min(self.barriers.rules.most_pairs))
    }

    /// The number of pairs that detects the threshold if pairs have this standard deviation.
    fn needed(&self, deviation: f64) -> f64 {
        let reach =
            self.barriers.looks.bound(self.strict, 1.0) + quantile(1.0 - self.barriers.rules.power);
        HODGES_LEHMANN * (reach * PILOT * deviation / self.barriers.rules.threshold.ln_1p()).powi(2)
    }

    /// Whether more pairs would not change the verdict.
    fn is_settled(&self, row: &TrialRow) -> bool {
        row.verdict.is_up_or_down() || row.log.is_within(self.barriers.rules.threshold.ln_1p())
    }
}
