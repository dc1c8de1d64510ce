use super::reasons::time_ns;
use crate::view::{Records, Value};
use ktax_model::{ExitCounter, ExitParts, ExitRow, ExitTable};

const COLUMNS: [&str; 19] = [
    "of",
    "source",
    "reason",
    "is_guest",
    "count",
    "sum_ns",
    "min_ns",
    "max_ns",
    "p50_ns",
    "p99_ns",
    "squares_ns2",
    "kernel_ns",
    "user_ns",
    "halted_ns",
    "preempted_ns",
    "unknown_ns",
    "lost_events",
    "elapsed_ns",
    "counter",
];

/// One line for each reason of each table.
pub fn records(tables: &[ExitTable]) -> Records {
    let mut records = Records::of(COLUMNS);
    for table in tables {
        for row in &table.rows {
            records.push(line(table, row));
        }
    }
    records
}

fn line(table: &ExitTable, row: &ExitRow) -> [Value; 19] {
    let part = |part: fn(&ExitParts) -> Option<u64>| Value::from(row.parts.as_ref().and_then(part));
    [
        (&table.of).into(),
        (&table.source).into(),
        (&row.reason).into(),
        row.is_guest.into(),
        row.count.into(),
        time_ns(table, &row.reason).into(),
        row.least_ns.into(),
        row.most_ns.into(),
        row.p50_ns.into(),
        row.p99_ns.into(),
        row.squares_ns2.map(|squares| squares.to_string()).as_ref().into(),
        part(|parts| Some(parts.kernel_ns)),
        part(|parts| Some(parts.user_ns)),
        part(|parts| parts.halted_ns),
        part(|parts| parts.preempted_ns),
        part(|parts| Some(parts.unknown_ns)),
        table.account.as_ref().map(|account| account.lost).into(),
        table.elapsed_ns.into(),
        row.counter.map(ExitCounter::name).into(),
    ]
}
