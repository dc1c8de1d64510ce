//! Fits the cost of each of a few things to the costs of many mixtures of them.
//!
//! `measured = constants · counts + fixed`, where no constant is below 0. Errors are ratios: the
//! sum of the squares of `ln(predicted / measured)` is the least. The error of a prediction is
//! measured where predictions are used: a group is left out, the others are fitted, and its rows
//! predicted.

/// Least number of observations for so many constants, also without one group.
pub const LEAST_OBSERVATIONS: usize = 30;

/// Largest permitted median error of observations that were left out.
pub const MOST_ERROR: f64 = 0.3;

/// A measured mixture: counts of things, and the cost of all together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation<const N: usize> {
    /// Observations of one group are left out together.
    pub group: usize,
    /// Number of each thing.
    pub counts: [f64; N],
    /// Part of the cost that is known.
    pub fixed: f64,
    /// Cost of all together, above 0.
    pub measured: f64,
}

impl<const N: usize> Observation<N> {
    fn predicted(&self, constants: &[f64; N]) -> f64 {
        self.fixed + dot(&self.counts, constants)
    }
}

/// Fitted constants, and how wrong they may be.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants<const N: usize> {
    /// The cost of each thing.
    pub values: [f64; N],
    /// Interval of each cost: whichever group is left out, and however the cost is split among
    /// collinear constants.
    pub bounds: [(f64, f64); N],
    /// Measured over predicted: 9 of 10 left-out observations lie between.
    pub error: (f64, f64),
    /// Half of them have an error above this share.
    pub median_error: f64,
    /// Number of groups that were left out in turn.
    pub groups: usize,
    /// Cost of each observation by a fit to the other groups.
    pub predicted: Vec<f64>,
}

/// Reasons for no constants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoConstants {
    /// Number of observations, below [`LEAST_OBSERVATIONS`], of all or without a group.
    TooFew(usize),
    /// All are of one group, so none can be left out.
    OneGroup,
    /// The median error is above [`MOST_ERROR`].
    TooWrong(f64),
}

/// Fits the constants, with their errors. Fails if the observations do not determine them, or
/// determine them badly.
pub fn constants<const N: usize>(
    observations: &[Observation<N>],
) -> Result<Constants<N>, NoConstants> {
    if observations.len() < LEAST_OBSERVATIONS {
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
        if others.len() < LEAST_OBSERVATIONS {
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
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs().exp_m1()).collect();
    sizes.sort_by(f64::total_cmp);
    let median_error = sizes[sizes.len() / 2];
    // True also if a row is predicted to cost nothing.
    if median_error.is_nan() || median_error > MOST_ERROR {
        return Err(NoConstants::TooWrong(median_error));
    }
    // One more row would be the n + 1st, as likely at each place.
    let beyond = ((observations.len() + 1) / 20).saturating_sub(1);
    let error = (errors[beyond].exp(), errors[observations.len() - 1 - beyond].exp());
    let groups = groups.len();
    Ok(Constants { values: fitted.values, bounds, error, median_error, groups, predicted })
}

/// Rounds until the weights of the ratios no longer move the constants.
const ROUNDS: usize = 200;

/// Factor on the least sum of squares up to which a solution is as good as the best.
const AS_GOOD: f64 = 1.2;

struct Fitted<const N: usize> {
    values: [f64; N],
    bounds: [(f64, f64); N],
}

/// Least squares of ratios, by least squares of differences whose weights are chosen so that the
/// gradients of both are the same.
fn fit<const N: usize>(observations: &[&Observation<N>]) -> Fitted<N> {
    let mut weights: Vec<f64> =
        observations.iter().map(|observation| observation.measured.powi(-2)).collect();
    let mut found = Fitted { values: [0.0; N], bounds: [(0.0, 0.0); N] };
    for _ in 0..ROUNDS {
        let before = found.values;
        found = least_squares(observations, &weights);
        let values = found.values;
        for (weight, observation) in weights.iter_mut().zip(observations) {
            *weight = weight_of(observation.predicted(&values), observation.measured);
        }
        let moved = values.iter().zip(before).map(|(now, before)| (now - before).abs());
        if moved.zip(values).all(|(by, value)| by <= 1e-10 * (1.0 + value)) {
            break;
        }
    }
    found
}

/// `ln(predicted / measured) / (predicted · (predicted - measured))`.
fn weight_of(predicted: f64, measured: f64) -> f64 {
    // A predicted cost of nothing would have an infinite error.
    let predicted = predicted.max(measured * 1e-3);
    let by = predicted / measured - 1.0;
    let ratio = if by.abs() < 1e-9 { 1.0 } else { by.ln_1p() / by };
    ratio / (predicted * measured)
}

/// Weighted least squares with no value below 0: the best subset of the things whose solution has
/// none. There are few things, so each subset is tried.
fn least_squares<const N: usize>(observations: &[&Observation<N>], weights: &[f64]) -> Fitted<N> {
    // Each thing is scaled by its norm over all observations, so that no pivot is tiny.
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
    // The empty subset is always there.
    let (best, least) = sorted[0];
    let values = unscaled(&best);
    let mut bounds = values.map(|value| (value, value));
    // Without noise the best solution has no error but rounding.
    let most = least * AS_GOOD + total * 1e-9;
    for (good, _) in sorted.iter().take_while(|(_, squares)| *squares <= most) {
        for (bound, value) in bounds.iter_mut().zip(unscaled(good)) {
            *bound = (bound.0.min(value), bound.1.max(value));
        }
    }
    Fitted { values, bounds }
}

/// Gauss's elimination over the things of a subset, the others 0; `None` if these cannot be told
/// apart.
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
