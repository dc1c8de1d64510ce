//! Growth of a cost with a size: constant, linear, or with another power of the size.
//!
//! The fitted model is `cost - base = c * size^e`, where `base` is the cost at size 0 and `e` is
//! the exponent. It is fitted by least squares, as a straight line through the logarithms. The
//! exponent is fitted even if the growth is tiny. A cost that is not above `base` has no logarithm,
//! and then there is no exponent.
//!
//! **Only the upper half of the sizes is fitted.** Orders of growth are about large sizes. If a
//! second effect begins at a middle size, a line through all sizes would describe neither effect.
//! Shared page tables are an example: each page has a cost until all tables are shared, and then
//! none.
//!
//! **The interval** of the exponent is the union of two. One is Student's 95 % interval for the
//! slope of a regression with n - 2 degrees of freedom, which measures how well the costs lie on a
//! line. The other spans the exponents of the single Layouts, which measure the influence of the
//! Layout on the costs and on `base`. Student's interval assumes random distances from the line.
//! The distances of a curve are not random, so for four sizes the interval is rough, and wide.
//!
//! **5 % is not growth.** Costs within [`NEGLIGIBLE`] of `base` under every Layout are O(1), with
//! any exponent.
//!
//! **A factor of two is not growth.** The cost of a page is not constant: it changes when the pages
//! no longer fit in a cache. So a cost whose line stays within a factor of two over the fitted
//! sizes is constant, and a cost whose line *per unit of size* stays within a factor of two is
//! linear. If the sizes span a factor `s`, the exponent is then within `ln 2 / ln s` of 0 or of 1:
//! 0.25 for a span of 16. This tolerance does not depend on the noise, and is smaller for a longer
//! span.
//!
//! **The interval can only prevent a class**: the cost is not [`GrowthClass::Constant`] if the
//! interval contains 1, not [`GrowthClass::Linear`] if it contains 0, and not
//! [`GrowthClass::Other`] if it contains either.

use crate::tables::mean;

/// Largest distance from the base that is negligible, as a share of the base.
pub const NEGLIGIBLE: f64 = 0.05;

/// Minimum number of fitted points: a line has two parameters, so only a third point gives an
/// interval.
const MIN_POINTS: usize = 3;

/// Minimum ratio of the largest to the smallest fitted size. For a smaller ratio, a factor of two
/// is an exponent of more than 1/3, so that constant and linear are hard to tell apart.
const MIN_SPAN: f64 = 8.0;

/// Costs by size.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Cost at size 0.
    pub base: f64,
    /// Sizes and their costs, in any order.
    pub points: Vec<(f64, f64)>,
}

/// Growth of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthClass {
    /// All costs are within [`NEGLIGIBLE`] of the base.
    Negligible,
    /// The cost does not depend on the size.
    Constant,
    /// Each unit of size costs about the same.
    Linear,
    /// Neither constant nor linear; [`Power::exponent`] is the order.
    Other,
    /// The interval of the exponent allows more than one class, or there is no exponent.
    Unclear,
}

/// Power of the size with which the distance of the cost from the base grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Power {
    pub exponent: f64,
    pub low: f64,
    pub high: f64,
}

/// Result of [`fit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// Class of the growth.
    pub growth: GrowthClass,
    /// Power of the growth; `None` if a cost is not above the base.
    pub power: Option<Power>,
    /// Smallest and largest distance of a cost from the base under any Layout, as shares of the
    /// base.
    pub distance_range: (f64, f64),
    pub smallest_size: f64,
    /// Number of fitted points.
    pub points: usize,
}

impl Fit {
    /// Order of growth for people: `O(1)`, `O(pages)`, `O(pages^1.3)` or `unclear`. `size` is the
    /// name of the size.
    pub fn order(&self, size: &str) -> String {
        match (self.growth, self.power) {
            (GrowthClass::Negligible | GrowthClass::Constant, _) => "O(1)".to_owned(),
            (GrowthClass::Linear, _) => format!("O({size})"),
            (GrowthClass::Other, Some(power)) => format!("O({size}^{:.1})", power.exponent),
            (GrowthClass::Other, None) | (GrowthClass::Unclear, _) => "unclear".to_owned(),
        }
    }
}

