//! Data of pictures: the forest plot of all rows, costs over a parameter, the points of a sweep,
//! and the flame graph.

use std::collections::BTreeMap;

use crate::effect::{CountKind, carried_most};
use crate::view::{
    Curves, Document, Flame, FlameBar, Forest, ForestLine, Picture, Section, SideCurve,
};
use crate::{effect, number, words};
use ktax_model::{
    Comparison, Crossing, Effect, PathDelta, Ratio, Row, SavedResult, Side, Sides, TimesEvidence,
    Verdict, callers, family, kept_paths,
};
use ktax_stats::tables::{checked_percent_change, share_percent};

/// Meaning of the line through a mark of counts.
pub const LAYOUTS: &str = "the range over the layouts";
/// Meaning of the line through a mark of timed pairs.
pub const INTERVAL: &str = "the 95 % interval";

/// Sorts rows for the forest plot: rows that changed come first, then rows that did not, then rows
/// that only one side has. Within each group the largest change comes first.
pub fn by_size(rows: &[Row]) -> Vec<&Row> {
    let key = |row: &Row| {
        let group = match row.verdict {
            Verdict::OneSide => 2,
            verdict if verdict.is_change() => 0,
            _ => 1,
        };
        let percent = forest_percent(row).filter(|percent| percent.is_finite());
        (group, percent.map_or(0.0, f64::abs))
    };
    let mut rows: Vec<&Row> = rows.iter().collect();
    // A stable sort: rows with equal changes stay in the order of the plan.
    rows.sort_by(|one, other| {
        let ((group, size), (other_group, other_size)) = (key(one), key(other));
        group.cmp(&other_group).then(other_size.total_cmp(&size))
    });
    rows
}

/// Returns the change of a row in percent that the forest plot shows.
fn forest_percent(row: &Row) -> Option<f64> {
    match row.times() {
        Some(times) => times.ratio.map(|ratio| (ratio.estimate - 1.0) * 100.0),
        None => row.deciding_effect().or(row.effects().first())?.percent,
    }
}

fn forest_line(row: &Row) -> ForestLine {
    let mut line = ForestLine {
        row: row.row.clone(),
        percent: forest_percent(row),
        range: None,
        detectable: None,
        shown: Default::default(),
        carried: carried_most(row).unwrap_or_default(),
        verdict: words::verdict_cell(row),
    };
    match (row.times(), row.effects().first()) {
        (Some(times), _) => add_times(&mut line, times),
        (None, Some(first)) => add_effect(&mut line, row.deciding_effect().unwrap_or(first)),
        (None, None) => {}
    }
    line
}

fn add_effect(line: &mut ForestLine, effect: &Effect) {
    let percent = |delta: f64| checked_percent_change(effect.base, effect.base + delta);
    let (least, most) = effect.delta_range;
    line.range = percent(least).zip(percent(most));
    line.detectable = effect::detectable_percent(effect);
    line.shown =
        [number::percent(effect.percent), effect::over_layouts(effect), effect::detectable(effect)];
}

fn add_times(line: &mut ForestLine, times: &TimesEvidence) {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let ends = |Ratio { low, high, .. }: Ratio| Some((percent(low), percent(high?)));
    line.range = times.ratio.and_then(ends);
    line.detectable = times.detectable_percent;
    let range = line.range.map(|(low, high)| number::percent_range(Some(low), Some(high)));
    line.shown = [
        line.percent.map(|percent| number::percent(Some(percent))).unwrap_or_default(),
        range.unwrap_or_default(),
        times.detectable_percent.map(number::limit).unwrap_or_default(),
    ];
}

/// Forest plot of the rows that both sides have, in this order; empty if there are none.
pub fn forest(rows: &[&Row], threshold_percent: f64, range: &str) -> Section {
    let compared = rows.iter().filter(|row| row.verdict != Verdict::OneSide);
    let lines = compared.map(|row| forest_line(row)).collect();
    Section::Picture {
        title: "All rows".to_owned(),
        picture: Picture::Forest(Forest { threshold_percent, lines }),
        how: format!(
            "The mark is the delta, in percent of base, and the line through it is {range}. A \
             delta within the grey band, the MDE, could not have been detected. The axis is linear \
             up to the threshold and logarithmic above it."
        ),
    }
}

