//! Pictures of several rows: the forest, costs over a parameter, the points of a sweep.

use std::collections::BTreeMap;

use crate::carried::carried_most;
use crate::view::{Curves, Forest, ForestLine, Picture, Report, Section, SideCurve};
use crate::{effect, number, verdict};
use ktax_model::{
    Comparison, Crossing, Effect, Ratio, Row, SavedResult, Side, TimesEvidence, Verdict, family,
};
use ktax_stats::tables::change_percent;

/// Name of the line through a mark: the range of counts.
pub const LAYOUTS: &str = "the range over the layouts";
/// Name of the line through a mark: the interval of timed pairs.
pub const INTERVAL: &str = "the 95 % interval";

/// Sorts rows for the forest: changed rows first, then the others, each the largest change first.
/// Rows of one side alone, which are not compared, come last.
pub fn by_size(rows: &[Row]) -> Vec<&Row> {
    let key = |row: &Row| {
        let place = match row.verdict {
            Verdict::OneSide => 2,
            verdict if verdict.is_change() => 0,
            _ => 1,
        };
        let percent = drawn(row).percent.filter(|percent| percent.is_finite());
        (place, percent.map_or(0.0, f64::abs))
    };
    let mut rows: Vec<&Row> = rows.iter().collect();
    // Stable: equal rows stay in the order of the plan.
    rows.sort_by(|one, other| {
        let ((place, size), (other_place, other_size)) = (key(one), key(other));
        place.cmp(&other_place).then(other_size.total_cmp(&size))
    });
    rows
}

/// Values of a line that are drawn, and its numbers as people read them.
struct Drawn {
    percent: Option<f64>,
    range: Option<(f64, f64)>,
    detectable: Option<f64>,
    shown: [String; 3],
}

fn drawn(row: &Row) -> Drawn {
    match (row.times(), row.effects().first()) {
        (Some(times), _) => drawn_times(times),
        (None, Some(first)) => drawn_effect(row.deciding().unwrap_or(first)),
        (None, None) => {
            Drawn { percent: None, range: None, detectable: None, shown: Default::default() }
        }
    }
}

/// Forest of the rows with both sides, in this order; empty where there are none.
pub fn forest(rows: &[&Row], threshold_percent: f64, range: &str) -> Section {
    let compared = rows.iter().filter(|row| row.verdict != Verdict::OneSide);
    let line = |row: &&Row| {
        let Drawn { percent, range, detectable, shown } = drawn(row);
        let carried = carried_most(row).unwrap_or_default();
        let verdict = verdict::cell(row);
        ForestLine { row: row.row.clone(), percent, range, detectable, shown, carried, verdict }
    };
    let lines = compared.map(line).collect();
    Section::Picture {
        title: "All rows".to_owned(),
        picture: Picture::Forest(Forest { threshold_percent, lines }),
        how: format!(
            "The mark is the delta, in percent of base, and the line through it is {range}. A \
             delta within the grey band, the MDE, could not have been detected. The axis is linear \
             up to the threshold, and logarithmic beyond."
        ),
    }
}

fn drawn_effect(effect: &Effect) -> Drawn {
    let percent = |delta: f64| change_percent(effect.base, effect.base + delta);
    let (least, most) = effect.delta_range;
    Drawn {
        percent: effect.percent,
        range: percent(least).zip(percent(most)),
        detectable: effect::detectable_percent(effect),
        shown: [
            number::percent(effect.percent),
            effect::over_layouts(effect),
            effect::detectable(effect),
        ],
    }
}

fn drawn_times(times: &TimesEvidence) -> Drawn {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let ends = |Ratio { low, high, .. }: Ratio| Some((percent(low), percent(high?)));
    let (delta, range) =
        (times.ratio.map(|ratio| percent(ratio.estimate)), times.ratio.and_then(ends));
    Drawn {
        percent: delta,
        range,
        detectable: times.detectable_percent,
        shown: [
            delta.map(|delta| number::percent(Some(delta))).unwrap_or_default(),
            range.map(|ends| number::percent_range(Some(ends.0), Some(ends.1))).unwrap_or_default(),
            times.detectable_percent.map(number::limit).unwrap_or_default(),
        ],
    }
}

/// Common name of rows, and the parameter in which they differ.
type Family = (String, String);

