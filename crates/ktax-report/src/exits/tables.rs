//! An exit table in columns: as a page has it, as bars of 100 %, and as it was printed in 2008.

use crate::exits::headline::{VcpuTime, sum_ns};
use crate::number;
use crate::view::{Bar, Kind, Line, Picture, Section, Table};
use ktax_host::text::escape;
use ktax_model::{ExitEvents, ExitParts, ExitRow, ExitRows, ExitTable};
use ktax_stats::tables::{average, share_percent, std_dev_of_sums};

/// Columns of every table of exits, the deciding ones first: time and count.
const HEADS: [&str; 11] = [
    "sum %",
    "sum µs",
    "count",
    "count %",
    "rate /s",
    "avg µs",
    "stddev µs",
    "min µs",
    "p50 µs",
    "p99 µs",
    "max µs",
];

/// Table of times and counts. Left out first are the deviation, the extremes, the quantiles, the
/// average, the share of exits; always the columns that the source does not have.
pub fn times_table(rows: &[&ExitRow], table: &ExitTable) -> Table {
    let all = Table {
        gives_way: [&[7][..], &[8], &[9, 10], &[11], &[6], &[4]].map(<[usize]>::to_vec).into(),
        ..reason_table(&HEADS)
    };
    let all = all.with(rows.iter().map(|row| Line::new(time_cells(row, table))));
    let mut unknown = Vec::new();
    if table.elapsed_s().is_none() {
        unknown.push(5);
    }
    if rows.iter().all(|row| row.p50_ns.is_none()) {
        unknown.extend([9, 10]);
    }
    // KVM's statistics have the time of halts at most, and may have no reasons.
    if !table.is_timed() {
        unknown.extend([7, 8, 11]);
    }
    if !rows.iter().any(|row| row.is_timed()) {
        unknown.extend([1, 2, 6]);
    }
    // An exit passes through several phases, so shares of exits would not add up.
    if !rows.iter().any(|row| row.is_reason()) || table.rows_are == ExitRows::Phases {
        unknown.push(4);
    }
    all.without(&unknown)
}

/// Returns an empty table with columns of numbers for each reason.
pub fn reason_table(heads: &[&str]) -> Table {
    let numbers = heads.iter().map(|head| (*head, Kind::Number));
    Table::new([("reason", Kind::Name)].into_iter().chain(numbers))
}

fn time_cells(row: &ExitRow, table: &ExitTable) -> Vec<String> {
    let us = |ns: f64| number::measured(ns / number::US);
    let maybe = |ns: Option<f64>| ns.map_or(String::new(), us);
    let maybe_ns = |ns: Option<u64>| maybe(ns.map(|ns| ns as f64));
    let timed = |text: String| if row.is_timed() { text } else { String::new() };
    let (count, sum_ns) = (row.count as f64, row.time_ns() as f64);
    let exits_percent = match row.is_reason() {
        true => format!("{:.2}", share_percent(count, table.exits() as f64)),
        false => String::new(),
    };
    let rate = table.elapsed_s().map(|seconds| number::measured(count / seconds));
    vec![
        row.reason.clone(),
        timed(format!("{:.2}", share_percent(sum_ns, table.sum_ns() as f64))),
        timed(number::whole(sum_ns / number::US)),
        number::whole(count),
        exits_percent,
        rate.unwrap_or_default(),
        timed(us(average(sum_ns, count))),
        maybe(deviation_ns(row)),
        maybe_ns(row.least_ns),
        maybe_ns(row.p50_ns),
        maybe_ns(row.p99_ns),
        maybe_ns(row.most_ns),
    ]
}

/// Standard deviation, ns; `None` where the source lacks its squares.
fn deviation_ns(row: &ExitRow) -> Option<f64> {
    std_dev_of_sums(row.count, row.sum_ns?, row.squares_ns2?)
}

pub fn parts_table(rows: &[&ExitRow], table: &ExitTable) -> Table {
    let us = |ns: u64| match ns {
        0 => String::new(),
        ns => number::whole(ns as f64 / number::US),
    };
    let line = |name: &str, columns: [u64; PARTS]| {
        Line::new([name.to_owned()].into_iter().chain(columns.map(us)))
    };
    let all = rows.iter().map(|row| part_columns(row)).fold([0u64; PARTS], |mut all, more| {
        all.iter_mut().zip(more).for_each(|(sum, part)| *sum = sum.saturating_add(part));
        all
    });
    let lines = rows.iter().map(|row| line(&row.reason, part_columns(row)));
    let lines = lines.chain([line("all", all)]);
    // Empty parts say little; the guest's time is the guest's row.
    let empty: Vec<usize> = (1..=PARTS).filter(|column| all[column - 1] == 0).collect();
    let guest = if empty.contains(&1) { vec![] } else { vec![1] };
    let heads =
        ["guest µs", "kernel µs", "VMM µs", "halted µs", "preempted µs", "unknown or halted µs"];
    let gives_way = vec![empty, guest];
    let parts = Table { gives_way, ..reason_table(&heads) }.with(lines);
    // Without task switches nobody knows what was halted or preempted.
    match table.lacks(ExitEvents::Scheduling) {
        true => parts.without(&[4, 5]),
        false => parts.without(&[6]),
    }
}

const PARTS: usize = 6;

/// Returns the ns in the guest, in the kernel, in the VMM, halted, preempted, unknown or halted.
fn part_columns(row: &ExitRow) -> [u64; PARTS] {
    let none = ExitParts::default();
    let part = row.parts.as_ref().unwrap_or(&none);
    let (guest, kernel) = if row.is_guest { (part.kernel_ns, 0) } else { (0, part.kernel_ns) };
    let [halted, preempted, unknown] = part.waits_ns();
    [guest, kernel, part.user_ns, halted, preempted, unknown]
}

