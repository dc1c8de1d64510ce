//! What `ktax exits` prints.

use super::text::{paragraph, table_of_numbers};
use super::{TextOptions, escape, number};
use crate::model::{ExitRow, ExitTable};
use crate::stats::tables::{average, change_percent, share_percent, std_dev_of_sums};

const US: f64 = 1000.0;

/// One table, the reason that took most time first.
pub fn exits(table: &ExitTable, options: TextOptions) -> String {
    let mut rows: Vec<&ExitRow> = table.rows.iter().filter(|row| row.count > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.sum_ns));
    let header = ["reason", "count", "least", "most", "sum", "average", "deviation", "%"];
    let cells = rows.iter().map(|row| cells(row, table.sum_ns())).collect();
    let mut text = paragraph(&escape(&title(table)), options);
    text += &format!("\n{}", table_of_numbers(&header, cells, 1..8, options));
    let sum_us = number::whole(table.sum_ns() as f64 / US);
    let legend = format!(
        "Microseconds; all rows together {sum_us}. A row is the time from an exit for this reason \
         to the next entry; of the guest's, the time from an entry to the next exit."
    );
    text += &format!("\n{}", paragraph(&legend, options));
    for warning in &table.warnings {
        let said = format!("warning: {}; {}", warning.fact, warning.next_step);
        text += &paragraph(&escape(&said), options);
    }
    text
}

fn title(table: &ExitTable) -> String {
    match table.of.is_empty() {
        true => table.source.clone(),
        false => format!("{} ({})", table.of, table.source),
    }
}

fn cells(row: &ExitRow, whole_ns: u64) -> Vec<String> {
    let us = |ns: f64| number::measured(ns / US);
    let maybe = |ns: Option<f64>| ns.map_or(String::new(), us);
    vec![
        row.reason.clone(),
        number::whole(row.count as f64),
        maybe(row.least_ns.map(|ns| ns as f64)),
        maybe(row.most_ns.map(|ns| ns as f64)),
        number::whole(row.sum_ns as f64 / US),
        us(average(row.sum_ns as f64, row.count as f64)),
        maybe(deviation_ns(row)),
        format!("{:.2}", share_percent(row.sum_ns as f64, whole_ns as f64)),
    ]
}

fn deviation_ns(row: &ExitRow) -> Option<f64> {
    std_dev_of_sums(row.count, row.sum_ns, row.squares_ns2?)
}

/// As kvmppc_timing.py printed it in 2008: times in microseconds, in the source's order.
pub fn exits_classic(table: &ExitTable, columns: Classic) -> String {
    let whole_ns = table.sum_ns();
    let mut text = format!("sum of time {}{}\n", whole_ns / 1000, columns.runtime(whole_ns));
    text += columns.header();
    for row in table.rows.iter().filter(|row| row.count > 0) {
        text += &columns.row(row, share_percent(row.sum_ns as f64, whole_ns as f64));
    }
    text
}

/// The two forms of the document: that of its workloads, and the earlier one of its comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classic {
    /// Averages with four decimals.
    Long,
    /// The last two of them cut off, and how long it was.
    Short,
}

impl Classic {
    fn header(self) -> &'static str {
        match self {
            Classic::Long => concat!(
                "        type    count      min      max          sum",
                "              avg       stddev     %\n"
            ),
            Classic::Short => {
                "               count  min    max       sum     avg   stddev      %\n"
            }
        }
    }

    fn runtime(self, whole_ns: u64) -> String {
        let seconds = whole_ns / 1_000_000_000;
        match self {
            Classic::Long => String::new(),
            Classic::Short => format!(" => ~{}:{:02} runtime", seconds / 60, seconds % 60),
        }
    }

    fn row(self, row: &ExitRow, percent: f64) -> String {
        let us = |ns: Option<u64>| ns.unwrap_or(0) / 1000;
        let (name, count, sum) = (escape(&row.reason), row.count, row.sum_ns / 1000);
        let (least, most) = (us(row.least_ns), us(row.most_ns));
        let average = average(sum as f64, count as f64);
        let deviation = deviation_ns(row).map_or("-".to_owned(), |ns| format!("{:.3}", ns / US));
        match self {
            Classic::Long => format!(
                "{name:>11}: {count:>8} {least:>8} {most:>8} {sum:>12} {average:>16.4} \
                 {deviation:>12} {percent:>5.2}\n"
            ),
            Classic::Short => {
                let whole = format!("{average:.4}");
                let cut = &whole[..whole.len() - 2];
                format!(
                    "{name:>11} {count:>8} {least:>4} {most:>6} {sum:>9} {cut:>7} {deviation:>8} \
                     {percent:>6.2}\n"
                )
            }
        }
    }
}

/// How often, and how long together, ns.
type CountAndSum = (u64, u64);

/// Two tables, the reason whose time changed most first.
pub fn exits_diff(base: &ExitTable, change: &ExitTable, options: TextOptions) -> String {
    let only_there = change.rows.iter().filter(|row| base.row(&row.reason).is_none());
    let reasons = base.rows.iter().chain(only_there).map(|row| row.reason.as_str());
    let of = |table: &ExitTable, reason: &str| -> CountAndSum {
        table.row(reason).map_or((0, 0), |row| (row.count, row.sum_ns))
    };
    let both = |reason| (reason, of(base, reason), of(change, reason));
    let mut rows: Vec<(&str, CountAndSum, CountAndSum)> = reasons.map(both).collect();
    rows.retain(|(_, base, change)| base.0 > 0 || change.0 > 0);
    rows.sort_by_key(|(_, base, change)| std::cmp::Reverse(base.1.abs_diff(change.1)));
    let cells = |name: &str, base: CountAndSum, change: CountAndSum| {
        let (was, is) = (base.1 as f64 / US, change.1 as f64 / US);
        vec![
            name.to_owned(),
            number::whole(base.0 as f64),
            number::whole(change.0 as f64),
            number::whole(was),
            number::whole(is),
            number::percent(change_percent(was, is)),
        ]
    };
    let count = |table: &ExitTable| table.rows.iter().map(|row| row.count).sum();
    let whole = |table: &ExitTable| (count(table), table.sum_ns());
    let mut lines: Vec<_> = rows.into_iter().map(|(name, a, b)| cells(name, a, b)).collect();
    lines.push(cells("all", whole(base), whole(change)));
    let header = ["reason", "count\nbase", "count\nchange", "µs\nbase", "µs\nchange", "µs\n%"];
    let title = format!("base    {}\nchange  {}\n", escape(&title(base)), escape(&title(change)));
    format!("{title}\n{}", table_of_numbers(&header, lines, 1..6, options))
}
