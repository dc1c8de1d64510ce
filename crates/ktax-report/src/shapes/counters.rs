use std::collections::BTreeMap;

use crate::formats::{Page, numbers};
use crate::number;
use crate::options::TextOptions;
use crate::view::{Kind, Line, Section, Table};
use ktax_model::{Comparison, ComparisonMethod, MachineModel, NativeRow, NativeTable, Row, Side};
use ktax_stats::tables::{change_percent, median};

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
    counter("cache references", "cache-references", 1.0, "QEMU has no caches; --model models some"),
    counter("cache misses", "cache-misses", 1.0, "QEMU has no caches; --model models some"),
    counter("time elapsed (msecs)", "nanoseconds", 1e6, "instructions are not time"),
];

/// Behind them, what only the model of a machine counts.
const OF_MODEL: [Counter; 4] = [
    counter("L1 icache misses", "l1i-misses", 1.0, ""),
    counter("dTLB misses", "dtlb-misses", 1.0, ""),
    counter("branches", "branches", 1.0, ""),
    counter("branch misses", "branch-misses", 1.0, ""),
];

/// Why a model has no misses of the last cache.
const TOO_SHORT: &str = "(the region is too short for the model)";

/// What its Metrics are called.
const MODEL: &str = "model-";

type Values = BTreeMap<String, f64>;

/// One table for each row: base, change, what it is, and by how much it changed.
pub fn render(comparison: &Comparison, options: TextOptions) -> String {
    let header = ["base", "change", "", "counter", ""];
    let model = model(comparison);
    let section = |row: &Row| {
        let values = Side::BOTH.map(|side| of_row(row, side));
        let is_modelled = |counter: &Counter| row.effect(&metric_of(counter)).is_some();
        let why = |counter: &Counter, is_counted: bool| match model {
            Some(model) if is_modelled(counter) => format!("(model {})", model.name),
            Some(_) if counter.value == "cache-misses" => TOO_SHORT.to_owned(),
            _ if is_counted => String::new(),
            _ => format!("({})", counter.not_exact),
        };
        let title = Page::new(options).paragraph(&title(&row.row));
        let more = OF_MODEL.iter().filter(|counter| is_modelled(counter));
        let lines = lines(COUNTERS.iter().chain(more), &values, why);
        let table = numbers(&header, lines, 0..3, options);
        format!("\n{title}\n{table}")
    };
    comparison.rows.iter().map(section).collect()
}

/// The machine that was modelled, if any was.
fn model(comparison: &Comparison) -> Option<&MachineModel> {
    match &comparison.method {
        ComparisonMethod::Counts(counts) => counts.key.model.as_ref()?.machine(),
        _ => None,
    }
}

fn metric_of(counter: &Counter) -> String {
    format!("{MODEL}{}", counter.value)
}

/// What one Side counted in the whole Region.
fn of_row(row: &Row, side: Side) -> Values {
    let seen = row
        .counts()
        .and_then(|counts| Some(counts.seen.as_ref()?.get(side).clone()))
        .unwrap_or_default();
    let mut values: Values = seen.into_iter().map(|(name, value)| (name, value as f64)).collect();
    if let Some(effect) = row.effects().first() {
        let per_op = if side == Side::Base { effect.base } else { effect.change };
        values.insert("instructions".to_owned(), per_op * row.ops as f64);
    }
    for effect in row.effects() {
        if let (Some(name), Some(counts)) = (effect.metric.strip_prefix(MODEL), effect.counts()) {
            values.insert(name.to_owned(), *counts.get(side) as f64);
        }
    }
    values
}

/// Whether the run was made with `--counters`: each counter has a value then, or a reason.
fn is_counted(row: &NativeRow) -> bool {
    let has_clock = row.samples.iter().any(|sample| sample.values.contains_key("task-clock-ns"));
    has_clock || !row.uncounted.is_empty()
}

/// What the counters said of native rows that were counted: the medians over their Samples.
pub fn native_counters(table: &NativeTable) -> impl Iterator<Item = Section> {
    let section = |row: &NativeRow| {
        let why = |counter: &Counter, is_counted: bool| match row.uncounted.get(counter.value) {
            _ if is_counted => String::new(),
            Some(reason) => format!("({reason})"),
            None => "(the run did not say)".to_owned(),
        };
        let columns = [("here", Kind::Number), ("counter", Kind::Words), ("", Kind::Words)];
        let lines = lines(COUNTERS.iter(), &[medians(row)], why).into_iter().map(Line::of);
        let table = Table { wraps: 2, ..Table::of(columns) }.with(lines);
        Section::Table { title: title(&row.workload.row), table, notes: Vec::new() }
    };
    table.rows.iter().filter(|row| is_counted(row)).map(section)
}

fn title(row: &str) -> String {
    format!("Performance counter stats for '{row}'")
}

fn medians(row: &NativeRow) -> Values {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in row.samples.iter().flat_map(|sample| &sample.values) {
        all.entry(name.clone()).or_default().push(*value as f64);
    }
    all.into_iter().filter_map(|(name, values)| Some((name, median(&values)?))).collect()
}

/// The values, of two by how much they differ, the counter, and why a value is missing or whose it
/// is.
fn lines<'a>(
    counters: impl Iterator<Item = &'a Counter>,
    values: &[Values],
    why: impl Fn(&Counter, bool) -> String,
) -> Vec<Vec<String>> {
    let line = |counter: &Counter| {
        let value =
            |values: &Values| values.get(counter.value).map(|value| value / counter.divisor);
        let found: Vec<Option<f64>> = values.iter().map(value).collect();
        let mut cells: Vec<String> = found.iter().map(|value| shown(*value)).collect();
        if let [base, change] = found.as_slice() {
            cells.push(percent(*base, *change));
        }
        cells.push(counter.name.to_owned());
        let counted = found.iter().all(Option::is_some);
        cells.push(why(counter, counted));
        cells
    };
    counters.map(line).collect()
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
