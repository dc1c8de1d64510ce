//! Several results that differ in one number, as curves: the points of a sweep.

use super::view::{Curves, Picture, Report, Section, SideCurve};
use ktax_model::{Comparison, SavedResult, Side};

/// A picture for each row that all points have; nothing where these results are no sweep of at
/// least three points.
pub fn sweep(reports: &[&dyn Report]) -> Vec<Section> {
    let points: Option<Vec<Point>> = reports.iter().map(|report| point(*report)).collect();
    let Some(mut points) = points.filter(|points| points.len() > 2) else { return Vec::new() };
    let parameter = points[0].parameter.clone();
    if points.iter().any(|point| point.parameter != parameter) {
        return Vec::new();
    }
    points.sort_by(|one, other| one.value.total_cmp(&other.value));
    let rows = points[0].comparison.rows.iter().map(|row| row.row.clone());
    rows.filter_map(|row| curves(&row, &parameter, &points)).collect()
}

/// One result of a sweep.
struct Point {
    parameter: String,
    value: f64,
    comparison: Box<Comparison>,
}

/// The result is named by its setting: `cpus=4`, perhaps behind the directory of the sweep.
fn point(report: &dyn Report) -> Option<Point> {
    let saved = report.saved();
    let setting = saved.name.rsplit(", ").next()?;
    let (parameter, value) = setting.rsplit_once('=')?;
    match saved.result {
        SavedResult::Comparison(comparison) => {
            Some(Point { parameter: parameter.to_owned(), value: value.parse().ok()?, comparison })
        }
        _ => None,
    }
}

fn curves(name: &str, parameter: &str, points: &[Point]) -> Option<Section> {
    let of = |point: &Point, side: Side| {
        let row = point.comparison.rows.iter().find(|row| row.row == name)?;
        Some((point.value, row.cost(side)?))
    };
    let curve = |side: Side| SideCurve {
        name: side.name(),
        points: points.iter().filter_map(|point| of(point, side)).collect(),
    };
    let [base, change] = Side::BOTH.map(curve);
    if base.points.len() < 3 && change.points.len() < 3 {
        return None;
    }
    let unit = if points[0].comparison.counts().is_some() { "instructions" } else { "ns" };
    let crossings = crossings(&base.points, &change.points);
    Some(Section::Picture {
        title: format!("{name}: {unit} over {parameter}"),
        picture: Picture::Curves(Curves {
            parameter: parameter.to_owned(),
            cost: unit.to_owned(),
            curves: vec![base, change],
            crossings,
        }),
        how: String::new(),
    })
}

/// Where the straight line through the logarithms of two neighbours' ratios is at 1.
fn crossings(base: &[(f64, f64)], change: &[(f64, f64)]) -> Vec<f64> {
    let ratio = |(x, cost): &(f64, f64)| {
        let (_, other) = change.iter().find(|(at, _)| at == x)?;
        Some((libm::log(*x), libm::log(other / cost)))
            .filter(|it| it.0.is_finite() && it.1.is_finite())
    };
    let ratios: Vec<(f64, f64)> = base.iter().filter_map(ratio).collect();
    let crossed = ratios.windows(2).filter(|pair| pair[0].1 * pair[1].1 < 0.0);
    let at = |pair: &[(f64, f64)]| {
        let [(from, before), (to, after)] = [pair[0], pair[1]];
        libm::exp(from + (to - from) * before / (before - after))
    };
    crossed.map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_cross_between_the_logarithms_of_their_points() {
        let base = [(1.0, 100.0), (4.0, 200.0), (16.0, 400.0)];
        let change = [(1.0, 110.0), (4.0, 210.0), (16.0, 380.95)];
        let [at] = crossings(&base, &change)[..] else { panic!() };
        assert!((at - 8.0).abs() < 0.01, "{at}");
        assert_eq!(crossings(&base, &base), Vec::<f64>::new());
        assert_eq!(crossings(&base, &change[..2]), Vec::<f64>::new());
    }
}
