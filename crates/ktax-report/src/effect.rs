//! Cells and records of an Effect of any Metric.

use crate::view::{Records, Value};
use crate::{changes, number};
use ktax_model::{CYCLES, Effect, Estimate, Metric, Row, Verdict, metric};
use ktax_stats::tables::change_percent;

/// Returns the range of the delta over the layouts, in percent of the Effect's base.
pub fn over_layouts(effect: &Effect) -> String {
    let percent = |delta: f64| change_percent(effect.base, effect.base + delta);
    number::percent_range(percent(effect.delta_range.0), percent(effect.delta_range.1))
}

/// Returns the smallest change that would have been slower or faster, in percent: `any` where
/// nothing is too small, `none` where nothing is large enough.
pub fn detectable(effect: &Effect) -> String {
    match effect.verdict {
        Verdict::DifferentWork | Verdict::Failed => String::new(),
        verdict => detectable_text(effect.base, effect.detectable, verdict),
    }
}

/// Formats an MDE in percent of the base. Next to a verdict it is rounded as the delta is, so that
/// it does not read as larger than that; without one it is rounded up.
pub fn detectable_text(base: f64, detectable: Option<f64>, verdict: Verdict) -> String {
    match (detectable, base) {
        (None, _) => "none".to_owned(),
        (Some(0.0), _) => "any".to_owned(),
        (_, 0.0) => String::new(),
        (Some(detectable), base) if verdict.is_change() => {
            number::reached(detectable / base * 100.0)
        }
        (Some(detectable), base) => number::limit(detectable / base * 100.0),
    }
}

/// Returns the MDE in percent of the base; `None` where no verdict could rest on it.
pub fn detectable_percent(effect: &Effect) -> Option<f64> {
    match (effect.verdict, effect.detectable?, effect.base) {
        (Verdict::TooFewBoots | Verdict::DifferentWork | Verdict::Failed, _, _) => None,
        (_, 0.0, _) => Some(0.0),
        (_, _, 0.0) => None,
        (_, detectable, base) => Some(detectable / base * 100.0),
    }
}

/// Columns of [`records`]; raw counts by layout follow as `base_0` … and `change_0` ….
const COLUMNS: [&str; 17] = [
    "workload",
    "operation",
    "ops",
    "verdict",
    "metric",
    "unit",
    "base",
    "change",
    "delta",
    "percent",
    "layout",
    "delta_min",
    "delta_max",
    "spread",
    "detectable",
    "metric_verdict",
    "failures",
];

/// Returns one line for each row and Metric. All values are per operation and unrounded. A row
/// without Effects has one line, so that it is not lost.
pub fn records(rows: &[Row], unit: impl Fn(&str) -> String) -> Records {
    let samples = |row: &Row| row.effects().iter().map(|e| e.samples.base.len()).max().unwrap_or(0);
    let layouts = rows.iter().map(samples).max().unwrap_or(0);
    let numbered = |side: &'static str| (0..layouts).map(move |i| format!("{side}_{i}"));
    let fixed = COLUMNS.into_iter().map(str::to_owned);
    let mut records = Records::new(fixed.chain(numbered("base")).chain(numbered("change")));
    for row in rows {
        if row.effects().is_empty() {
            records.push(record_line(row, None, &unit, layouts));
        }
        for effect in row.effects() {
            records.push(record_line(row, Some(effect), &unit, layouts));
        }
        if let Some(estimate) = row.counts().and_then(|counts| counts.estimate.as_ref()) {
            records.push(estimate_line(row, estimate, layouts));
        }
    }
    records
}

/// Returns the first values of each line of a row.
fn row_names(row: &Row) -> Vec<Value> {
    vec![(&row.row).into(), (&row.operation).into(), row.ops.into(), row.verdict.text().into()]
}

fn record_line(
    row: &Row,
    effect: Option<&Effect>,
    unit: &impl Fn(&str) -> String,
    layouts: usize,
) -> Vec<Value> {
    let mut cells = row_names(row);
    match effect {
        Some(effect) => cells.extend(effect_values(effect, unit(&effect.metric))),
        None => cells.resize(COLUMNS.len() - 1, Value::Nothing),
    }
    cells.push(row.failed_boots().into());
    for samples in
        effect.map(|effect| [&effect.samples.base, &effect.samples.change]).into_iter().flatten()
    {
        cells.extend((0..layouts).map(|i| Value::from(samples.get(i).copied())));
    }
    cells
}

/// Returns the line of an estimate: an interval of the delta in cycles, and nothing else.
fn estimate_line(row: &Row, estimate: &Estimate, layouts: usize) -> Vec<Value> {
    let mut cells = row_names(row);
    cells.push("estimate".into());
    cells.push((&format!("{CYCLES} on {}", estimate.machine)).into());
    cells.resize(COLUMNS.len() + 2 * layouts, Value::Nothing);
    for (column, value) in ["delta_min", "delta_max"].into_iter().zip(estimate.delta) {
        let place = COLUMNS.iter().position(|known| *known == column);
        cells[place.expect("a column")] = value.into();
    }
    cells
}

fn effect_values(effect: &Effect, unit: String) -> [Value; 12] {
    let verdict = match metric(&effect.metric).is_some_and(Metric::is_of_kind) {
        true => changes::more_or_less(effect),
        false => effect.verdict.text(),
    };
    [
        (&effect.metric).into(),
        (&unit).into(),
        effect.base.into(),
        effect.change.into(),
        effect.delta.into(),
        effect.percent.into(),
        effect.layout.into(),
        effect.delta_range.0.into(),
        effect.delta_range.1.into(),
        effect.spread.into(),
        effect.detectable.into(),
        verdict.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn read(cell: &str) -> f64 {
        cell.replace(' ', "").replace("<0.01", "0").parse().unwrap()
    }

    proptest! {
        /// Rounded as they are printed: no verdict beside a smaller delta, and none missing beside
        /// a larger one.
        #[test]
        fn a_delta_and_its_mde_read_alike(
            base in 1.0..1e6f64, delta in 0.0..0.03f64, by in 0.0..0.01f64
        ) {
            let (near, far) = (base * delta, base * delta * (1.0 + by));
            let shown = number::percent(change_percent(base, base + far));
            let mde = detectable_text(base, Some(near.max(1e-9)), Verdict::Slower);
            prop_assert!(read(&mde) <= read(&shown), "{shown} slower, MDE {mde}");
            let shown = number::percent(change_percent(base, base + near));
            let mde = detectable_text(base, Some(far.max(1e-9)), Verdict::NoDetectedChange);
            prop_assert!(read(&mde) >= read(&shown), "{shown} not detected, MDE {mde}");
        }
    }

    #[test]
    fn too_small_for_nothing_and_too_large_for_nothing_are_said() {
        assert_eq!(detectable_text(100.0, Some(0.0), Verdict::NoDetectedChange), "any");
        assert_eq!(detectable_text(100.0, None, Verdict::NoDetectedChange), "none");
        assert_eq!(detectable_text(0.0, Some(3.0), Verdict::NoDetectedChange), "");
    }
}
