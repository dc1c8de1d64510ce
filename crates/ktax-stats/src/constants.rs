//! Fits the costs of a few things (the constants) to the costs of many mixtures of these things.
//!
//! The model is `measured = constants · counts + fixed`, where no constant is below 0. Errors are
//! ratios: the fit minimizes the sum of the squares of `ln(predicted / measured)`. The error of
//! predictions is measured by cross-validation: each group is left out in turn, the constants are
//! fitted to the other groups, and the observations of the left-out group are predicted.

/// Minimum number of observations for a fit, also when one group is left out.
pub const MIN_OBSERVATIONS: usize = 30;

/// Maximum median error of predictions for left-out observations, as a share.
pub const MAX_MEDIAN_ERROR: f64 = 0.3;

/// Measured mixture: the counts of the things, and their total cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation<const N: usize> {
    /// Observations of one group are left out together.
    pub group: usize,
    /// Number of each thing.
    pub counts: [f64; N],
    /// Known part of the cost, which is not fitted.
    pub fixed: f64,
    /// Total cost, above 0.
    pub measured: f64,
}

impl<const N: usize> Observation<N> {
    fn predicted(&self, constants: &[f64; N]) -> f64 {
        self.fixed + dot(&self.counts, constants)
    }
}

/// Fitted constants with their errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants<const N: usize> {
    /// Cost of each thing.
    pub values: [f64; N],
    /// Interval of each cost over all fits with one group left out, and over all splits of the cost
    /// among collinear things.
    pub bounds: [(f64, f64); N],
    /// Ratio of measured to predicted cost: the interval with 9 of 10 left-out observations.
    pub error: (f64, f64),
    /// Median error of the left-out observations, as a share.
    pub median_error: f64,
    /// Number of groups that were left out in turn.
    pub groups: usize,
    /// Cost of each observation, predicted by a fit to the other groups.
    pub predicted: Vec<f64>,
}

/// Reasons why no constants could be fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoConstants {
    /// Number of observations, with or without a left-out group, which is below
    /// [`MIN_OBSERVATIONS`].
    TooFew(usize),
    /// All observations are in one group, so no group can be left out.
    OneGroup,
    /// Median error, which is above [`MAX_MEDIAN_ERROR`].
    TooWrong(f64),
}

/// Fits the constants and measures their errors.
pub fn constants<const N: usize>(
    observations: &[Observation<N>],
) -> Result<Constants<N>, NoConstants> {
    if observations.len() < MIN_OBSERVATIONS {
        return Err(NoConstants::TooFew(observations.len()));
    }
    let mut groups: Vec<usize> = observations.iter().map(|observation| observation.group).collect();
    groups.sort_unstable();
    groups.dedup();
    if groups.len() < 2 {
        return Err(NoConstants::OneGroup);
    }
    let fitted = fit(&observations.iter().collect::<Vec<_>>());
    let mut bounds = fitted.bounds;
    let mut predicted = vec![0.0; observations.len()];
    for group in &groups {
        let others: Vec<_> =
            observations.iter().filter(|observation| observation.group != *group).collect();
        if others.len() < MIN_OBSERVATIONS {
            return Err(NoConstants::TooFew(others.len()));
        }
        let Fitted { values, bounds: other_bounds } = fit(&others);
        for (bound, (low, high)) in bounds.iter_mut().zip(other_bounds) {
            *bound = (bound.0.min(low), bound.1.max(high));
        }
        let left_out = observations
            .iter()
            .zip(&mut predicted)
            .filter(|(observation, _)| observation.group == *group);
        left_out.for_each(|(observation, slot)| *slot = observation.predicted(&values));
    }
    let error =
        |(observation, predicted): (&Observation<N>, &f64)| (observation.measured / predicted).ln();
    let mut errors: Vec<f64> = observations.iter().zip(&predicted).map(error).collect();
    errors.sort_by(f64::total_cmp);
    let mut absolute: Vec<f64> = errors.iter().map(|error| error.abs().exp_m1()).collect();
    absolute.sort_by(f64::total_cmp);
    let median_error = absolute[absolute.len() / 2];
    // A predicted cost of 0 has an error that is infinite or not a number.
    if median_error.is_nan() || median_error > MAX_MEDIAN_ERROR {
        return Err(NoConstants::TooWrong(median_error));
    }
    // A new error has each of the n + 1 ranks among the n errors with the same probability, so 5 %
    // of (n + 1) ranks may lie beyond either end.
    let beyond = ((observations.len() + 1) / 20).saturating_sub(1);
    let error = (errors[beyond].exp(), errors[observations.len() - 1 - beyond].exp());
    let groups = groups.len();
    Ok(Constants { values: fitted.values, bounds, error, median_error, groups, predicted })
}

/// Maximum rounds of reweighting; the fit usually converges much earlier.
const MAX_ROUNDS: usize = 200;

/// Solutions whose sum of squares is within this factor of the smallest one widen the bounds.
const SQUARES_TOLERANCE: f64 = 1.2;

struct Fitted<const N: usize> {
    values: [f64; N],
    bounds: [(f64, f64); N],
}

