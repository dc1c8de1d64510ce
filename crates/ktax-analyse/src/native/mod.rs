//! Native Runs become a table: what each kind of workload is judged by, derived from its Samples.

mod columns;

use super::growth;
use columns::{COLUMNS, Column, Point};
use ktax_model::{Growth, NativeColumn, NativeRow, NativeTable, Summary};
use ktax_stats::tables::median;

/// Derives these columns, by name, of every row, and how the rows grow. A column that no row has is
/// left out.
pub fn derive_columns(table: &mut NativeTable, names: &[String]) {
    let rows = table.rows.clone();
    let of = |column: &Column, row: &NativeRow| cell(column, row, &rows);
    let mut columns: Vec<&Column> = names.iter().filter_map(|name| column(name)).collect();
    columns.retain(|column| table.rows.iter().any(|row| of(column, row).is_some()));
    for row in &mut table.rows {
        row.cells = columns.iter().map(|column| of(column, row)).collect();
    }
    table.columns = columns.into_iter().map(head).collect();
    table.growth = grown(&table.rows);
}

/// How the median time of an operation grows.
fn grown(rows: &[NativeRow]) -> Vec<Growth> {
    let cost = |row: &NativeRow| {
        let times = row.samples.iter().filter_map(|sample| sample.values.get("nanoseconds"));
        let times: Vec<f64> = times.map(|time| *time as f64 / row.workload.ops as f64).collect();
        median(&times)
    };
    let costs = rows.iter().filter_map(|row| {
        let layouts = Vec::new();
        Some(growth::Cost { workload: &row.workload, shown: cost(row)?, layouts })
    });
    growth::growth(&costs.collect::<Vec<_>>(), None)
}

fn cell(column: &Column, row: &NativeRow, rows: &[NativeRow]) -> Option<Summary> {
    let workload = &row.workload;
    let points = row.samples.iter().map(|sample| Point { workload, sample, rows });
    let samples: Vec<f64> =
        points.filter_map(|point| (column.value)(&point)).filter(|v| v.is_finite()).collect();
    Some(Summary {
        median: median(&samples)?,
        least: samples.iter().copied().reduce(f64::min)?,
        most: samples.iter().copied().reduce(f64::max)?,
        samples,
    })
}

/// The columns of a Workload that names none.
pub fn usual_columns(bandwidth: bool) -> Vec<String> {
    vec![if bandwidth { "bandwidth" } else { "time" }.to_owned()]
}

/// Whether there is a column of that name.
pub fn is_column(name: &str) -> bool {
    column(name).is_some()
}

fn column(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

fn head(column: &Column) -> NativeColumn {
    NativeColumn {
        name: column.name.to_owned(),
        heading: column.heading.to_owned(),
        unit: column.unit.to_owned(),
    }
}
