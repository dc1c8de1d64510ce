//! Native Runs become a table: what each kind of workload is judged by, derived from its Samples.

mod columns;

use super::growth;
use crate::model::{FORMAT, Growth, NativeColumn, NativeRow, NativeTable, Summary, Workload};
use crate::stats::tables::median;
use columns::{COLUMNS, Column, Point};

/// What to make a table of.
#[derive(Debug)]
pub struct Described<'a> {
    /// The Workload's name.
    pub workload: &'a str,
    /// One line for people.
    pub title: &'a str,
    /// What one operation is.
    pub operation: &'a str,
    /// The words in which the original prints its result.
    pub original: Option<&'a str>,
    /// The columns, by name.
    pub columns: Vec<String>,
    /// `uname -r`.
    pub release: String,
    /// CPUs that may be used.
    pub cpus: usize,
}

/// Derives the columns of every row. A column that no row has is left out.
pub fn native_table(described: &Described<'_>, mut rows: Vec<NativeRow>) -> NativeTable {
    let mut chosen: Vec<&Column> = described.columns.iter().filter_map(|n| column(n)).collect();
    let first = rows.first().cloned();
    chosen.retain(|column| rows.iter().any(|row| cell(column, row, first.as_ref()).is_some()));
    for row in &mut rows {
        row.cells = chosen.iter().map(|column| cell(column, row, first.as_ref())).collect();
    }
    NativeTable {
        format: FORMAT,
        workload: described.workload.to_owned(),
        title: described.title.to_owned(),
        operation: described.operation.to_owned(),
        original: described.original.map(str::to_owned),
        release: described.release.clone(),
        cpus: described.cpus,
        columns: chosen.into_iter().map(head).collect(),
        growth: grown(&rows),
        rows,
    }
}

/// How the median time of an operation grows.
fn grown(rows: &[NativeRow]) -> Vec<Growth> {
    let cost = |row: &NativeRow| {
        let times = row.samples.iter().filter_map(|sample| sample.values.get("nanoseconds"));
        let times: Vec<f64> = times.map(|time| *time as f64 / row.workload.ops as f64).collect();
        median(&times)
    };
    let costs: Vec<growth::Cost<'_>> =
        rows.iter().filter_map(|row| Some((&row.workload, cost(row)?))).collect();
    growth::growth(&costs, None)
}

fn cell(column: &Column, row: &NativeRow, first: Option<&NativeRow>) -> Option<Summary> {
    let workload = &row.workload;
    let points = row.samples.iter().map(|sample| Point { workload, sample, first });
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

/// A parameter of a row.
fn param(workload: &Workload, name: &str) -> Option<f64> {
    workload.params.get(name).map(|value| *value as f64)
}