/// Least squares of log-ratios, by iteratively reweighted least squares: the weights make the
/// gradient of the weighted squares of differences equal to that of the squares of log-ratios.
fn fit<const N: usize>(observations: &[&Observation<N>]) -> Fitted<N> {
    let mut weights: Vec<f64> =
        observations.iter().map(|observation| observation.measured.powi(-2)).collect();
    let mut found = Fitted { values: [0.0; N], bounds: [(0.0, 0.0); N] };
    for _ in 0..MAX_ROUNDS {
        let before = found.values;
        found = least_squares(observations, &weights);
        let values = found.values;
        for (weight, observation) in weights.iter_mut().zip(observations) {
            *weight = weight_of(observation.predicted(&values), observation.measured);
        }
        let moves = values.iter().zip(before).map(|(now, before)| (now - before).abs());
        if moves.zip(values).all(|(distance, value)| distance <= 1e-10 * (1.0 + value)) {
            break;
        }
    }
    found
}

/// Weight of an observation: `ln(predicted / measured) / (predicted · (predicted - measured))`.
fn weight_of(predicted: f64, measured: f64) -> f64 {
    // A predicted cost of 0 would have an infinite weight.
    let predicted = predicted.max(measured * 1e-3);
    let excess = predicted / measured - 1.0;
    let ratio = if excess.abs() < 1e-9 { 1.0 } else { excess.ln_1p() / excess };
    ratio / (predicted * measured)
}

/// Weighted least squares without negative values. All subsets of the few things are tried: the
/// best subset whose solution has no negative value wins.
fn least_squares<const N: usize>(observations: &[&Observation<N>], weights: &[f64]) -> Fitted<N> {
    // Scale each thing by its norm over all observations, so that no pivot is tiny.
    let scale: [f64; N] = std::array::from_fn(|k| {
        observations
            .iter()
            .zip(weights)
            .map(|(observation, weight)| weight * observation.counts[k].powi(2))
            .sum::<f64>()
            .sqrt()
    });
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (observation, weight) in observations.iter().zip(weights) {
        let scaled: [f64; N] = std::array::from_fn(|k| match scale[k] {
            0.0 => 0.0,
            scale => observation.counts[k] / scale,
        });
        for i in 0..N {
            right[i] += weight * scaled[i] * (observation.measured - observation.fixed);
            for j in 0..N {
                matrix[i][j] += weight * scaled[i] * scaled[j];
            }
        }
    }
    let rest = |observation: &Observation<N>| observation.measured - observation.fixed;
    let total: f64 = observations
        .iter()
        .zip(weights)
        .map(|(observation, weight)| weight * rest(observation).powi(2))
        .sum();
    let squares = |values: &[f64; N]| {
        let product: [f64; N] = std::array::from_fn(|i| dot(&matrix[i], values));
        dot(values, &product) - 2.0 * dot(values, &right) + total
    };
    let solutions = (0_usize..1 << N).filter_map(|subset| solve(&matrix, &right, subset));
    let allowed = solutions.filter(|values| values.iter().all(|value| *value >= 0.0));
    let mut sorted: Vec<([f64; N], f64)> =
        allowed.map(|values| (values, squares(&values))).collect();
    sorted.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let unscaled = |values: &[f64; N]| -> [f64; N] {
        std::array::from_fn(|k| if scale[k] == 0.0 { 0.0 } else { values[k] / scale[k] })
    };
    // The list is not empty, because the empty subset always has a solution.
    let (best, least) = sorted[0];
    let values = unscaled(&best);
    let mut bounds = values.map(|value| (value, value));
    // Without noise the smallest sum of squares is only rounding, so add a share of the total.
    let limit = least * SQUARES_TOLERANCE + total * 1e-9;
    for (good, _) in sorted.iter().take_while(|(_, squares)| *squares <= limit) {
        for (bound, value) in bounds.iter_mut().zip(unscaled(good)) {
            *bound = (bound.0.min(value), bound.1.max(value));
        }
    }
    Fitted { values, bounds }
}

/// Gaussian elimination for the things of a subset, with 0 for all other things. `None` if the
/// observations do not determine the costs of these things.
fn solve<const N: usize>(
    matrix: &[[f64; N]; N],
    right: &[f64; N],
    subset: usize,
) -> Option<[f64; N]> {
    let things: Vec<usize> = (0..N).filter(|k| subset >> k & 1 == 1).collect();
    let mut rows: Vec<Vec<f64>> = things
        .iter()
        .map(|i| things.iter().map(|j| matrix[*i][*j]).chain([right[*i]]).collect())
        .collect();
    for step in 0..rows.len() {
        let pivot = (step..rows.len())
            .max_by(|a, b| rows[*a][step].abs().total_cmp(&rows[*b][step].abs()))?;
        rows.swap(step, pivot);
        if rows[step][step].abs() < 1e-9 {
            return None;
        }
        let upper = rows[step].clone();
        for row in &mut rows[step + 1..] {
            let factor = row[step] / upper[step];
            row.iter_mut().zip(&upper).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    let mut values = [0.0; N];
    for (step, thing) in things.iter().enumerate().rev() {
        let known: f64 =
            (step + 1..rows.len()).map(|later| rows[step][later] * values[things[later]]).sum();
        values[*thing] = (rows[step][rows.len()] - known) / rows[step][step];
    }
    Some(values)
}

fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
#[path = "constants_tests.rs"]
mod tests;
