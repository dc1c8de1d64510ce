//! What each of a few things costs, from what many mixtures of them cost.
//!
//! `measured = constants · counts + fixed`, where no constant is below 0. Errors are ratios: the
//! sum of the squares of `ln(predicted / measured)` is the least. How wrong a prediction may be is
//! seen where it is asked for: a group is left out, the others are fitted, and its rows predicted.

/// Fewer observations say nothing of so many constants, also where a group is left out.
pub const LEAST_OBSERVATIONS: usize = 30;

/// The median error of observations that were left out must not be larger.
pub const MOST_ERROR: f64 = 0.3;

/// What one mixture costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation<const N: usize> {
    /// Those of one group are left out together.
    pub group: usize,
    /// How many there are of each thing.
    pub counts: [f64; N],
    /// What is known to cost this much.
    pub fixed: f64,
    /// What all together costs, above 0.
    pub measured: f64,
}

impl<const N: usize> Observation<N> {
    fn predicted(&self, constants: &[f64; N]) -> f64 {
        self.fixed + dot(&self.counts, constants)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Constants<const N: usize> {
    /// The cost of each thing.
    pub values: [f64; N],
    /// Between which it lies for all that the observations say: whichever group is left out, and
    /// whichever of things that go together costs what they cost.
    pub bounds: [(f64, f64); N],
    /// Measured over predicted: 9 of 10 observations that were left out lie between.
    pub error: (f64, f64),
    /// Half of them are wrong by more than this share.
    pub median_error: f64,
    /// How many groups there were to leave out.
    pub groups: usize,
    /// What each observation should cost by a fit to the other groups.
    pub predicted: Vec<f64>,
}

/// Why there are no constants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NoConstants {
    /// There are so many observations, fewer than [`LEAST_OBSERVATIONS`], all or beside a group.
    TooFew(usize),
    /// All are of one group, so that none can be left out.
    OneGroup,
    /// The median error is above [`MOST_ERROR`].
    TooWrong(f64),
}

/// Fits the constants, and says how wrong they may be.
///
/// # Errors
/// The observations do not determine them, or determine them badly.
pub fn constants<const N: usize>(of: &[Observation<N>]) -> Result<Constants<N>, NoConstants> {
    if of.len() < LEAST_OBSERVATIONS {
        return Err(NoConstants::TooFew(of.len()));
    }
    let mut groups: Vec<usize> = of.iter().map(|one| one.group).collect();
    groups.sort_unstable();
    groups.dedup();
    if groups.len() < 2 {
        return Err(NoConstants::OneGroup);
    }
    let all = fit(&of.iter().collect::<Vec<_>>());
    let mut bounds = all.bounds;
    let mut predicted = vec![0.0; of.len()];
    for group in &groups {
        let others: Vec<_> = of.iter().filter(|it| it.group != *group).collect();
        if others.len() < LEAST_OBSERVATIONS {
            return Err(NoConstants::TooFew(others.len()));
        }
        let Fitted { values, bounds: of_others } = fit(&others);
        for (bound, (low, high)) in bounds.iter_mut().zip(of_others) {
            *bound = (bound.0.min(low), bound.1.max(high));
        }
        let left_out = of.iter().zip(&mut predicted).filter(|(it, _)| it.group == *group);
        left_out.for_each(|(it, place)| *place = it.predicted(&values));
    }
    let error = |(it, predicted): (&Observation<N>, &f64)| (it.measured / predicted).ln();
    let mut errors: Vec<f64> = of.iter().zip(&predicted).map(error).collect();
    errors.sort_by(f64::total_cmp);
    let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs().exp_m1()).collect();
    sizes.sort_by(f64::total_cmp);
    let median_error = sizes[sizes.len() / 2];
    // Also where a row is predicted to cost nothing.
    if median_error.is_nan() || median_error > MOST_ERROR {
        return Err(NoConstants::TooWrong(median_error));
    }
    // One more row would be the n + 1st, as likely at each place.
    let beyond = ((of.len() + 1) / 20).saturating_sub(1);
    let error = (errors[beyond].exp(), errors[of.len() - 1 - beyond].exp());
    let groups = groups.len();
    Ok(Constants { values: all.values, bounds, error, median_error, groups, predicted })
}

/// Rounds until the weights of the ratios no longer move the constants.
const ROUNDS: usize = 200;

/// A solution is as good as the best one if its squares add up to no more than so many times.
const AS_GOOD: f64 = 1.2;