/// Number of reasons that have a part of their own.
const SHOWN_REASONS: usize = 6;

const BARS_HOW: &str = "The parts add up to all of the recorded time of the vCPUs.";

/// Returns one bar for each of these tables that has times; empty where none has.
pub fn bars<'a>(tables: impl IntoIterator<Item = (String, &'a ExitTable)>) -> Section {
    let timed = tables.into_iter().filter(|(_, table)| table.is_timed() && table.sum_ns() > 0);
    let bars = timed.map(|(name, table)| Bar { name, parts: bar_parts(table) }).collect();
    Section::Picture {
        title: "Where the time of the vCPUs went".to_owned(),
        picture: Picture::Bars(bars),
        how: BARS_HOW.to_owned(),
    }
}

/// Returns the parts of a bar: in the guest; by reason, without halted or preempted time; then
/// these two.
fn bar_parts(table: &ExitTable) -> Vec<(String, u64)> {
    let time = VcpuTime::sum(&[table], true);
    let (shown, others) = time.exits.split_at(time.exits.len().min(SHOWN_REASONS));
    let ends = [
        ("other reasons", sum_ns(others)),
        ("halted", time.halted),
        ("preempted", time.preempted),
        ("unknown or halted", time.unknown_ns()),
    ];
    let all = [("in the guest", time.guest)].into_iter().chain(shown.iter().copied()).chain(ends);
    all.filter(|(_, ns)| *ns > 0).map(|(name, ns)| (name.to_owned(), ns)).collect()
}

/// Prints a table as kvmppc_timing.py did in 2008: times in microseconds, in the source's order.
pub fn exits_classic(table: &ExitTable, columns: Classic) -> String {
    let whole_ns = table.sum_ns();
    let is_timed = table.rows.iter().any(ExitRow::is_timed);
    let sum = if is_timed { (whole_ns / 1000).to_string() } else { UNKNOWN.to_owned() };
    let mut text = format!("sum of time {sum}{}\n", columns.runtime(whole_ns, is_timed));
    text += columns.header();
    for row in table.rows.iter().filter(|row| row.count > 0) {
        let percent = share_percent(row.time_ns() as f64, whole_ns as f64);
        text += &columns.row(row, (row.is_timed() && percent.is_finite()).then_some(percent));
    }
    text
}

const UNKNOWN: &str = "-";

/// Column layouts of the document of 2008.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classic {
    /// Layout of the workloads in the wiki: averages with four decimals.
    Long,
    /// Layout of the tables before and after paravirtualization: without the last two decimals, and
    /// with the length of the recording.
    Short,
}

impl Classic {
    fn header(self) -> &'static str {
        match self {
            Classic::Long => {
                "        type    count      min      max          sum              avg       \
                 stddev     %\n"
            }
            Classic::Short => {
                "               count  min    max       sum     avg   stddev      %\n"
            }
        }
    }

    fn runtime(self, whole_ns: u64, is_timed: bool) -> String {
        let seconds = whole_ns / 1_000_000_000;
        match self {
            Classic::Long => String::new(),
            Classic::Short if !is_timed => String::new(),
            Classic::Short => format!(" => ~{}:{:02} runtime", seconds / 60, seconds % 60),
        }
    }

    fn row(self, row: &ExitRow, percent: Option<f64>) -> String {
        let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
        let us = |ns: Option<u64>| known(ns.map(|ns| (ns / 1000).to_string()));
        let sum_ns = row.sum_ns.filter(|_| row.is_timed());
        let (name, count, sum) = (escape(&row.reason), row.count, us(sum_ns));
        let (least, most) = (us(row.least_ns), us(row.most_ns));
        let in_average = |ns: u64| format!("{:.4}", average((ns / 1000) as f64, count as f64));
        let average = known(sum_ns.map(in_average));
        let deviation = known(deviation_ns(row).map(|ns| format!("{:.3}", ns / number::US)));
        let percent = known(percent.map(|percent| format!("{percent:.2}")));
        match self {
            Classic::Long => format!(
                "{name:>11}: {count:>8} {least:>8} {most:>8} {sum:>12} {average:>16} \
                 {deviation:>12} {percent:>5}\n"
            ),
            Classic::Short => {
                let cut = if average == UNKNOWN { UNKNOWN } else { &average[..average.len() - 2] };
                format!(
                    "{name:>11} {count:>8} {least:>4} {most:>6} {sum:>9} {cut:>7} {deviation:>8} \
                     {percent:>6}\n"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_recorded_time() {
        let row = |reason: &str, sum_ns, halted_ns, is_guest| ExitRow {
            reason: reason.to_owned(),
            count: 1,
            sum_ns: Some(sum_ns),
            is_guest,
            parts: Some(ExitParts {
                halted_ns: Some(halted_ns),
                preempted_ns: Some(1),
                ..ExitParts::default()
            }),
            ..ExitRow::default()
        };
        let mut rows: Vec<ExitRow> =
            (0..9).map(|number| row(&number.to_string(), 100 + number, 0, false)).collect();
        rows.extend([row("guest", 700, 0, true), row("HLT", 900, 800, false)]);
        let table = ExitTable { rows, ..ExitTable::default() };
        let parts = bar_parts(&table);
        assert_eq!(parts.iter().map(|(_, ns)| ns).sum::<u64>(), table.sum_ns());
        let sizes = ["in the guest", "other reasons", "halted", "preempted"]
            .map(|name| parts.iter().find(|part| part.0 == name).map(|part| part.1));
        assert_eq!(sizes, [Some(699), Some(99 + 99 + 100 + 101), Some(800), Some(11)]);
    }
}