/// Fits the curve `shown`. `layouts` has the curves of the single Layouts, and may be empty.
///
/// `None` if the upper half has fewer than `MIN_POINTS` points or spans less than `MIN_SPAN`;
/// if a number is not finite, a size not positive, or a base negative; and if the base is 0 and
/// there is no exponent.
pub fn fit(shown: &Curve, layouts: &[Curve]) -> Option<Fit> {
    let upper = distances_from_base(shown)?;
    let layouts: Vec<Vec<(f64, f64)>> =
        layouts.iter().map(distances_from_base).collect::<Option<_>>()?;
    let (from, to) = (upper.first()?.0, upper.last()?.0);
    if to / from < MIN_SPAN {
        return None;
    }
    let power = power(&upper, &layouts);
    if power.is_none() && shown.base == 0.0 {
        return None;
    }
    let distances =
        || upper.iter().chain(layouts.iter().flatten()).map(|(_, cost)| cost / shown.base);
    let distance_range =
        (distances().fold(f64::INFINITY, f64::min), distances().fold(f64::NEG_INFINITY, f64::max));
    let growth = match power {
        _ if -NEGLIGIBLE <= distance_range.0 && distance_range.1 <= NEGLIGIBLE => {
            GrowthClass::Negligible
        }
        Some(power) => classify(power, std::f64::consts::LN_2 / (to / from).ln()),
        None => GrowthClass::Unclear,
    };
    Some(Fit { growth, power, distance_range, smallest_size: from, points: upper.len() })
}

/// Upper half of the sizes, the smallest first, with the distance of each cost from the base.
/// `None` for too few points or invalid numbers.
fn distances_from_base(curve: &Curve) -> Option<Vec<(f64, f64)>> {
    let mut points = curve.points.clone();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fitted = (points.len() / 2).max(MIN_POINTS);
    let upper = points.get(points.len().checked_sub(fitted)?..)?;
    let is_valid = |(size, cost): &(f64, f64)| size.is_finite() && *size > 0.0 && cost.is_finite();
    let are_valid = curve.base >= 0.0 && curve.base.is_finite() && upper.iter().all(is_valid);
    are_valid.then(|| upper.iter().map(|(size, cost)| (*size, cost - curve.base)).collect())
}

/// Exponent of `shown`, with an interval that contains the exponents of all Layouts. `None` if a
/// cost is not above the base.
fn power(shown: &[(f64, f64)], layouts: &[Vec<(f64, f64)>]) -> Option<Power> {
    let (exponent, half_width) = slope(&logarithms(shown)?)?;
    let mut power = Power { exponent, low: exponent - half_width, high: exponent + half_width };
    for layout in layouts {
        let (layout_exponent, _) = slope(&logarithms(layout)?)?;
        power.low = power.low.min(layout_exponent);
        power.high = power.high.max(layout_exponent);
    }
    Some(power)
}

/// Logarithms of sizes and costs; `None` if a cost is not positive.
fn logarithms(points: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let logarithm = |(size, cost): &(f64, f64)| (*cost > 0.0).then(|| (size.ln(), cost.ln()));
    points.iter().map(logarithm).collect()
}

/// Class of a power. `tolerance` is the distance from 0 or 1 at which an exponent is constant or
/// linear.
fn classify(power: Power, tolerance: f64) -> GrowthClass {
    let is_near = |exponent: f64| (power.exponent - exponent).abs() <= tolerance;
    let is_possible = |exponent: f64| power.low <= exponent && exponent <= power.high;
    match (is_near(0.0), is_near(1.0)) {
        (true, _) if !is_possible(1.0) => GrowthClass::Constant,
        (_, true) if !is_possible(0.0) => GrowthClass::Linear,
        (false, false) if !is_possible(0.0) && !is_possible(1.0) => GrowthClass::Other,
        _ => GrowthClass::Unclear,
    }
}

/// Slope of the least-squares line, and half the width of its 95 % interval. `None` for fewer than
/// three points.
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

/// Two-sided 95 % quantile of Student's t distribution. For more than 30 degrees of freedom, the
/// quantile for 30, which is too large by at most 4 %.
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
