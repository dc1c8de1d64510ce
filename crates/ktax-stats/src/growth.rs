//! How a cost grows with a size: not at all, in proportion, or with another power.
//!
//! What is fitted is the cost beyond `base`, the cost at size 0: `cost - base = c * size^e`, as a
//! straight line through the logarithms by least squares. `e` is the exponent. It is fitted to what
//! was measured, however little that is. A cost that is not above `base` has no logarithm; then
//! there is no exponent.
//!
//! **Only the upper half of the sizes is fitted.** "O" is about large sizes, and where something
//! else takes over half way up (shared page tables: a cost for each page until all tables are
//! shared, then none) a line through everything would describe neither part.
//!
//! **The interval** holds two things. One is Student's 95 % interval for the slope of a regression
//! with n - 2 degrees of freedom: how well the costs lie on a line. The other is the exponent of
//! each Layout by itself: what moves the costs, and `base`, for no reason. Student's takes the
//! distances from the line as random, and those of a curve are not: of four sizes it is a rough
//! interval, and a wide one.
//!
//! **A twentieth is not growth.** Costs that stay within [`NEGLIGIBLE`] of `base` under every
//! Layout are O(1), whatever their exponent.
//!
//! **A factor of two is not growth.** The cost of a page is not one constant: it changes when what
//! is walked outgrows a cache. So a cost whose line stays within a factor of two over the fitted
//! sizes is constant, and a cost *per unit of size* whose line does is linear. Over sizes that span
//! a factor `s` that is an exponent within `ln 2 / ln s` of 0 or of 1: 0.25 for a span of 16. This
//! has nothing to do with noise, and a longer span makes it stricter.
//!
//! **The interval can only take a verdict away**: the cost is not [`GrowthClass::Constant`] while
//! the interval reaches 1, not [`GrowthClass::Linear`] while it reaches 0, and not
//! [`GrowthClass::Other`] while it reaches either.

use crate::tables::mean;

/// Largest share of the base that a cost beyond it is still negligible.
pub const NEGLIGIBLE: f64 = 0.05;

/// A line has two parameters; with fewer points it has no interval.
const MIN_POINTS: usize = 3;

/// Below this ratio of the largest to the smallest fitted size, a factor of two is an exponent of
/// more than 1/3, and constant and linear come too close.
const MIN_SPAN: f64 = 8.0;

/// Costs by size.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The cost at size 0.
    pub base: f64,
    /// Sizes and their costs, in any order.
    pub points: Vec<(f64, f64)>,
}

/// Growth of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthClass {
    /// The cost beyond the base is [`NEGLIGIBLE`].
    Negligible,
    /// The cost does not depend on the size.
    Constant,
    /// Each unit of size costs about the same.
    Linear,
    /// Neither; the exponent tells.
    Other,
    /// The interval of the exponent allows more than one of these, or there is no exponent.
    Unclear,
}

/// Power of the size with which the cost beyond the base grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    pub exponent: f64,
    pub low: f64,
    pub high: f64,
}

/// The result of [`fit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Class of the growth.
    pub growth: GrowthClass,
    /// `None` if a cost is not above the base.
    pub power: Option<Power>,
    /// Least and most cost beyond the base, as a share of it, under any Layout.
    pub beyond: (f64, f64),
    /// Smallest fitted size.
    pub from: f64,
    pub points: usize,
}

impl Fit {
    /// `O(1)`, `O(pages)` or `O(pages^1.3)`; `size` is the name of the size.
    pub fn order(&self, size: &str) -> String {
        match (self.growth, self.power) {
            (GrowthClass::Negligible | GrowthClass::Constant, _) => "O(1)".to_owned(),
            (GrowthClass::Linear, _) => format!("O({size})"),
            (GrowthClass::Other, Some(power)) => format!("O({size}^{:.1})", power.exponent),
            (GrowthClass::Other, None) | (GrowthClass::Unclear, _) => "unclear".to_owned(),
        }
    }
}

