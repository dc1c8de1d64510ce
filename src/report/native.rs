//! What `ktax workloads run` prints.

use super::number::measured;
use super::text::{paragraph, table_of_numbers};
use super::{TextOptions, shapes, view};
use crate::model::{Failure, NativeRow, NativeTable, Summary};
use crate::text::escape;

/// The table, ending in a newline: of one row all numbers, of several a line each.
pub fn native(table: &NativeTable, counters: bool, options: TextOptions) -> String {
    let mut text = format!(
        "{}, per operation: {}\nLinux {}, {} CPUs, natively; \
         each sample in a process of its own\n\n",
        escape(&table.title),
        escape(&table.operation),
        escape(&table.release),
        table.cpus
    );
    match table.rows.as_slice() {
        [row] => text += &one(table, row, options),
        _ => text += &many(table, options),
    }
    text += &failures(table, options);
    if counters {
        text += &shapes::native_counters(table, options);
    }
    for growth in &table.growth {
        text += &format!("\n{}", paragraph(&escape(&view::growth(growth)), options));
    }
    text
}

fn one(table: &NativeTable, row: &NativeRow, options: TextOptions) -> String {
    let header = ["", "unit", "median", "least", "most", "samples"];
    let cells = || table.columns.iter().zip(&row.cells);
    let lines = cells().filter_map(|(column, cell)| {
        let cell = cell.as_ref()?;
        Some(vec![
            column.heading.clone(),
            column.unit.clone(),
            measured(cell.median),
            measured(cell.least),
            measured(cell.most),
            cell.samples.len().to_string(),
        ])
    });
    let mut text = table_of_numbers(&header, lines.collect(), 2..header.len(), options);
    if let Some((column, Some(cell))) = cells().next() {
        let samples: Vec<String> = cell.samples.iter().map(|value| measured(*value)).collect();
        let samples = format!("{} in order: {}", column.heading, samples.join("  "));
        text += &format!("\n{}", paragraph(&samples, options));
        if let Some(original) = &table.original {
            let value = match column.unit.as_str() {
                "µs" => format!("{:.4} microseconds", cell.median),
                unit => format!("{:.2} {unit}", cell.median),
            };
            text += &format!("\n{}: {value}\n", escape(original));
        }
    }
    text
}

fn many(table: &NativeTable, options: TextOptions) -> String {
    let mut header = vec!["row".to_owned(), "samples".to_owned()];
    header.extend(table.columns.iter().map(|column| match column.unit.as_str() {
        "" => column.heading.clone(),
        unit => format!("{}\n{unit}", column.heading),
    }));
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let lines = table.rows.iter().map(|row| {
        let mut line = vec![row.workload.row.clone(), row.samples.len().to_string()];
        let cell = |cell: &Option<Summary>| {
            cell.as_ref().map_or("–".to_owned(), |cell| measured(cell.median))
        };
        line.extend(row.cells.iter().map(cell));
        line.resize(header.len(), "–".to_owned());
        line
    });
    table_of_numbers(&header, lines.collect(), 1..header.len(), options)
        + "\nMedians of the samples.\n"
}

/// What could not be run, and what to do about it.
fn failures(table: &NativeTable, options: TextOptions) -> String {
    let failed = table.rows.iter().filter_map(|row| Some((row, row.failure.as_ref()?)));
    let line = |(row, failure): (&NativeRow, &Failure)| {
        let text = format!("{}: {failure}; {}", row.workload.row, failure.next_step());
        format!("\n{}", paragraph(&escape(&text), options))
    };
    failed.map(line).collect()
}
