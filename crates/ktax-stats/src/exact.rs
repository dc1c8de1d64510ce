//! The decision rule for exact counts.
//!
//! Each Side is measured once under each of K Layouts. A second measurement under the same Layout
//! gives the same digits, so there is no run-to-run noise to average and no distribution to assume.
//! The only noise is the Layout: a perturbation (a seed, padding on the boot line, the phase of the
//! timer tick) that moves counts, but is irrelevant to the question. **The range over the Layouts
//! is therefore the noise floor**: `noise = max(range(base), range(change))`.
//!
//! Base and change are paired by Layout, and often the influence of a Layout cancels in the pair.
//! The rule does not rely on that: a different boot line or image gives the same seed a different
//! memory layout, and then the two values of a pair are independent. So the rule compares all
//! values of the two Sides:
//!
//! > Slower, if all values of the change lie above all values of the base, and the gap between the
//! > two groups is wider than each group. Faster, if the same holds with the Sides exchanged.
//!
//! Disjoint groups alone would not suffice. There are C(10, 5) = 252 ways to split ten exchangeable
//! values into two groups of five, and in 2 of them the groups are disjoint, which is 0.8 % of rows
//! by chance. For continuous values the gap makes this far rarer. The worst case are values of two
//! kinds: by chance, all five of one Side have one value and all five of the other Side have the
//! other value in 2 / 2^10 = 0.2 % of rows. A simulation in `exact_tests.rs` measures these rates.
//!
//! The rule has no parameter that could be tuned to a result, and does not depend on units: a
//! common factor of all values does not change the decision. Callers pass raw counts, because
//! integers below 2^53 are exact in `f64`, so equal counts compare as equal.

/// Minimum number K of Layouts. With fewer, chance alone gives too many verdicts. With two-valued
/// noise, their share is 2 / 2^2K: 3.1 % with three Layouts, 0.8 % with four, 0.2 % with five. With
/// normal noise, it is 0.76 %, 0.06 % and 0.004 %. A simulation in `exact_tests.rs` measures these
/// shares.
pub const MIN_LAYOUTS: usize = 5;

/// Answer of the decision rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Base and change are equal under every Layout.
    Same,
    /// Base and change differ under a Layout, but there are fewer than [`MIN_LAYOUTS`] Layouts.
    TooFew,
    /// The change is above the base, beyond the noise and the threshold.
    Slower,
    /// The change is below the base, beyond the noise and the threshold.
    Faster,
    /// The difference is beyond the noise, and below the threshold.
    Small,
    /// The difference is not beyond the noise.
    Undetected,
}

/// Smallest median delta in each direction that would get a verdict, if all values of the change
/// were shifted by the same amount.
///
/// With a shift by `s`, the gap is `min(change) + s - max(base)`, which must exceed the noise, and
/// the median delta is larger by `s`. So the shifted median delta must exceed `noise + max(base) -
/// min(change) + median delta`, which is between one and three times the noise, and it must reach
/// the threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DetectableDeltas {
    /// Smallest median delta that is called slower.
    pub slower: f64,
    /// Smallest absolute median delta that is called faster.
    pub faster: f64,
}

/// Result of [`judge`], in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    pub decision: Decision,
    /// Index of the pair with the median delta.
    pub median: usize,
    pub smallest_delta: f64,
    pub largest_delta: f64,
    /// The larger of the ranges of the two Sides.
    pub noise: f64,
    /// Smallest deltas with a verdict; `None` for fewer than [`MIN_LAYOUTS`] Layouts.
    pub detectable_deltas: Option<DetectableDeltas>,
}

impl Difference {
    /// Minimum detectable effect. For a verdict, it is that of the verdict's direction, and the
    /// median delta is at least as large. Without a verdict, it is the larger of the two
    /// directions, and the absolute median delta is at most as large; any larger delta would have
    /// had a verdict.
    pub fn detectable(&self) -> Option<f64> {
        self.detectable_deltas.map(|deltas| match self.decision {
            Decision::Slower => deltas.slower,
            Decision::Faster => deltas.faster,
            _ => deltas.slower.max(deltas.faster),
        })
    }
}

/// Largest minus smallest value; 0 for no values.
pub fn range(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { largest(values) - smallest(values) }
}

/// Index of the median, or of the lower median for an even number of values. Among equal values,
/// the smallest index. `None` for no values.
///
/// Callers need an index, so that all numbers of a report come from the same pair of boots and add
/// up.
pub fn median_index(values: &[f64]) -> Option<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = *sorted.get(values.len().checked_sub(1)? / 2)?;
    values.iter().position(|value| value.total_cmp(&median).is_eq())
}

/// Applies the rule to values paired by Layout. `None` without values, and if the Sides have
/// different numbers of values.
///
/// `threshold` returns the smallest delta that gets a verdict; its argument is the index of the
/// pair with the median delta.
pub fn judge(base: &[f64], change: &[f64], threshold: impl Fn(usize) -> f64) -> Option<Difference> {
    if base.len() != change.len() {
        return None;
    }
    let deltas: Vec<f64> = base.iter().zip(change).map(|(base, change)| change - base).collect();
    let median = median_index(&deltas)?;
    let noise = range(base).max(range(change));
    let threshold = threshold(median);
    let is_relevant = deltas[median].abs() >= threshold;
    let decision = if deltas.iter().all(|delta| *delta == 0.0) {
        Decision::Same
    } else if deltas.len() < MIN_LAYOUTS {
        Decision::TooFew
    } else {
        match separation(base, change) {
            Some(_) if !is_relevant => Decision::Small,
            found => found.unwrap_or(Decision::Undetected),
        }
    };
    let detectable = |gap: f64, delta: f64| (noise - gap + delta).max(threshold);
    let detectable_deltas = (deltas.len() >= MIN_LAYOUTS).then(|| DetectableDeltas {
        slower: detectable(gap(base, change), deltas[median]),
        faster: detectable(gap(change, base), -deltas[median]),
    });
    let (smallest_delta, largest_delta) = (smallest(&deltas), largest(&deltas));
    Some(Difference { decision, median, smallest_delta, largest_delta, noise, detectable_deltas })
}

/// Distance from the largest value of `lower` to the smallest value of `upper`; negative if the
/// groups overlap.
fn gap(lower: &[f64], upper: &[f64]) -> f64 {
    smallest(upper) - largest(lower)
}

/// Returns true if the gap between two groups is wider than each group. Groups with fewer than
/// [`MIN_LAYOUTS`] values must have no variation at all.
pub fn are_separate(base: &[f64], change: &[f64]) -> bool {
    let can_differ = base.len() >= MIN_LAYOUTS || range(base).max(range(change)) == 0.0;
    can_differ && separation(base, change).is_some()
}

/// Direction of the change from the base, if the gap between them is wider than the noise. The
/// number of Layouts and the size of the difference are not checked.
pub(super) fn separation(base: &[f64], change: &[f64]) -> Option<Decision> {
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