/// Fits `shown`. `layouts` are its costs under each Layout, if there are any.
///
/// `None` if the upper half has fewer than three points or spans less than a factor of eight; if a
/// number there is not finite, a size not positive, or a base negative; and if there is neither an
/// exponent nor a base to compare the costs with.
pub fn fit(shown: &Curve, layouts: &[Curve]) -> Option<Fit> {
    let upper = beyond_base(shown)?;
    let layouts: Vec<Vec<(f64, f64)>> = layouts.iter().map(beyond_base).collect::<Option<_>>()?;
    let (from, to) = (upper.first()?.0, upper.last()?.0);
    if to / from < MIN_SPAN {
        return None;
    }
    let power = power(&upper, &layouts);
    if power.is_none() && shown.base == 0.0 {
        return None;
    }
    let costs = || upper.iter().chain(layouts.iter().flatten()).map(|(_, cost)| cost / shown.base);
    let beyond = (costs().fold(f64::INFINITY, f64::min), costs().fold(f64::NEG_INFINITY, f64::max));
    let growth = match power {
        _ if -NEGLIGIBLE <= beyond.0 && beyond.1 <= NEGLIGIBLE => GrowthClass::Negligible,
        Some(power) => decide(power, std::f64::consts::LN_2 / (to / from).ln()),
        None => GrowthClass::Unclear,
    };
    Some(Fit { growth, power, beyond, from, points: upper.len() })
}

/// Costs beyond the base of the upper half of the sizes, the smallest first.
fn beyond_base(curve: &Curve) -> Option<Vec<(f64, f64)>> {
    let mut points = curve.points.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fitted = (points.len() / 2).max(MIN_POINTS);
    let upper = points.get(points.len().checked_sub(fitted)?..)?;
    let is_sound = |(size, cost): &(f64, f64)| size.is_finite() && *size > 0.0 && cost.is_finite();
    let sound = curve.base >= 0.0 && curve.base.is_finite() && upper.iter().all(is_sound);
    sound.then(|| upper.iter().map(|(size, cost)| (*size, cost - curve.base)).collect())
}

/// Exponent of `shown`, with an interval that holds those of all Layouts.
fn power(shown: &[(f64, f64)], layouts: &[Vec<(f64, f64)>]) -> Option<Power> {
    let (exponent, half_width) = slope(&logarithms(shown)?)?;
    let mut power = Power { exponent, low: exponent - half_width, high: exponent + half_width };
    for layout in layouts {
        let (of_layout, _) = slope(&logarithms(layout)?)?;
        power.low = power.low.min(of_layout);
        power.high = power.high.max(of_layout);
    }
    Some(power)
}

fn logarithms(points: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let logarithm = |(size, cost): &(f64, f64)| (*cost > 0.0).then(|| (size.ln(), cost.ln()));
    points.iter().map(logarithm).collect()
}

fn decide(power: Power, tolerance: f64) -> GrowthClass {
    let near = |exponent: f64| (power.exponent - exponent).abs() <= tolerance;
    let reached = |exponent: f64| power.low <= exponent && exponent <= power.high;
    match (near(0.0), near(1.0)) {
        (true, _) if !reached(1.0) => GrowthClass::Constant,
        (_, true) if !reached(0.0) => GrowthClass::Linear,
        (false, false) if !reached(0.0) && !reached(1.0) => GrowthClass::Other,
        _ => GrowthClass::Unclear,
    }
}

/// Slope of the least-squares line, and half the width of its 95 % interval.
fn slope(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (xs, ys): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (mean_x, mean_y) = (mean(&xs)?, mean(&ys)?);
    let freedom = points.len().checked_sub(2).filter(|freedom| *freedom > 0)?;
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| f(x - mean_x, y - mean_y)).sum()
    };
    let spread = sum(&|x, _| x * x);
    let slope = sum(&|x, y| x * y) / spread;
    let residual = sum(&|x, y| (y - slope * x).powi(2));
    let standard_error = (residual / freedom as f64 / spread).sqrt();
    Some((slope, student(freedom) * standard_error))
}

/// Two-sided 95 % quantile of Student's t; beyond 30 degrees of freedom that of 30, which is 4 %
/// too wide at most.
fn student(freedom: usize) -> f64 {
    const QUANTILES: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    QUANTILES[freedom.clamp(1, QUANTILES.len()) - 1]
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
