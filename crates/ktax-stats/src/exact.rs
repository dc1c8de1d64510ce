//! The decision rule for exact counts.
//!
//! Each Side is measured once under each of K Layouts. A repeat under one Layout gives the same
//! digits, so there is no run-to-run noise to average away and no distribution to assume. What
//! remains is the Layout: an irrelevant perturbation (a seed, padding on the boot line, the phase
//! of the timer tick) that moves counts although it changes nothing that anybody asked about.
//! **What the Layouts move is therefore the noise floor**:
//! `noise = max(range(base), range(change))`.
//!
//! Base and change are paired by Layout, and often the pairing cancels what the Layout did. It is
//! not trusted to: a change of the boot line, or of the image, shifts the same seed to another
//! memory layout, and then the pairs are as good as independent. So the rule compares whole Sides:
//!
//! > slower, if every value of the change lies above every value of the base, and the gap between
//! > the two groups is wider than the wider group itself; faster, mirrored.
//!
//! Disjoint groups alone would not do: of the C(10, 5) = 252 ways in which ten exchangeable values
//! fall into two groups of five, 2 are disjoint, so chance alone gives that in 0.8 % of rows. The
//! gap makes it far rarer where the values are continuous. Where they take only two values chance
//! must still put all five of one Side on one and all five of the other Side on the other:
//! 2 / 2^10 = 0.2 % at worst. The simulation beside this file measures these rates.
//!
//! The rule has no parameter to tune after the fact, and it is about scale, not units: multiply all
//! values by a constant and nothing changes. Callers pass raw counts: integers below 2^53 are exact
//! in `f64`, so a tie is a tie.

/// With fewer Layouts than this chance alone gives too many verdicts. Two-valued noise gives one in
/// 2 / 2^2K of rows: 3.1 % with three Layouts, 0.8 % with four, 0.2 % with five; normal noise in
/// 0.76 %, 0.06 % and 0.004 %. The simulation beside this file measures it.
pub const MIN_LAYOUTS: usize = 5;

/// The decision rule's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Every pair is equal: under no Layout did anything change.
    Same,
    /// Something differs, and there are fewer than [`MIN_LAYOUTS`] Layouts.
    TooFew,
    /// The change is above the base, beyond the noise and the threshold.
    Slower,
    /// The change is below the base, beyond the noise and the threshold.
    Faster,
    /// Beyond the noise, and below the threshold.
    Small,
    /// A change that is not beyond [`Difference::detectable`].
    Undetected,
}

/// The smallest median delta of each direction that gets a verdict, if the change's values move
/// together and neither Side's range changes.
///
/// Move them up by `s`: the gap is `min(change) + s - max(base)` and has to pass the noise, and the
/// median delta grows by the same `s`. So it has to pass
/// `noise + max(base) - min(change) + median delta`, which is between one and three noises; and it
/// has to reach the threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// Upwards.
    pub slower: f64,
    /// Downwards, without the sign.
    pub faster: f64,
}

/// The result of [`judge`], in the unit of its input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    pub decision: Decision,
    /// Index of the pair with the median delta.
    pub median: usize,
    pub least: f64,
    pub most: f64,
    /// Range of the values of one Side: the larger of the two Sides'.
    pub noise: f64,
    /// Deltas at which verdicts begin; `None` with fewer than [`MIN_LAYOUTS`] Layouts, which never
    /// give a verdict.
    pub reach: Option<Reach>,
}

impl Difference {
    /// The minimum detectable effect. With a verdict, that of its direction: the median delta is
    /// not below it. Without one, the larger of both directions: the median delta is not above it,
    /// and whichever way a larger one had gone, it would have got a verdict.
    pub fn detectable(&self) -> Option<f64> {
        self.reach.map(|reach| match self.decision {
            Decision::Slower => reach.slower,
            Decision::Faster => reach.faster,
            _ => reach.slower.max(reach.faster),
        })
    }
}

/// Largest minus smallest value; 0 for no values.
pub fn range(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { largest(values) - smallest(values) }
}

/// Index of the median, for an even number of values of the lower one; among equal values, the
/// smallest index. `None` for no values.
///
/// An index, not a value: reported numbers then come from one pair of boots, and add up.
pub fn median_index(values: &[f64]) -> Option<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = *sorted.get(values.len().checked_sub(1)? / 2)?;
    values.iter().position(|value| value.total_cmp(&median).is_eq())
}

/// Applies the rule to values paired by Layout. `None` if there are none, or if their numbers
/// differ.
///
/// `relevant` is the smallest delta that matters, if the median is that pair's: a smaller one gets
/// no verdict.
pub fn judge(base: &[f64], change: &[f64], relevant: impl Fn(usize) -> f64) -> Option<Difference> {
    if base.len() != change.len() {
        return None;
    }
    let deltas: Vec<f64> = base.iter().zip(change).map(|(base, change)| change - base).collect();
    let median = median_index(&deltas)?;
    let noise = range(base).max(range(change));
    let threshold = relevant(median);
    let relevant = deltas[median].abs() >= threshold;
    let decision = if deltas.iter().all(|delta| *delta == 0.0) {
        Decision::Same
    } else if deltas.len() < MIN_LAYOUTS {
        Decision::TooFew
    } else {
        match apart(base, change) {
            Some(_) if !relevant => Decision::Small,
            found => found.unwrap_or(Decision::Undetected),
        }
    };
    let (least, most) = (smallest(&deltas), largest(&deltas));
    let beyond = |gap: f64, delta: f64| (noise - gap + delta).max(threshold);
    let reach = (deltas.len() >= MIN_LAYOUTS).then(|| Reach {
        slower: beyond(gap(base, change), deltas[median]),
        faster: beyond(gap(change, base), -deltas[median]),
    });
    Some(Difference { decision, median, least, most, noise, reach })
}

/// Distance of all of `above` from all of `below`; negative if they overlap.
fn gap(below: &[f64], above: &[f64]) -> f64 {
    smallest(above) - largest(below)
}

/// Returns true if two groups of values differ by more than each differs within itself. With fewer
/// than [`MIN_LAYOUTS`] values each, only values that do not vary at all can.
pub fn are_apart(base: &[f64], change: &[f64]) -> bool {
    let can_differ = base.len() >= MIN_LAYOUTS || range(base).max(range(change)) == 0.0;
    can_differ && apart(base, change).is_some()
}

/// Direction in which the change lies apart from the base, by a gap wider than the noise; for any
/// number of Layouts, and any size of the difference.
pub(super) fn apart(base: &[f64], change: &[f64]) -> Option<Decision> {
    let noise = range(base).max(range(change));
    if gap(base, change) > noise {
        Some(Decision::Slower)
    } else if gap(change, base) > noise {
        Some(Decision::Faster)
    } else {
        None
    }
}

fn smallest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
#[path = "exact_tests.rs"]
mod tests;
