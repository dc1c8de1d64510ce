use crate::model::{ExitParts, ExitRow};
use crate::report::number;
use crate::report::view::{Kind, Line, Table};
use crate::stats::tables::{average, share_percent, std_dev_of_sums};

/// Nanoseconds of a microsecond.
pub const US: f64 = 1000.0;

/// How often and how long. Left out first are the quantiles, the deviation, the extremes, the
/// average.
pub fn times(rows: &[&ExitRow], whole_ns: u64) -> Table {
    let has_quantiles = rows.iter().any(|row| row.p50_ns.is_some());
    let (heads, gives_way): (&[&str], &[&[usize]]) = match has_quantiles {
        true => (
            &[
                "count",
                "min µs",
                "p50 µs",
                "p99 µs",
                "max µs",
                "sum µs",
                "avg µs",
                "stddev µs",
                "sum %",
            ],
            &[&[3, 4], &[8], &[2, 5], &[7]],
        ),
        false => (
            &["count", "min µs", "max µs", "sum µs", "avg µs", "stddev µs", "sum %"],
            &[&[6], &[2, 3], &[5]],
        ),
    };
    let lines = rows.iter().map(|row| Line::of(cells(row, whole_ns, has_quantiles)));
    let gives_way = gives_way.iter().map(|group| group.to_vec()).collect();
    Table { gives_way, ..of_reasons(heads) }.with(lines)
}

/// A table of numbers for each reason.
pub fn of_reasons(heads: &[&str]) -> Table {
    let numbers = heads.iter().map(|head| (*head, Kind::Number));
    Table::of([("reason", Kind::Name)].into_iter().chain(numbers))
}

fn cells(row: &ExitRow, whole_ns: u64, has_quantiles: bool) -> Vec<String> {
    let us = |ns: f64| number::measured(ns / US);
    let maybe = |ns: Option<f64>| ns.map_or(String::new(), us);
    let maybe_ns = |ns: Option<u64>| maybe(ns.map(|ns| ns as f64));
    let quantiles = match has_quantiles {
        true => vec![maybe_ns(row.p50_ns), maybe_ns(row.p99_ns)],
        false => vec![],
    };
    // KVM's statistics count more than they time.
    let is_timed = row.sum_ns > 0 || row.most_ns.is_some();
    let timed = |text: String| if is_timed { text } else { String::new() };
    let before = [row.reason.clone(), number::whole(row.count as f64), maybe_ns(row.least_ns)];
    let after = [
        maybe_ns(row.most_ns),
        timed(number::whole(row.sum_ns as f64 / US)),
        timed(us(average(row.sum_ns as f64, row.count as f64))),
        maybe(deviation_ns(row)),
        timed(format!("{:.2}", share_percent(row.sum_ns as f64, whole_ns as f64))),
    ];
    before.into_iter().chain(quantiles).chain(after).collect()
}

/// The standard deviation, where the source has what it takes.
pub fn deviation_ns(row: &ExitRow) -> Option<f64> {
    std_dev_of_sums(row.count, row.sum_ns, row.squares_ns2?)
}

/// Where the time of each reason went.
pub fn parts(rows: &[&ExitRow]) -> Table {
    let us = |ns: u64| match ns {
        0 => String::new(),
        ns => number::whole(ns as f64 / US),
    };
    let line = |name: &str, columns: [u64; 5]| {
        Line::of([name.to_owned()].into_iter().chain(columns.map(us)))
    };
    let all = rows.iter().map(|row| columns(row)).fold([0u64; 5], |mut all, more| {
        all.iter_mut().zip(more).for_each(|(sum, one)| *sum = sum.saturating_add(one));
        all
    });
    let lines = rows.iter().map(|row| line(&row.reason, columns(row)));
    let lines = lines.chain([line("all", all)]);
    // Where nothing went says little; the guest's time is the guest's row.
    let empty: Vec<usize> = (1..=5).filter(|column| all[column - 1] == 0).collect();
    let guest = if empty.contains(&1) { vec![] } else { vec![1] };
    let heads = ["guest µs", "kernel µs", "VMM µs", "halted µs", "preempted µs"];
    let gives_way = vec![empty, guest];
    Table { gives_way, ..of_reasons(&heads) }.with(lines)
}

/// In the guest, in the kernel, in the VMM, halted, preempted.
fn columns(row: &ExitRow) -> [u64; 5] {
    let none = ExitParts { kernel_ns: 0, user_ns: 0, halted_ns: 0, preempted_ns: 0 };
    let part = row.parts.as_ref().unwrap_or(&none);
    let (guest, kernel) = if row.is_guest { (part.kernel_ns, 0) } else { (0, part.kernel_ns) };
    [guest, kernel, part.user_ns, part.halted_ns, part.preempted_ns]
}
