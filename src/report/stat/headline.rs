use super::numbers::{counter, value};
use crate::model::{Side, StatRow, StatTable};
use crate::report::number::percent;

/// What is said first, in this order.
const NAMED: [&str; 3] = ["elapsed", "task-clock", "instructions"];

/// `time elapsed +3.72 % (1 314.78 → 1 363.69 msecs), task clock +3.74 %, instructions +10.43 %`;
/// of one command the means, and of each how many runs failed.
pub fn headline(table: &StatTable) -> String {
    let rows = NAMED.iter().filter_map(|name| table.rows.iter().find(|row| row.counter == *name));
    let rows: Vec<&StatRow> = rows.collect();
    let mut parts: Vec<String> = match table.commands.len() {
        2 => rows.iter().enumerate().filter_map(|(at, row)| changed(row, at == 0)).collect(),
        _ => rows.iter().filter_map(|row| mean(row)).collect(),
    };
    for (command, side) in table.commands.iter().zip(Side::BOTH) {
        let of = if table.commands.len() == 2 {
            format!(" of the {}", side.name())
        } else {
            String::new()
        };
        if !command.failures.is_empty() {
            parts.push(format!("{} of {} runs{of} failed", command.failures.len(), table.runs));
        }
    }
    parts.join(", ")
}

/// A counter's name, and its unit where the screen has one.
fn named(row: &StatRow) -> (&'static str, String) {
    match counter(row).title.strip_suffix(')').and_then(|title| title.split_once(" (")) {
        Some((name, unit)) => (name, format!(" {unit}")),
        None => (counter(row).title, String::new()),
    }
}

fn changed(row: &StatRow, with_values: bool) -> Option<String> {
    let ([base, change], by) = (row.repeats.first_chunk()?, row.change?);
    let (name, unit) = named(row);
    let shown = |mean| value(counter(row), mean);
    let from_to = format!(" ({} → {}{unit})", shown(base.mean), shown(change.mean));
    let by = percent(Some(by.percent));
    Some(format!("{name} {by} %{}", if with_values { &from_to } else { "" }))
}

fn mean(row: &StatRow) -> Option<String> {
    let (name, unit) = named(row);
    let mean = value(counter(row), row.repeats.first()?.mean);
    Some(format!("{name} {mean}{unit}"))
}