struct Fitted<const N: usize> {
    values: [f64; N],
    bounds: [(f64, f64); N],
}

/// Least squares of ratios, by least squares of differences whose weights are chosen so that the
/// gradients of both are the same.
fn fit<const N: usize>(of: &[&Observation<N>]) -> Fitted<N> {
    let mut weights: Vec<f64> = of.iter().map(|it| it.measured.powi(-2)).collect();
    let mut found = Fitted { values: [0.0; N], bounds: [(0.0, 0.0); N] };
    for _ in 0..ROUNDS {
        let before = found.values;
        found = least_squares(of, &weights);
        let values = found.values;
        for (weight, it) in weights.iter_mut().zip(of) {
            *weight = weight_of(it.predicted(&values), it.measured);
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
    // What is predicted to cost nothing would be infinitely wrong.
    let predicted = predicted.max(measured * 1e-3);
    let by = predicted / measured - 1.0;
    let ratio = if by.abs() < 1e-9 { 1.0 } else { by.ln_1p() / by };
    ratio / (predicted * measured)
}

/// Weighted, and with no value below 0: of all subsets of the things the best one whose solution
/// has none. There are few things, so each subset is tried.
fn least_squares<const N: usize>(of: &[&Observation<N>], weights: &[f64]) -> Fitted<N> {
    // Things are measured in what all observations have of them, so that no pivot is tiny.
    let scale: [f64; N] = std::array::from_fn(|k| {
        of.iter().zip(weights).map(|(it, weight)| weight * it.counts[k].powi(2)).sum::<f64>().sqrt()
    });
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (it, weight) in of.iter().zip(weights) {
        let scaled: [f64; N] = std::array::from_fn(|k| match scale[k] {
            0.0 => 0.0,
            scale => it.counts[k] / scale,
        });
        for i in 0..N {
            right[i] += weight * scaled[i] * (it.measured - it.fixed);
            for j in 0..N {
                matrix[i][j] += weight * scaled[i] * scaled[j];
            }
        }
    }
    let rest = |it: &Observation<N>| it.measured - it.fixed;
    let total: f64 = of.iter().zip(weights).map(|(it, weight)| weight * rest(it).powi(2)).sum();
    let squares = |values: &[f64; N]| {
        let product: [f64; N] = std::array::from_fn(|i| dot(&matrix[i], values));
        dot(values, &product) - 2.0 * dot(values, &right) + total
    };
    let solutions = (0_usize..1 << N).filter_map(|subset| solve(&matrix, &right, subset));
    let allowed = solutions.filter(|values| values.iter().all(|value| *value >= 0.0));
    let mut all: Vec<([f64; N], f64)> = allowed.map(|values| (values, squares(&values))).collect();
    all.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let unscaled = |values: &[f64; N]| -> [f64; N] {
        std::array::from_fn(|k| if scale[k] == 0.0 { 0.0 } else { values[k] / scale[k] })
    };
    // The empty subset is always there.
    let (best, least) = all[0];
    let values = unscaled(&best);
    let mut bounds = values.map(|value| (value, value));
    // Without noise the best one has none, but for what was rounded.
    let most = least * AS_GOOD + total * 1e-9;
    for (good, _) in all.iter().take_while(|(_, squares)| *squares <= most) {
        for (bound, value) in bounds.iter_mut().zip(unscaled(good)) {
            *bound = (bound.0.min(value), bound.1.max(value));
        }
    }
    Fitted { values, bounds }
}

/// Gauss's elimination over the things of a subset, the others 0; nothing if these cannot be told
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
    for at in 0..rows.len() {
        let pivot = (at..rows.len())
            .max_by(|one, other| rows[*one][at].abs().total_cmp(&rows[*other][at].abs()))?;
        rows.swap(at, pivot);
        if rows[at][at].abs() < 1e-9 {
            return None;
        }
        let upper = rows[at].clone();
        for row in &mut rows[at + 1..] {
            let factor = row[at] / upper[at];
            row.iter_mut().zip(&upper).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    let mut values = [0.0; N];
    for (at, thing) in things.iter().enumerate().rev() {
        let known: f64 =
            (at + 1..rows.len()).map(|later| rows[at][later] * values[things[later]]).sum();
        values[*thing] = (rows[at][rows.len()] - known) / rows[at][at];
    }
    Some(values)
}

fn dot<const N: usize>(one: &[f64; N], other: &[f64; N]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
#[path = "constants_tests.rs"]
mod tests;
