use std::collections::BTreeMap;

use super::super::text::{paragraph, table_of_numbers};
use super::super::{TextOptions, number};
use crate::model::{Comparison, NativeRow, NativeTable, Row, Side};
use crate::stats::tables::{change_percent, median};
use crate::text::escape;

/// A counter: its name, its unit, and how it is called in the guest's values, which are as many
/// times larger.
struct Counter {
    name: &'static str,
    value: &'static str,
    divisor: f64,
    /// Why the exact engine has none.
    not_exact: &'static str,
}

const fn counter(
    name: &'static str,
    value: &'static str,
    divisor: f64,
    not_exact: &'static str,
) -> Counter {
    Counter { name, value, divisor, not_exact }
}

/// In the published order.
const COUNTERS: [Counter; 9] = [
    counter("task clock (msecs)", "task-clock-ns", 1e6, "instructions are not time"),
    counter("CPU migrations", "cpu-migrations", 1.0, "there is one CPU"),
    counter("context switches", "context-switches", 1.0, "the guest did not say"),
    counter("page faults", "page-faults", 1.0, "the guest did not say"),
    counter("CPU cycles", "cycles", 1.0, "QEMU executes instructions, not cycles"),
    counter("instructions", "instructions", 1.0, "the row failed"),
    counter("cache references", "cache-references", 1.0, "QEMU has no caches"),
    counter("cache misses", "cache-misses", 1.0, "QEMU has no caches"),
    counter("time elapsed (msecs)", "nanoseconds", 1e6, "instructions are not time"),
];

type Values = BTreeMap<String, f64>;

/// One table for each row: base, change, what it is, and by how much it changed.
pub(super) fn render(comparison: &Comparison, options: TextOptions) -> String {
    let mut text = String::new();
    for row in &comparison.rows {
        let values = Side::BOTH.map(|side| of_row(row, side));
        let missing = |counter: &Counter| counter.not_exact.to_owned();
        text += &section(&row.row, &["base", "change"], &values, missing, options);
    }
    text
}

/// What one Side counted in the whole Region.
fn of_row(row: &Row, side: Side) -> Values {
    let seen = row.seen.as_ref().map(|seen| seen.get(side).clone()).unwrap_or_default();
    let mut values: Values = seen.into_iter().map(|(name, value)| (name, value as f64)).collect();
    if let Some(effect) = row.effects.first() {
        let per_op = if side == Side::Base { effect.base } else { effect.change };
        values.insert("instructions".to_owned(), per_op * row.ops as f64);
    }
    values
}

/// One table for each row: the medians over its Samples.
pub(super) fn native(table: &NativeTable, options: TextOptions) -> String {
    let section = |row: &NativeRow| {
        let missing = |counter: &Counter| match row.uncounted.get(counter.value) {
            Some(reason) => reason.clone(),
            None => "not asked for; --counters asks".to_owned(),
        };
        section(&row.workload.row, &["here"], &[medians(row)], missing, options)
    };
    table.rows.iter().map(section).collect()
}

fn medians(row: &NativeRow) -> Values {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in row.samples.iter().flat_map(|sample| &sample.values) {
        all.entry(name.clone()).or_default().push(*value as f64);
    }
    all.into_iter().filter_map(|(name, values)| Some((name, median(&values)?))).collect()
}

fn section(
    row: &str,
    names: &[&str],
    values: &[Values],
    missing: impl Fn(&Counter) -> String,
    options: TextOptions,
) -> String {
    let mut header = names.to_vec();
    header.extend(["", "counter", ""]);
    let header = if names.len() == 2 { header } else { [&header[..1], &header[2..]].concat() };
    let lines = COUNTERS.iter().map(|counter| {
        let value =
            |values: &Values| values.get(counter.value).map(|value| value / counter.divisor);
        let found: Vec<Option<f64>> = values.iter().map(value).collect();
        let mut cells: Vec<String> = found.iter().map(|value| shown(*value)).collect();
        if let [base, change] = found.as_slice() {
            cells.push(percent(*base, *change));
        }
        cells.push(counter.name.to_owned());
        let counted = found.iter().all(Option::is_some);
        cells.push(if counted { String::new() } else { format!("({})", missing(counter)) });
        cells
    });
    let title = paragraph(&format!("Performance counter stats for '{}'", escape(row)), options);
    let table = table_of_numbers(&header, lines.collect(), 0..names.len() * 2 - 1, options);
    format!("\n{title}\n{table}")
}

fn shown(value: Option<f64>) -> String {
    match value {
        None => "not counted here".to_owned(),
        Some(value) if value.fract() == 0.0 => number::whole(value),
        Some(value) => number::measured(value),
    }
}

/// The change in percent of the base, where it says something.
fn percent(base: Option<f64>, change: Option<f64>) -> String {
    match base.zip(change).and_then(|(base, change)| change_percent(base, change)) {
        Some(percent) => format!("{}%", number::percent(Some(percent))),
        None => String::new(),
    }
}
