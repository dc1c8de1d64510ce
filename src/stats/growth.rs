//! How a cost grows with a size: not at all, in proportion, or with another power.
//!
//! What is fitted is the cost beyond `base`, the cost at size 0: `cost - base = c * size^e`, as a
//! straight line through the logarithms by least squares. `e` is the exponent; its 95 % interval is
//! Student's for the slope of a regression with n - 2 degrees of freedom.
//!
//! **Only the upper half of the sizes is fitted.** "O" is about large sizes, and where something
//! else takes over half way up (shared page tables: a cost for each page until all tables are
//! shared, then none) a line through everything would describe neither part.
//!
//! **A factor of two is not growth.** The cost of a page is not one constant: it changes when what
//! is walked outgrows a cache. So a cost that stays within a factor of two over the fitted sizes is
//! constant, and a cost *per unit of size* that does is linear. Over sizes that span a factor `s`
//! that is an exponent within `ln 2 / ln s` of 0 or of 1: 0.25 for a span of 16. This has nothing
//! to do with noise, and a longer span makes it stricter.
//!
//! **The interval can only take a verdict away**: none of [`GrowthClass::Constant`],
//! [`GrowthClass::Linear`] and [`GrowthClass::Other`] is given while the interval reaches an
//! exponent that says otherwise.
//!
//! Exact counts need no other rule. They have an interval of next to nothing, and a cost beyond
//! `base` that Layouts alone could make is lifted to [`NEGLIGIBLE`] so that it has a logarithm.

use std::fmt;

use super::tables::mean;

/// A cost beyond the base below this share of the base is taken for this share: nothing to speak
/// of, and above what Layouts do to a fork.
pub const NEGLIGIBLE: f64 = 0.05;

/// A line has two parameters; with fewer points it has no interval.
const MIN_POINTS: usize = 3;

/// Below this ratio of the largest to the smallest fitted size, a factor of two is an exponent of
/// more than 1/3, and constant and linear come too close.
const MIN_SPAN: f64 = 8.0;

/// How a cost grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowthClass {
    /// The cost does not depend on the size.
    Constant,
    /// Each unit of size costs about the same.
    Linear,
    /// Neither; the exponent says what.
    Other,
    /// The interval of the exponent allows more than one of these.
    Unclear,
}

/// What [`fit`] found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// In words.
    pub growth: GrowthClass,
    /// The power of the size with which the cost beyond the base grows.
    pub exponent: f64,
    /// The lower end of its 95 % interval.
    pub low: f64,
    /// The upper end of its 95 % interval.
    pub high: f64,
    /// The smallest size that was fitted.
    pub from: f64,
    /// How many points were fitted.
    pub points: usize,
}

impl Fit {
    /// `O(1)`, `O(pages)` or `O(pages^1.3)`; `size` is what the size is called.
    pub fn order(&self, size: &str) -> String {
        match self.growth {
            GrowthClass::Constant => "O(1)".to_owned(),
            GrowthClass::Linear => format!("O({size})"),
            GrowthClass::Other => format!("O({size}^{:.1})", self.exponent),
            GrowthClass::Unclear => "unclear".to_owned(),
        }
    }
}

impl fmt::Display for Fit {
    /// The exponent with its interval: `1.21 (1.12…1.30)`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        // Rounded first, and plus zero: no "-0.00".
        let [exponent, low, high] =
            [self.exponent, self.low, self.high].map(|power| (power * 100.0).round() / 100.0 + 0.0);
        write!(f, "{exponent:.2} ({low:.2}…{high:.2})")
    }
}

/// Fits `(size, cost)` points in any order; `base` is the cost at size 0, in the unit of the costs.
///
/// `None` if of the upper half there are fewer than three points or the sizes span less than a
/// factor of eight, if a number there is not finite, a size not positive, or a cost not above a
/// base of 0.
pub fn fit(base: f64, points: &[(f64, f64)]) -> Option<Fit> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fitted = (points.len() / 2).max(MIN_POINTS);
    let upper = points.get(points.len().checked_sub(fitted)?..)?;
    let (from, to) = (upper.first()?.0, upper.last()?.0);
    let floor = base * NEGLIGIBLE;
    let logarithms: Vec<(f64, f64)> =
        upper.iter().map(|(size, cost)| (size.ln(), (cost - base).max(floor).ln())).collect();
    let finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    // max() passes a NaN over, so the costs are looked at themselves.
    let sound = upper.iter().all(finite) && logarithms.iter().all(finite);
    if !sound || base < 0.0 || to / from < MIN_SPAN {
        return None;
    }
    let (exponent, half_width) = slope(&logarithms)?;
    let (low, high) = (exponent - half_width, exponent + half_width);
    let growth = decide(exponent, low, high, std::f64::consts::LN_2 / (to / from).ln());
    Some(Fit { growth, exponent, low, high, from, points: fitted })
}

fn decide(exponent: f64, low: f64, high: f64, tolerance: f64) -> GrowthClass {
    let near = |power: f64| (exponent - power).abs() <= tolerance;
    let reached = |power: f64| low <= power && power <= high;
    match (near(0.0), near(1.0)) {
        (true, _) if !reached(1.0) => GrowthClass::Constant,
        (_, true) if !reached(0.0) => GrowthClass::Linear,
        (false, false) if !reached(0.0) && !reached(1.0) => GrowthClass::Other,
        _ => GrowthClass::Unclear,
    }
}

/// The slope of the least-squares line and half the width of its 95 % interval.
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

/// The two-sided 95 % quantile of Student's t; beyond 30 degrees of freedom that of 30, which is
/// 4 % too wide at most.
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
