use crate::view::{Records, Value};
use ktax_model::{Comparison, Ratio, Row, TimesEvidence};

const COLUMNS: [&str; 16] = [
    "workload",
    "operation",
    "headline",
    "verdict",
    "base_ns",
    "change_ns",
    "ratio",
    "ratio_low",
    "ratio_high",
    "pairs",
    "family",
    "p_adjusted",
    "detectable_percent",
    "controls",
    "why",
    "failures",
];

/// Unrounded, one line for each row.
pub fn records(comparison: &Comparison) -> Records {
    let mut records = Records::of(COLUMNS);
    for row in &comparison.rows {
        if let Some(times) = row.times() {
            records.push(line(row, times));
        }
    }
    records
}

fn line(row: &Row, times: &TimesEvidence) -> [Value; 16] {
    let ratio = |part: fn(Ratio) -> Option<f64>| Value::from(times.ratio.and_then(part));
    [
        (&row.row).into(),
        (&row.operation).into(),
        row.headline.into(),
        row.verdict.text().into(),
        times.ns.base.into(),
        times.ns.change.into(),
        ratio(|it| Some(it.estimate)),
        ratio(|it| Some(it.low)),
        ratio(|it| it.high),
        times.pairs.into(),
        times.family.into(),
        times.p_adjusted.into(),
        times.detectable_percent.into(),
        times.control.map_or(0, |control| control.pairs).into(),
        row.reason.as_deref().unwrap_or_default().into(),
        row.failed_boots().into(),
    ]
}
