//! Data of pictures: the forest of all rows, costs over a parameter, the points of a sweep, and the
//! flame graph.

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
        let percent = drawn_percent(row).filter(|percent| percent.is_finite());
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

/// Change of a row in percent, as the forest draws it.
fn drawn_percent(row: &Row) -> Option<f64> {
    match row.times() {
        Some(times) => times.ratio.map(|ratio| (ratio.estimate - 1.0) * 100.0),
        None => row.deciding_effect().or(row.effects().first())?.percent,
    }
}

fn forest_line(row: &Row) -> ForestLine {
    let mut line = ForestLine {
        row: row.row.clone(),
        percent: drawn_percent(row),
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

/// Forest of the rows with both sides, in this order; empty where there are none.
pub fn forest(rows: &[&Row], threshold_percent: f64, range: &str) -> Section {
    let compared = rows.iter().filter(|row| row.verdict != Verdict::OneSide);
    let lines = compared.map(|row| forest_line(row)).collect();
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
                    crossings: crossed.map(|crossing| crossing.value).collect(),
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

/// Pictures of a sweep of at least three points: one for each row that all have.
pub fn sweep(documents: &[Document<'_>]) -> Vec<Section> {
    let points: Option<Vec<(&str, f64)>> = match documents.len() > 2 {
        true => documents.iter().map(|document| setting(document.name)).collect(),
        false => None,
    };
    let Some(settings) = points else { return Vec::new() };
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

/// Parses a setting in a name: `cpus=4`, perhaps behind the sweep's directory.
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

/// Parameters where the line through the logarithms of two ratios is at 1.
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

/// Name of the bar above all paths.
const ALL: &str = "all";

/// Percent of the row below which a bar, and all below it, is not drawn.
const NARROW_PERCENT: u64 = 1;
/// Share of the largest delta, in percent, from which a narrow bar is drawn all the same, if its
/// delta exceeds the spread of the layouts.
const MOVED_PERCENT: f64 = 10.0;

/// Flame graph of a row's Effect; `None` without paths.
pub fn row_flame(row: &Row, effect: &Effect) -> Option<Flame> {
    let by = CountKind::from_effect(effect);
    let whole = effect.counts()?;
    (!effect.paths.is_empty()).then(|| {
        path_flame(&effect.paths, whole, PathScale { by, ops: row.ops, spread: effect.spread })
    })?
}

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
        format!("{} ({})", number::delta(self.delta(counts)), self.both(counts))
    }

    fn both(self, counts: &Sides<u64>) -> String {
        let [base, change] =
            [counts.base, counts.change].map(|count| number::count(self.per_op(count)));
        format!("{base} → {change}")
    }
}

/// Flame graph of these paths below one that is the whole: those that are wide enough to be seen,
/// or that moved much. `None` if only the whole remains.
pub fn path_flame(paths: &[PathDelta], whole: Sides<u64>, scale: PathScale) -> Option<Flame> {
    let all = below_all(paths, whole);
    let kept = drawn_paths(&all, scale);
    let own = own_counts(&all, scale.by);
    let own: Vec<Sides<u64>> = kept.iter().map(|index| own[*index].clone()).collect();
    let paths: Vec<PathDelta> = kept.iter().map(|index| all[*index].clone()).collect();
    // Paths that are not drawn leave their room to the caller.
    let places = places(&callers(&paths), &wider_side(&own_counts(&paths, scale.by)));
    let most = own.iter().map(|own| scale.delta(own).abs()).fold(0.0, f64::max);
    let bar = |index: usize| {
        let (path, place, delta) = (&paths[index], &places[index], scale.delta(&own[index]));
        let counts = scale.by.path_counts(path)?;
        let place_percent = |count: u64| percent(count, place.room).min(100.0);
        // A change within the spread of the layouts says nothing.
        let moved = if delta.abs() <= scale.spread { 0.0 } else { delta / most };
        Some(FlameBar {
            name: path.function.clone(),
            depth: path.depth as usize,
            from: percent(place.from, places[0].room),
            width: percent(place.room, places[0].room),
            sides: Sides { base: place_percent(counts.base), change: place_percent(counts.change) },
            moved,
            numbers: bar_numbers(path, counts, scale),
            own: (moved != 0.0).then(|| scale.numbers(&own[index])),
        })
    };
    let bars: Vec<FlameBar> = (0..paths.len()).filter_map(bar).collect();
    (bars.len() > 1).then_some(Flame { unit: scale.by.unit(), bars })
}

fn percent(part: u64, whole: u64) -> f64 {
    share_percent(part as f64, whole.max(1) as f64)
}

fn below_all(paths: &[PathDelta], whole: Sides<u64>) -> Vec<PathDelta> {
    let root = PathDelta {
        depth: 0,
        function: ALL.to_owned(),
        calls: Sides { base: 0, change: 0 },
        instructions: whole.clone(),
        rep_iterations: whole.clone(),
        costly: Default::default(),
        wait: whole,
        idle: Sides::default(),
    };
    let below =
        |path: &PathDelta| PathDelta { depth: path.depth.saturating_add(1), ..path.clone() };
    [root].into_iter().chain(paths.iter().map(below)).collect()
}

/// Indexes of paths that can be seen, or that say why the row moved.
fn drawn_paths(all: &[PathDelta], scale: PathScale) -> Vec<usize> {
    let counts_of = |path: &PathDelta| scale.by.path_counts(path).cloned();
    let widest = |counts: &Sides<u64>| counts.base.max(counts.change);
    let least = all.first().and_then(counts_of).map_or(0, |counts| widest(&counts));
    let least = least.saturating_mul(NARROW_PERCENT);
    let delta = |counts: &Sides<u64>| scale.delta(counts).abs();
    let most = all.iter().filter_map(counts_of).map(|counts| delta(&counts)).fold(0.0, f64::max);
    let is_drawn = |counts: &Sides<u64>| {
        let has_moved =
            delta(counts) > scale.spread && delta(counts) * 100.0 >= most * MOVED_PERCENT;
        widest(counts).saturating_mul(100) >= least || has_moved
    };
    kept_paths(all, |path| counts_of(path).is_some_and(|counts| is_drawn(&counts)))
}

/// Returns the counts of each path without those of the list that it calls.
fn own_counts(paths: &[PathDelta], by: CountKind) -> Vec<Sides<u64>> {
    ktax_model::own_counts(paths).iter().map(|own| by.own_counts(own).clone()).collect()
}

/// Place of a path: where it begins and how wide it is, in counts.
struct Room {
    from: u64,
    room: u64,
}

fn wider_side(own: &[Sides<u64>]) -> Vec<u64> {
    own.iter().map(|own| own.base.max(own.change)).collect()
}

/// Lays out paths: beside its own count each has room for all that it calls. Paths of one side
/// alone hide nothing of the other.
fn places(callers: &[Option<usize>], own: &[u64]) -> Vec<Room> {
    let mut rooms = own.to_vec();
    // Backwards, so that each sum is complete before its caller gets it.
    for (index, caller) in callers.iter().enumerate().rev() {
        if let Some(caller) = caller {
            rooms[*caller] = rooms[*caller].saturating_add(rooms[index]);
        }
    }
    let mut next: Vec<u64> = vec![0; rooms.len()];
    let mut places = Vec::with_capacity(rooms.len());
    for (index, room) in rooms.iter().enumerate() {
        let from = callers[index].map_or(0, |caller| next[caller]);
        next[index] = from;
        if let Some(caller) = callers[index] {
            next[caller] = from.saturating_add(*room);
        }
        places.push(Room { from, room: *room });
    }
    places
}

/// Numbers of a bar: `+40.00 (12.00 → 52.00), called 1.00 → 2.00 times`.
fn bar_numbers(path: &PathDelta, counts: &Sides<u64>, scale: PathScale) -> String {
    let calls = match &path.calls {
        Sides { base: 0, change: 0 } => String::new(),
        Sides { base, change } if base == change => {
            format!(", called {} times", number::count(scale.per_op(*base)))
        }
        calls => format!(", called {} times", scale.both(calls)),
    };
    scale.numbers(counts) + &calls
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

    #[test]
    fn a_bar_has_the_colour_of_its_own_code_and_what_moved_is_never_too_narrow() {
        let path = PathDelta::with_instructions;
        let paths = [
            path(0, "stat", 10_000, 10_044),
            path(1, "alloc", 900, 940),
            path(2, "memset", 0, 30),
            path(2, "narrow", 20, 22),
            path(1, "walk", 5000, 5003),
        ];
        let scale = PathScale { by: CountKind::Instructions, ops: 1, spread: 5.0 };
        let whole = Sides { base: 10_000, change: 10_044 };
        let flame = path_flame(&paths, whole, scale).unwrap();
        let shown = |bar: &FlameBar| (bar.name.clone(), bar.moved, bar.own.clone());
        let bars: Vec<_> = flame.bars.iter().map(shown).collect();
        let expected = [
            ("all", 0.0, None),
            ("stat", 0.0, None),
            ("alloc", 8.0 / 30.0, Some("+8.00 (880.00 → 888.00)")),
            ("memset", 1.0, Some("+30.00 (0 → 30.00)")),
            ("walk", 0.0, None),
        ];
        let expected =
            expected.map(|(name, moved, own)| (name.into(), moved, own.map(str::to_owned)));
        assert_eq!(bars, expected);
        // The room of what is not drawn is in its caller's.
        let room = |index: usize| (flame.bars[index].width * 1e6).round();
        assert!(room(2) > room(3) && flame.bars[2].sides.change > 99.0, "{flame:?}");
    }

    /// A lock is waited for much longer, in a function that executes as much as before.
    #[test]
    fn bars_of_waits_are_as_wide_and_as_dark_as_what_was_waited() {
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
            .map(|bar| (bar.name.as_str(), bar.moved, bar.width.round()))
            .collect();
        assert_eq!(bars[2], ("lock", 1.0, 99.0), "{flame:?}");
        assert!(bars.iter().filter(|bar| bar.0 != "lock").all(|bar| bar.1 == 0.0), "{flame:?}");
    }

    #[test]
    fn everything_has_room_and_nothing_lies_on_another() {
        // Of 0 the callees are 1 and 3, of 1 it is 2, and of 3 they are 4 and 5.
        let callers = [None, Some(0), Some(1), Some(0), Some(3), Some(3)];
        let places = places(&callers, &[20, 20, 40, 20, 40, 30]);
        let seen: Vec<_> =
            places.iter().map(|place| (place.from, place.from + place.room)).collect();
        assert_eq!(seen, [(0, 170), (0, 60), (0, 40), (60, 150), (60, 100), (100, 130)]);
        for (index, caller) in callers.iter().enumerate() {
            let Some(caller) = *caller else { continue };
            assert!(seen[caller].0 <= seen[index].0 && seen[index].1 <= seen[caller].1, "{index}");
        }
    }
}
