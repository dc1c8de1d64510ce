use std::cmp::Reverse;

use super::account::{account, recorders};
use super::table::{parts, times};
use crate::view::{Legend, Section};
use ktax_model::{ExitEvents, ExitRow, ExitRows, ExitTable, Warning};

/// What the table is of, and who counted.
pub fn title(table: &ExitTable) -> String {
    match table.of.is_empty() {
        true => table.source.clone(),
        false => format!("{} ({})", table.of, table.source),
    }
}

/// What the columns of the second table are.
const PARTS: [(&str, &str); 6] = [
    ("guest", "in the guest"),
    ("kernel", "in the kernel, on a CPU"),
    ("VMM", "in the VMM"),
    ("halted", "asleep in the kernel"),
    ("preempted", "ready to run, without a CPU"),
    (
        "unknown or halted",
        "in the kernel, where the vCPU may sleep: task switches were not recorded",
    ),
];

/// The columns that the tables have. Of calls of KVM_RUN nobody knows how much of their time was
/// the guest's.
fn parts_of(table: &ExitTable) -> Vec<(&'static str, &'static str)> {
    let mut parts = PARTS;
    let has_switches = !table.lacks(ExitEvents::Scheduling);
    let is_of_calls = table.row("KVM_RUN").is_some();
    match (is_of_calls, has_switches) {
        (true, true) => {
            parts[0].1 = "in KVM_RUN, on a CPU: the guest, and the kernel for it";
            parts[1].1 = "in the kernel, on a CPU, outside KVM_RUN";
        }
        (true, false) => {
            parts[0].1 = "in KVM_RUN: the guest, the kernel for it, and halts";
            parts[1].1 = "in the kernel, running or waiting, outside KVM_RUN";
        }
        (false, true) => {}
        (false, false) => parts[1].1 = "in the kernel, running or waiting for a page or a CPU",
    }
    let is_unknown = |name: &str| match has_switches {
        true => name == PARTS[5].0,
        false => name == PARTS[3].0 || name == PARTS[4].0,
    };
    parts.into_iter().filter(|(name, _)| !is_unknown(name)).collect()
}

/// How often and how long, the reason that took most time first, counters last; where that time
/// went; whether it adds up.
pub fn sections(title: &str, table: &ExitTable) -> Vec<Section> {
    let mut rows: Vec<&ExitRow> = table.rows.iter().filter(|row| row.count > 0).collect();
    let first = |row: &&ExitRow| (row.counter, Reverse(row.time_ns()));
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
        all.push(Section::table(parts(&rows, table)));
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
    let parts = tables.iter().any(|table| has_parts(table)).then(|| parts_of(first));
    let count = (first.rows_are != ExitRows::Phases).then_some(COUNT);
    Legend::of([MICROSECONDS].into_iter().chain(rows_are(first)))
        .with([SUM])
        .with(count)
        .with(rate(&tables))
        .with(parts.into_iter().flatten())
}

/// What a row is.
fn rows_are(table: &ExitTable) -> Vec<&'static str> {
    let has_guest = table.rows.iter().any(|row| row.is_guest);
    match table.rows_are {
        ExitRows::Phases => vec![
            "A row is a phase of KVM's work for the vCPU, and no reason: each exit passes through \
             several phases.",
            "Exits are counted once, in the phase guest_exit (on POWER8 rm_intr).",
        ],
        ExitRows::Accesses => vec![
            "A row is one address, port, register or call: the time from the guest's access to the \
             next entry.",
            NO_GUEST,
        ],
        ExitRows::Reasons if table.row("KVM_RUN").is_some() => vec![
            "A row is the time from KVM_RUN's return for this reason to its next call; KVM_RUN \
             itself is the guest's time and the kernel's.",
        ],
        ExitRows::Reasons if has_guest => vec![EXIT_AND_GUEST],
        ExitRows::Reasons => vec![EXIT_ALONE, NO_GUEST],
    }
}

const EXIT_AND_GUEST: &str = "A row is the time from an exit for this reason to the next entry; \
                              the guest's row is the time from an entry to the next exit.";
const EXIT_ALONE: &str = "A row is the time from an exit for this reason to the next entry.";
const NO_GUEST: &str = "The file has no time in the guest, so sum % is a share of the time outside \
                        the guest.";
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
        let counts = rows().any(ExitRow::is_reason).then_some(COUNT);
        let rates = rate(tables).filter(|_| counts.is_some());
        return Legend::default().with(counts).with(rates);
    }
    let has_times = rows().any(ExitRow::is_timed);
    let times = has_times.then_some(MICROSECONDS);
    let counters = "A row without count % is a counter of KVM, and no reason for an exit.";
    Legend::of(times.into_iter().chain([counters]))
        .with(has_times.then_some(SUM))
        .with(rows().any(ExitRow::is_reason).then_some(COUNT))
        .with(rate(tables))
}
