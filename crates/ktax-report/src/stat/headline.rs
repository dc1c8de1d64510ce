use super::numbers::{counter, range, value};
use crate::number::percent;
use ktax_host::text::counted;
use ktax_model::{Side, StatRow, StatTable};

/// What is said first, in this order.
const NAMED: [&str; 3] = ["elapsed", "task-clock", "instructions"];

/// `time elapsed +3.72 % (interval +3.40…4.05), task clock +0.10 % (…: no change detected)`; of
/// one command the means, and of each how many runs failed.
pub fn headline(table: &StatTable) -> String {
    let rows = NAMED.iter().filter_map(|name| table.rows.iter().find(|row| row.counter == *name));
    let rows: Vec<&StatRow> = rows.collect();
    let mut parts: Vec<String> = match table.commands.len() {
        2 => rows.iter().filter_map(|row| changed(row)).collect(),
        _ => rows.iter().filter_map(|row| mean(row)).collect(),
    };
    let has_none = |row: &&StatRow| row.change.is_some_and(|it| it.interval_percent.is_none());
    if rows.iter().any(has_none) {
        parts.push("too few runs for an interval".to_owned());
    }
    for (command, side) in table.commands.iter().zip(Side::BOTH) {
        let of = if table.commands.len() == 2 {
            format!(" of the {}", side.name())
        } else {
            String::new()
        };
        if !command.failures.is_empty() {
            let runs = counted(table.runs, "run");
            parts.push(format!("{} of {runs}{of} failed", command.failures.len()));
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

/// The change is that of the pairs, which need not be that of the means.
fn changed(row: &StatRow) -> Option<String> {
    let change = row.change?;
    let (name, _) = named(row);
    let by = percent(Some(change.percent));
    Some(match change.interval_percent {
        None => format!("{name} {by} %"),
        Some(ends @ [low, high]) if low <= 0.0 && 0.0 <= high => {
            format!("{name} {by} % (interval {}: no change detected)", range(ends))
        }
        Some(ends) => format!("{name} {by} % (interval {})", range(ends)),
    })
}

fn mean(row: &StatRow) -> Option<String> {
    let (name, unit) = named(row);
    let mean = value(counter(row), row.repeats.first()?.mean);
    Some(format!("{name} {mean}{unit}"))
}
