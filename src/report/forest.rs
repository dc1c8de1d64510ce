//! The forest: every row of a comparison on one axis.

use super::view::{Forest, ForestLine, Picture, Section};
use super::{effect, number, verdict};
use crate::model::{Effect, Ratio, Row, TimesEvidence, Verdict};
use crate::stats::tables::change_percent;

/// What the line through a mark is.
pub const LAYOUTS: &str = "the range over the layouts";
/// The same of timed pairs.
pub const INTERVAL: &str = "the 95 % interval";

/// What a line can be drawn from, and its numbers as people read them.
struct Drawn {
    percent: Option<f64>,
    range: Option<(f64, f64)>,
    detectable: Option<f64>,
    shown: [String; 3],
}

/// The rows with both Sides; nothing where there are none.
pub fn forest(rows: &[Row], threshold_percent: f64, range: &str) -> Section {
    let compared = rows.iter().filter(|row| row.verdict != Verdict::OneSide);
    let line = |row: &Row| {
        let drawn = match (row.times(), row.effects().first()) {
            (Some(times), _) => of_times(times),
            (None, Some(first)) => of_effect(row.deciding().unwrap_or(first)),
            (None, None) => {
                Drawn { percent: None, range: None, detectable: None, shown: Default::default() }
            }
        };
        let Drawn { percent, range, detectable, shown } = drawn;
        let verdict = verdict::of_row(row);
        ForestLine { row: row.row.clone(), percent, range, detectable, shown, verdict }
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