/// Name that several rows share, and the parameter in which these rows differ.
type Family = (String, String);

/// Returns one picture for each family of at least three rows, in the order of its rows.
pub fn family_curves(rows: &[Row], unit: &str, crossings: &[Crossing]) -> Vec<Section> {
    families(rows)
        .into_iter()
        .map(|((family, parameter), rows)| {
            let curve = |side: Side| {
                let point =
                    |row: &&Row| Some((*row.params.get(&parameter)? as f64, row.cost(side)?));
                let mut points: Vec<(f64, f64)> = rows.iter().filter_map(point).collect();
                points.sort_by(|one, other| one.0.total_cmp(&other.0));
                SideCurve { name: side.name(), points }
            };
            let crossings = crossings
                .iter()
                .filter(|crossing| crossing.family == family && crossing.parameter == parameter);
            Section::Picture {
                title: format!("{family}: {unit} per operation over {parameter}"),
                picture: Picture::Curves(Curves {
                    cost: unit.to_owned(),
                    curves: Side::BOTH.map(curve).to_vec(),
                    crossings: crossings.map(|crossing| crossing.value).collect(),
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
    let mut by_family: BTreeMap<Family, Vec<(usize, &Row)>> = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        for parameter in row.params.keys() {
            let key = (family(&row.row, parameter), parameter.clone());
            by_family.entry(key).or_default().push((index, row));
        }
    }
    let mut families: Vec<_> = by_family.into_iter().filter(|(_, rows)| rows.len() > 2).collect();
    families.sort_by_key(|(_, rows)| rows[0].0);
    families
        .into_iter()
        .map(|(key, rows)| (key, rows.into_iter().map(|(_, row)| row).collect()))
        .collect()
}

/// Returns the pictures of a sweep, one for each row; none if the documents are not at least three
/// comparisons whose names differ in the value of one parameter.
pub fn sweep(documents: &[Document<'_>]) -> Vec<Section> {
    let settings: Option<Vec<(&str, f64)>> = match documents.len() > 2 {
        true => documents.iter().map(|document| setting(document.name)).collect(),
        false => None,
    };
    let Some(settings) = settings else { return Vec::new() };
    let parameter = settings[0].0;
    if settings.iter().any(|(other, _)| *other != parameter) {
        return Vec::new();
    }
    let point =
        |(document, (_, value)): (&Document<'_>, &(&str, f64))| match document.report.result() {
            SavedResult::Comparison(comparison) => Some((*value, comparison)),
            _ => None,
        };
    let points: Option<Vec<SweepPoint>> = documents.iter().zip(&settings).map(point).collect();
    let Some(mut points) = points else { return Vec::new() };
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let rows = points[0].1.rows.iter().map(|row| row.row.clone());
    rows.filter_map(|row| sweep_curves(&row, parameter, &points)).collect()
}

/// Value of the parameter, and the comparison.
type SweepPoint = (f64, Box<Comparison>);

/// Parses the parameter and the value of a document's name: `cpus=4`, or `DIR, cpus=4`.
fn setting(name: &str) -> Option<(&str, f64)> {
    let (parameter, value) = name.rsplit(", ").next()?.rsplit_once('=')?;
    Some((parameter, value.parse().ok()?))
}

fn sweep_curves(name: &str, parameter: &str, points: &[SweepPoint]) -> Option<Section> {
    let cost = |point: &SweepPoint, side: Side| {
        let row = point.1.rows.iter().find(|row| row.row == name)?;
        Some((point.0, row.cost(side)?))
    };
    let curve = |side: Side| SideCurve {
        name: side.name(),
        points: points.iter().filter_map(|point| cost(point, side)).collect(),
    };
    let [base, change] = Side::BOTH.map(curve);
    if base.points.len() < 3 && change.points.len() < 3 {
        return None;
    }
    let unit = if points[0].1.counts().is_some() { "instructions" } else { "ns" };
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

/// Returns the values of the parameter at which the two curves cross. Between two points, the ratio
/// of the costs is interpolated linearly in logarithms.
fn crossings(base: &[(f64, f64)], change: &[(f64, f64)]) -> Vec<f64> {
    let ratio = |(x, cost): &(f64, f64)| {
        let (_, other) = change.iter().find(|(value, _)| value == x)?;
        Some((libm::log(*x), libm::log(other / cost)))
            .filter(|point| point.0.is_finite() && point.1.is_finite())
    };
    let ratios: Vec<(f64, f64)> = base.iter().filter_map(ratio).collect();
    let changes_of_sign = ratios.windows(2).filter(|pair| pair[0].1 * pair[1].1 < 0.0);
    let crossing = |pair: &[(f64, f64)]| {
        let [(from, before), (to, after)] = [pair[0], pair[1]];
        libm::exp(from + (to - from) * before / (before - after))
    };
    changes_of_sign.map(crossing).collect()
}

/// Name of the root of a flame graph.
const ROOT: &str = "all";

/// Percent of the row below which a bar is too narrow to be drawn, unless its delta is large.
const MIN_WIDTH_PERCENT: u64 = 1;
/// Percent of the largest delta from which a narrow bar is drawn, if its delta also exceeds the
/// spread of the layouts.
const MIN_DELTA_PERCENT: f64 = 10.0;

/// Flame graph of a row's Effect; `None` without call paths.
pub fn row_flame(row: &Row, effect: &Effect) -> Option<Flame> {
    let by = CountKind::from_effect(effect);
    let total = effect.counts()?;
    (!effect.paths.is_empty()).then(|| {
        path_flame(&effect.paths, total, PathScale { by, ops: row.ops, spread: effect.spread })
    })?
}

/// Kind of count that a flame graph shows, and how its numbers become numbers per operation.
#[derive(Debug, Clone, Copy)]
pub struct PathScale {
    pub by: CountKind,
    pub ops: u64,
    /// Spread over the layouts, per operation.
    pub spread: f64,
}

impl PathScale {
    fn per_op(self, count: u64) -> f64 {
        number::per_op(count, self.ops)
    }

    fn delta(self, counts: &Sides<u64>) -> f64 {
        self.per_op(counts.change) - self.per_op(counts.base)
    }

    /// Formats counts: `+40.00 (12.00 → 52.00)`.
    pub fn numbers(self, counts: &Sides<u64>) -> String {
        format!("{} ({})", number::delta(self.delta(counts)), self.both_sides(counts))
    }

    fn both_sides(self, counts: &Sides<u64>) -> String {
        let [base, change] =
            [counts.base, counts.change].map(|count| number::count(self.per_op(count)));
        format!("{base} → {change}")
    }
}

/// Flame graph of these paths below a root with the count `total`. It has the paths that are wide
/// enough or whose delta is large. `None` if only the root remains.
pub fn path_flame(paths: &[PathDelta], total: Sides<u64>, scale: PathScale) -> Option<Flame> {
    let all = with_root(paths, total);
    let kept = visible_paths(&all, scale);
    let own = own_counts(&all, scale.by);
    let own: Vec<Sides<u64>> = kept.iter().map(|index| own[*index].clone()).collect();
    let paths: Vec<PathDelta> = kept.iter().map(|index| all[*index].clone()).collect();
    // The caller gets the width of callees that are not drawn.
    let spans = lay_out(&callers(&paths), &wider_side(&own_counts(&paths, scale.by)));
    let max_delta = own.iter().map(|own| scale.delta(own).abs()).fold(0.0, f64::max);
    let bar = |index: usize| {
        let (path, span, delta) = (&paths[index], &spans[index], scale.delta(&own[index]));
        let counts = scale.by.path_counts(path)?;
        let width_percent = |count: u64| percent(count, span.width).min(100.0);
        // A change within the spread of the layouts is noise and has no colour.
        let delta_share = if delta.abs() <= scale.spread { 0.0 } else { delta / max_delta };
        Some(FlameBar {
            name: path.function.clone(),
            depth: path.depth as usize,
            start: percent(span.start, spans[0].width),
            width: percent(span.width, spans[0].width),
            sides: Sides { base: width_percent(counts.base), change: width_percent(counts.change) },
            delta_share,
            numbers: bar_numbers(path, counts, scale),
            own_numbers: (delta_share != 0.0).then(|| scale.numbers(&own[index])),
        })
    };
    let bars: Vec<FlameBar> = (0..paths.len()).filter_map(bar).collect();
    (bars.len() > 1).then_some(Flame { unit: scale.by.unit(), bars })
}

fn percent(part: u64, total: u64) -> f64 {
    share_percent(part as f64, total.max(1) as f64)
}

/// Puts the paths below a root with the count `total`.
fn with_root(paths: &[PathDelta], total: Sides<u64>) -> Vec<PathDelta> {
    let root = PathDelta {
        depth: 0,
        function: ROOT.to_owned(),
        calls: Sides { base: 0, change: 0 },
        instructions: total.clone(),
        rep_iterations: total.clone(),
        costly: Default::default(),
        wait: total,
        idle: Sides::default(),
    };
    let deeper =
        |path: &PathDelta| PathDelta { depth: path.depth.saturating_add(1), ..path.clone() };
    [root].into_iter().chain(paths.iter().map(deeper)).collect()
}

/// Returns the indexes of the paths that are wide enough to be seen or whose delta is large.
fn visible_paths(all: &[PathDelta], scale: PathScale) -> Vec<usize> {
    let counts_of = |path: &PathDelta| scale.by.path_counts(path).cloned();
    let width = |counts: &Sides<u64>| counts.base.max(counts.change);
    let root_width = all.first().and_then(counts_of).map_or(0, |counts| width(&counts));
    let min_width = root_width.saturating_mul(MIN_WIDTH_PERCENT);
    let delta = |counts: &Sides<u64>| scale.delta(counts).abs();
    let max_delta =
        all.iter().filter_map(counts_of).map(|counts| delta(&counts)).fold(0.0, f64::max);
    let is_visible = |counts: &Sides<u64>| {
        let has_large_delta =
            delta(counts) > scale.spread && delta(counts) * 100.0 >= max_delta * MIN_DELTA_PERCENT;
        width(counts).saturating_mul(100) >= min_width || has_large_delta
    };
    kept_paths(all, |path| counts_of(path).is_some_and(|counts| is_visible(&counts)))
}

/// Returns the counts of each path without the counts of its callees in this list.
fn own_counts(paths: &[PathDelta], by: CountKind) -> Vec<Sides<u64>> {
    ktax_model::own_counts(paths).iter().map(|own| by.own_counts(own).clone()).collect()
}

/// Horizontal span of a bar, in counts.
struct BarSpan {
    start: u64,
    width: u64,
}

fn wider_side(own: &[Sides<u64>]) -> Vec<u64> {
    own.iter().map(|own| own.base.max(own.change)).collect()
}

/// Lays out paths in a line. A path is as wide as its own count and the widths of its callees
/// together, so that callees that only one side has overlap no other bar.
fn lay_out(callers: &[Option<usize>], own: &[u64]) -> Vec<BarSpan> {
    let mut widths = own.to_vec();
    // Backwards, because a width must be complete before it is added to the caller's.
    for (index, caller) in callers.iter().enumerate().rev() {
        if let Some(caller) = caller {
            widths[*caller] = widths[*caller].saturating_add(widths[index]);
        }
    }
    // Start of the next callee of each path.
    let mut next: Vec<u64> = vec![0; widths.len()];
    let mut spans = Vec::with_capacity(widths.len());
    for (index, width) in widths.iter().enumerate() {
        let start = callers[index].map_or(0, |caller| next[caller]);
        next[index] = start;
        if let Some(caller) = callers[index] {
            next[caller] = start.saturating_add(*width);
        }
        spans.push(BarSpan { start, width: *width });
    }
    spans
}

/// Formats the numbers of a bar: `+40.00 (12.00 → 52.00), called 1.00 → 2.00 times`.
fn bar_numbers(path: &PathDelta, counts: &Sides<u64>, scale: PathScale) -> String {
    let calls = match &path.calls {
        Sides { base: 0, change: 0 } => String::new(),
        Sides { base, change } if base == change => {
            format!(", called {} times", number::count(scale.per_op(*base)))
        }
        calls => format!(", called {} times", scale.both_sides(calls)),
    };
    scale.numbers(counts) + &calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crossings_are_interpolated_in_logarithms() {
        let base = [(1.0, 100.0), (4.0, 200.0), (16.0, 400.0)];
        let change = [(1.0, 110.0), (4.0, 210.0), (16.0, 380.95)];
        let [crossing] = crossings(&base, &change)[..] else { panic!() };
        assert!((crossing - 8.0).abs() < 0.01, "{crossing}");
        assert_eq!(crossings(&base, &base), Vec::<f64>::new());
        assert_eq!(crossings(&base, &change[..2]), Vec::<f64>::new());
    }

    #[test]
    fn narrow_bars_with_large_deltas_are_drawn_and_coloured_by_their_own_code() {
        let path = PathDelta::with_instructions;
        let paths = [
            path(0, "stat", 10_000, 10_044),
            path(1, "alloc", 900, 940),
            path(2, "memset", 0, 30),
            path(2, "narrow", 20, 22),
            path(1, "walk", 5000, 5003),
        ];
        let scale = PathScale { by: CountKind::Instructions, ops: 1, spread: 5.0 };
        let total = Sides { base: 10_000, change: 10_044 };
        let flame = path_flame(&paths, total, scale).unwrap();
        let shown = |bar: &FlameBar| (bar.name.clone(), bar.delta_share, bar.own_numbers.clone());
        let bars: Vec<_> = flame.bars.iter().map(shown).collect();
        let expected = [
            ("all", 0.0, None),
            ("stat", 0.0, None),
            ("alloc", 8.0 / 30.0, Some("+8.00 (880.00 → 888.00)")),
            ("memset", 1.0, Some("+30.00 (0 → 30.00)")),
            ("walk", 0.0, None),
        ];
        let expected =
            expected.map(|(name, delta, own)| (name.into(), delta, own.map(str::to_owned)));
        assert_eq!(bars, expected);
        // The caller has the width of the callee that is not drawn.
        let width = |index: usize| (flame.bars[index].width * 1e6).round();
        assert!(width(2) > width(3) && flame.bars[2].sides.change > 99.0, "{flame:?}");
    }

    /// The wait for a lock grows, and the functions execute as many instructions as before.
    #[test]
    fn width_and_colour_of_a_flame_graph_of_waits_follow_the_waits() {
        let path = |depth, function, base, change| PathDelta {
            wait: Sides { base, change },
            ..PathDelta::with_instructions(depth, function, 50, 50)
        };
        let paths = [path(0, "dup", 100, 900), path(1, "lock", 90, 890), path(1, "walk", 10, 10)];
        let scale = PathScale { by: CountKind::Wait, ops: 1, spread: 1.0 };
        let flame = path_flame(&paths, Sides { base: 100, change: 900 }, scale).unwrap();
        let bars: Vec<_> = flame
            .bars
            .iter()
            .map(|bar| (bar.name.as_str(), bar.delta_share, bar.width.round()))
            .collect();
        assert_eq!(bars[2], ("lock", 1.0, 99.0), "{flame:?}");
        assert!(bars.iter().filter(|bar| bar.0 != "lock").all(|bar| bar.1 == 0.0), "{flame:?}");
    }

    #[test]
    fn callees_are_within_their_caller_and_do_not_overlap() {
        // 0 calls 1 and 3, 1 calls 2, and 3 calls 4 and 5.
        let callers = [None, Some(0), Some(1), Some(0), Some(3), Some(3)];
        let spans = lay_out(&callers, &[20, 20, 40, 20, 40, 30]);
        let ends: Vec<_> = spans.iter().map(|span| (span.start, span.start + span.width)).collect();
        assert_eq!(ends, [(0, 170), (0, 60), (0, 40), (60, 150), (60, 100), (100, 130)]);
        for (index, caller) in callers.iter().enumerate() {
            let Some(caller) = *caller else { continue };
            assert!(ends[caller].0 <= ends[index].0 && ends[index].1 <= ends[caller].1, "{index}");
        }
    }
}