/// Returns one picture for each family of at least three rows, in the order of its rows.
pub fn family_curves(rows: &[Row], unit: &str, crossings: &[Crossing]) -> Vec<Section> {
    families(rows)
        .into_iter()
        .map(|((family, parameter), members)| {
            let curve = |side: Side| {
                let point =
                    |row: &&Row| Some((*row.params.get(&parameter)? as f64, row.cost(side)?));
                let mut points: Vec<(f64, f64)> = members.iter().filter_map(point).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                SideCurve { name: side.name(), points }
            };
            let crossed = crossings
                .iter()
                .filter(|crossing| crossing.family == family && crossing.parameter == parameter);
            Section::Picture {
                title: format!("{family}: {unit} per operation over {parameter}"),
                picture: Picture::Curves(Curves {
                    cost: unit.to_owned(),
                    curves: Side::BOTH.map(curve).to_vec(),
                    crossings: crossed.map(|crossing| crossing.at).collect(),
                    parameter,
                }),
                how: "Both axes are logarithmic: a straight line is a power of the parameter."
                    .to_owned(),
            }
        })
        .filter(|section| !section.is_empty())
        .collect()
}

fn families(rows: &[Row]) -> Vec<(Family, Vec<&Row>)> {
    let mut found: BTreeMap<Family, Vec<(usize, &Row)>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        for parameter in row.params.keys() {
            let key = (family(&row.row, parameter), parameter.clone());
            found.entry(key).or_default().push((index, row));
        }
    }
    let mut found: Vec<_> = found.into_iter().filter(|(_, rows)| rows.len() > 2).collect();
    found.sort_by_key(|(_, rows)| rows[0].0);
    found
        .into_iter()
        .map(|(key, rows)| (key, rows.into_iter().map(|(_, row)| row).collect()))
        .collect()
}

/// Returns a picture for each row that all points have; none where these results are no sweep of at
/// least three points.
pub fn sweep(reports: &[&dyn Report]) -> Vec<Section> {
    let points: Option<Vec<SweepPoint>> =
        reports.iter().map(|report| sweep_point(*report)).collect();
    let Some(mut points) = points.filter(|points| points.len() > 2) else { return Vec::new() };
    let parameter = points[0].parameter.clone();
    if points.iter().any(|point| point.parameter != parameter) {
        return Vec::new();
    }
    points.sort_by(|one, other| one.value.total_cmp(&other.value));
    let rows = points[0].comparison.rows.iter().map(|row| row.row.clone());
    rows.filter_map(|row| sweep_curves(&row, &parameter, &points)).collect()
}

/// Result of a sweep.
struct SweepPoint {
    parameter: String,
    value: f64,
    comparison: Box<Comparison>,
}

/// Parses the name of a result, which is its setting: `cpus=4`, perhaps behind the directory of the
/// sweep.
fn sweep_point(report: &dyn Report) -> Option<SweepPoint> {
    let saved = report.saved();
    let setting = saved.name.rsplit(", ").next()?;
    let (parameter, value) = setting.rsplit_once('=')?;
    match saved.result {
        SavedResult::Comparison(comparison) => Some(SweepPoint {
            parameter: parameter.to_owned(),
            value: value.parse().ok()?,
            comparison,
        }),
        _ => None,
    }
}

fn sweep_curves(name: &str, parameter: &str, points: &[SweepPoint]) -> Option<Section> {
    let cost = |point: &SweepPoint, side: Side| {
        let row = point.comparison.rows.iter().find(|row| row.row == name)?;
        Some((point.value, row.cost(side)?))
    };
    let curve = |side: Side| SideCurve {
        name: side.name(),
        points: points.iter().filter_map(|point| cost(point, side)).collect(),
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

/// Returns the parameters at which the straight line through the logarithms of two neighbours'
/// ratios is at 1.
fn crossings(base: &[(f64, f64)], change: &[(f64, f64)]) -> Vec<f64> {
    let ratio = |(x, cost): &(f64, f64)| {
        let (_, other) = change.iter().find(|(value, _)| value == x)?;
        Some((libm::log(*x), libm::log(other / cost)))
            .filter(|point| point.0.is_finite() && point.1.is_finite())
    };
    let ratios: Vec<(f64, f64)> = base.iter().filter_map(ratio).collect();
    let crossed = ratios.windows(2).filter(|pair| pair[0].1 * pair[1].1 < 0.0);
    let crossing = |pair: &[(f64, f64)]| {
        let [(from, before), (to, after)] = [pair[0], pair[1]];
        libm::exp(from + (to - from) * before / (before - after))
    };
    crossed.map(crossing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_cross_between_the_logarithms_of_their_points() {
        let base = [(1.0, 100.0), (4.0, 200.0), (16.0, 400.0)];
        let change = [(1.0, 110.0), (4.0, 210.0), (16.0, 380.95)];
        let [crossing] = crossings(&base, &change)[..] else { panic!() };
        assert!((crossing - 8.0).abs() < 0.01, "{crossing}");
        assert_eq!(crossings(&base, &base), Vec::<f64>::new());
        assert_eq!(crossings(&base, &change[..2]), Vec::<f64>::new());
    }
}
