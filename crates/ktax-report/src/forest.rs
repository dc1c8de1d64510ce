//! The forest: every row of a comparison on one axis.

use super::carried::carried_most;
use super::view::{Forest, ForestLine, Picture, Section};
use super::{effect, number, verdict};
use ktax_model::{Effect, Ratio, Row, TimesEvidence, Verdict};
use ktax_stats::tables::change_percent;

/// What the line through a mark is.
pub const LAYOUTS: &str = "the range over the layouts";
/// The same of timed pairs.
pub const INTERVAL: &str = "the 95 % interval";

/// Rows whose cost changed come first, then the others, each the largest change first. Rows of one
/// side alone, which are not compared, come last.
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

/// What a line can be drawn from, and its numbers as people read them.
struct Drawn {
    percent: Option<f64>,
    range: Option<(f64, f64)>,
    detectable: Option<f64>,
    shown: [String; 3],
}

fn drawn(row: &Row) -> Drawn {
    match (row.times(), row.effects().first()) {
        (Some(times), _) => of_times(times),
        (None, Some(first)) => of_effect(row.deciding().unwrap_or(first)),
        (None, None) => {
            Drawn { percent: None, range: None, detectable: None, shown: Default::default() }
        }
    }
}

/// The rows with both Sides, in this order; nothing where there are none.
pub fn forest(rows: &[&Row], threshold_percent: f64, range: &str) -> Section {
    let compared = rows.iter().filter(|row| row.verdict != Verdict::OneSide);
    let line = |row: &&Row| {
        let Drawn { percent, range, detectable, shown } = drawn(row);
        let carried = carried_most(row).unwrap_or_default();
        let verdict = verdict::of_row(row);
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

fn of_effect(of: &Effect) -> Drawn {
    let percent = |delta: f64| change_percent(of.base, of.base + delta);
    let (least, most) = of.delta_range;
    Drawn {
        percent: of.percent,
        range: percent(least).zip(percent(most)),
        detectable: effect::detectable_percent(of),
        shown: [number::percent(of.percent), effect::over_layouts(of), effect::detectable(of)],
    }
}

fn of_times(times: &TimesEvidence) -> Drawn {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let ends = |Ratio { low, high, .. }: Ratio| Some((percent(low), percent(high?)));
    let (delta, range) = (times.ratio.map(|it| percent(it.estimate)), times.ratio.and_then(ends));
    Drawn {
        percent: delta,
        range,
        detectable: times.detectable_percent,
        shown: [
            delta.map(|delta| number::percent(Some(delta))).unwrap_or_default(),
            range.map(|it| number::percent_range(Some(it.0), Some(it.1))).unwrap_or_default(),
            times.detectable_percent.map(number::limit).unwrap_or_default(),
        ],
    }
}
