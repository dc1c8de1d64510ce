//! One line for each row and Metric, for a spreadsheet or R.

use ::csv::Writer;

use crate::model::{Comparison, Effect, Row, metric};
use crate::text::csv_cell;

use super::ReportError;

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

/// All values are per operation and unrounded; the raw counts by Layout follow as `base_0` … and
/// `change_0` …. A row without Effects has one line, so that it is not lost.
pub(super) fn render(comparison: &Comparison) -> Result<String, ReportError> {
    let samples = |row: &Row| row.effects.iter().map(|e| e.samples.base.len()).max().unwrap_or(0);
    let layouts = comparison.rows.iter().map(samples).max().unwrap_or(0);
    let numbered = |side: &'static str| (0..layouts).map(move |i| format!("{side}_{i}"));
    let fixed = COLUMNS.into_iter().map(str::to_owned);
    let header = fixed.chain(numbered("base")).chain(numbered("change")).collect();
    let mut lines: Vec<Vec<String>> = vec![header];
    for row in &comparison.rows {
        if row.effects.is_empty() {
            lines.push(line(row, None, layouts));
        }
        lines.extend(row.effects.iter().map(|effect| line(row, Some(effect), layouts)));
    }
    text(&lines)
}

/// Lines of cells, the header first.
pub(super) fn text(lines: &[Vec<String>]) -> Result<String, ReportError> {
    to_text(lines).map_err(|error| ReportError::Csv(error.to_string()))
}

fn to_text(lines: &[Vec<String>]) -> Result<String, Box<dyn std::error::Error>> {
    let mut writer = Writer::from_writer(Vec::new());
    for line in lines {
        writer.write_record(line)?;
    }
    Ok(String::from_utf8(writer.into_inner()?)?)
}

fn line(row: &Row, effect: Option<&Effect>, layouts: usize) -> Vec<String> {
    let mut cells = vec![
        csv_cell(&row.row),
        csv_cell(&row.operation),
        row.ops.to_string(),
        row.verdict.text().into(),
    ];
    match effect {
        Some(effect) => cells.extend(numbers(effect)),
        None => cells.resize(COLUMNS.len() - 1, String::new()),
    }
    cells.push(row.failures.len().to_string());
    for samples in effect.map(|e| [&e.samples.base, &e.samples.change]).unwrap_or([&vec![]; 2]) {
        cells.extend((0..layouts).map(|i| samples.get(i).map_or(String::new(), u64::to_string)));
    }
    cells
}

fn numbers(effect: &Effect) -> [String; 12] {
    [
        csv_cell(&effect.metric),
        metric(&effect.metric).map_or("", |metric| metric.unit).to_owned(),
        effect.base.to_string(),
        effect.change.to_string(),
        effect.delta.to_string(),
        effect.percent.map_or(String::new(), |percent| percent.to_string()),
        effect.layout.to_string(),
        effect.delta_range.0.to_string(),
        effect.delta_range.1.to_string(),
        effect.spread.to_string(),
        effect.detectable.to_string(),
        effect.verdict.text().to_owned(),
    ]
}
