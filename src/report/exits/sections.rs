use std::cmp::Reverse;

use super::account::{account, recorders};
use super::table::{parts, times};
use crate::model::{ExitRow, ExitTable, Warning};
use crate::report::view::{Legend, Section};

/// What the table is of, and who counted.
pub fn title(table: &ExitTable) -> String {
    match table.of.is_empty() {
        true => table.source.clone(),
        false => format!("{} ({})", table.of, table.source),
    }
}

/// What the columns of the second table are.
const PARTS: [(&str, &str); 5] = [
    ("guest", "in the guest"),
    ("kernel", "in the kernel, on a CPU"),
    ("VMM", "in the VMM"),
    ("halted", "asleep in the kernel"),
    ("preempted", "ready to run, without a CPU"),
];

/// Of calls of KVM_RUN nobody knows how much of their time was the guest's.
fn parts_of(table: &ExitTable) -> [(&'static str, &'static str); 5] {
    let mut parts = PARTS;
    if table.row("KVM_RUN").is_some() {
        parts[0].1 = "in KVM_RUN, on a CPU: the guest, and the kernel for it";
        parts[1].1 = "in the kernel, on a CPU, outside KVM_RUN";
    }
    parts
}

/// How often and how long, the reason that took most time first, counters last; where that time
/// went; whether it adds up.
pub fn sections(title: &str, table: &ExitTable) -> Vec<Section> {
    let mut rows: Vec<&ExitRow> = table.rows.iter().filter(|row| row.count > 0).collect();
    let first = |row: &&ExitRow| (row.counter, Reverse(row.sum_ns));
    // What is not timed is ordered by how often it was.
    let untimed = |row: &&ExitRow| Reverse(if row.is_timed() { 0 } else { row.count });
    rows.sort_by_key(|row| (first(row), untimed(row)));
    if rows.is_empty() {
        let none = "No exits were recorded.";
        let said = if title.is_empty() { none.to_owned() } else { format!("{title}: {none}") };
        return vec![Section::Sentences(vec![said])];
    }
    let (title, notes) = (title.to_owned(), Vec::new());
    let mut all = vec![Section::Table { title, table: times(&rows, table), notes }];
    if has_parts(table) {
        all.push(Section::table(parts(&rows)));
    }
    all.extend(account(table).map(|sentence| Section::Sentences(vec![sentence])));
    all
}

/// What recorders say of themselves, which stands once on a page.
pub fn remarks<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Section {
    Section::Sentences(recorders(tables).into_iter().collect())
}

/// The warnings of all tables, each once.
pub fn warnings<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in tables.into_iter().flat_map(|table| &table.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    warnings
}

fn has_parts(table: &ExitTable) -> bool {
    table.rows.iter().any(|row| row.count > 0 && row.parts.is_some())
}

/// What the rows and columns are.
pub fn legend<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Legend {
    let tables: Vec<&ExitTable> = tables.into_iter().collect();
    let timed = tables.iter().find(|table| table.is_timed() && table.sum_ns() > 0);
    let Some(first) = timed else { return legend_of_counters(&tables) };
    let rows = match first.row("KVM_RUN") {
        None => {
            "A row is the time from an exit for this reason to the next entry; the guest's row is \
             the time from an entry to the next exit."
        }
        Some(_) => {
            "A row is the time from KVM_RUN's return for this reason to its next call; KVM_RUN \
             itself is the guest's time and the kernel's."
        }
    };
    let parts = tables.iter().any(|table| has_parts(table)).then_some(parts_of(first));
    Legend::of([MICROSECONDS, rows])
        .with([SUM, COUNT])
        .with(rate(&tables))
        .with(parts.into_iter().flatten())
}

const MICROSECONDS: &str = "Times are in microseconds (µs).";
const SUM: (&str, &str) = ("sum %", "share of the time of all rows");
const COUNT: (&str, &str) = ("count %", "share of all exits");

fn rate(tables: &[&ExitTable]) -> Option<(&'static str, &'static str)> {
    let has_rates = tables.iter().any(|table| table.elapsed_s().is_some());
    has_rates.then_some(("rate /s", "count for each second of the recording"))
}

/// Of KVM's statistics, which have counts and perhaps the time of halts.
fn legend_of_counters(tables: &[&ExitTable]) -> Legend {
    let rows = || tables.iter().flat_map(|table| &table.rows).filter(|row| row.count > 0);
    if !rows().any(|row| row.counter.is_some()) {
        return Legend::default();
    }
    let has_times = rows().any(ExitRow::is_timed);
    let times = has_times.then_some(MICROSECONDS);
    let counters = "A row without count % is a counter of KVM, and no reason for an exit.";
    Legend::of(times.into_iter().chain([counters]))
        .with(has_times.then_some(SUM))
        .with(rows().any(ExitRow::is_reason).then_some(COUNT))
        .with(rate(tables))
}
