use crate::number;
use crate::view::{Kind, Line, Table};
use ktax_model::{ExitEvents, ExitParts, ExitRow, ExitRows, ExitTable};
use ktax_stats::tables::{average, share_percent, std_dev_of_sums};

/// What stands in every table of exits, first what decides: its time, and how often.
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

/// Where the time went and how often. Left out first are the deviation, the extremes, the
/// quantiles, the average, the share of exits; always what the source does not say.
pub fn times(rows: &[&ExitRow], table: &ExitTable) -> Table {
    let all = Table {
        gives_way: [&[7][..], &[8], &[9, 10], &[11], &[6], &[4]].map(<[usize]>::to_vec).into(),
        ..of_reasons(&HEADS)
    };
    let all = all.with(rows.iter().map(|row| Line::of(cells(row, table))));
    let mut unknown = Vec::new();
    if table.elapsed_s().is_none() {
        unknown.push(5);
    }
    if rows.iter().all(|row| row.p50_ns.is_none()) {
        unknown.extend([9, 10]);
    }
    // KVM's statistics have a time of halts at most, and perhaps not one reason.
    if !table.is_timed() {
        unknown.extend([7, 8, 11]);
    }
    if !rows.iter().any(|row| row.is_timed()) {
        unknown.extend([1, 2, 6]);
    }
    // One exit is in several phases.
    if !rows.iter().any(|row| row.is_reason()) || table.rows_are == ExitRows::Phases {
        unknown.push(4);
    }
    without(&all, &unknown)
}

/// The same without columns that say nothing; the others give way as before.
pub(super) fn without(table: &Table, gone: &[usize]) -> Table {
    let after =
        |at: &usize| (!gone.contains(at)).then(|| at - gone.iter().filter(|it| *it < at).count());
    let groups = table.gives_way.iter().map(|group| group.iter().filter_map(after).collect());
    let gives_way: Vec<Vec<usize>> =
        groups.filter(|group: &Vec<usize>| !group.is_empty()).collect();
    Table { gives_way, ..table.without(gone) }
}

/// A table of numbers for each reason.
pub fn of_reasons(heads: &[&str]) -> Table {
    let numbers = heads.iter().map(|head| (*head, Kind::Number));
    Table::of([("reason", Kind::Name)].into_iter().chain(numbers))
}

fn cells(row: &ExitRow, table: &ExitTable) -> Vec<String> {
    let us = |ns: f64| number::measured(ns / number::US);
    let maybe = |ns: Option<f64>| ns.map_or(String::new(), us);
    let maybe_ns = |ns: Option<u64>| maybe(ns.map(|ns| ns as f64));
    let timed = |text: String| if row.is_timed() { text } else { String::new() };
    let (count, sum_ns) = (row.count as f64, row.time_ns() as f64);
    let of_exits = match row.is_reason() {
        true => format!("{:.2}", share_percent(count, table.exits() as f64)),
        false => String::new(),
    };
    let rate = table.elapsed_s().map(|seconds| number::measured(count / seconds));
    vec![
        row.reason.clone(),
        timed(format!("{:.2}", share_percent(sum_ns, table.sum_ns() as f64))),
        timed(number::whole(sum_ns / number::US)),
        number::whole(count),
        of_exits,
        rate.unwrap_or_default(),
        timed(us(average(sum_ns, count))),
        maybe(deviation_ns(row)),
        maybe_ns(row.least_ns),
        maybe_ns(row.p50_ns),
        maybe_ns(row.p99_ns),
        maybe_ns(row.most_ns),
    ]
}

/// The standard deviation, where the source has what it takes.
pub fn deviation_ns(row: &ExitRow) -> Option<f64> {
    std_dev_of_sums(row.count, row.sum_ns?, row.squares_ns2?)
}

/// Where the time of each reason went.
pub fn parts(rows: &[&ExitRow], table: &ExitTable) -> Table {
    let us = |ns: u64| match ns {
        0 => String::new(),
        ns => number::whole(ns as f64 / number::US),
    };
    let line = |name: &str, columns: [u64; PARTS]| {
        Line::of([name.to_owned()].into_iter().chain(columns.map(us)))
    };
    let all = rows.iter().map(|row| columns(row)).fold([0u64; PARTS], |mut all, more| {
        all.iter_mut().zip(more).for_each(|(sum, one)| *sum = sum.saturating_add(one));
        all
    });
    let lines = rows.iter().map(|row| line(&row.reason, columns(row)));
    let lines = lines.chain([line("all", all)]);
    // Where nothing went says little; the guest's time is the guest's row.
    let empty: Vec<usize> = (1..=PARTS).filter(|column| all[column - 1] == 0).collect();
    let guest = if empty.contains(&1) { vec![] } else { vec![1] };
    let heads =
        ["guest µs", "kernel µs", "VMM µs", "halted µs", "preempted µs", "unknown or halted µs"];
    let gives_way = vec![empty, guest];
    let parts = Table { gives_way, ..of_reasons(&heads) }.with(lines);
    // Without task switches nobody knows what was halted or preempted.
    match table.lacks(ExitEvents::Scheduling) {
        true => without(&parts, &[4, 5]),
        false => without(&parts, &[6]),
    }
}

/// The columns of [`parts`].
const PARTS: usize = 6;

/// In the guest, in the kernel, in the VMM, halted, preempted, unknown or halted.
fn columns(row: &ExitRow) -> [u64; PARTS] {
    let none = ExitParts::default();
    let part = row.parts.as_ref().unwrap_or(&none);
    let (guest, kernel) = if row.is_guest { (part.kernel_ns, 0) } else { (0, part.kernel_ns) };
    let [halted, preempted, unknown] = part.waits_ns();
    [guest, kernel, part.user_ns, halted, preempted, unknown]
}
