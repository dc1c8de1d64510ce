//! Prints an exit table in the columns of 2008.

use super::table::deviation_ns;
use crate::number;
use ktax_host::text::escape;
use ktax_model::{ExitRow, ExitTable};
use ktax_stats::tables::{average, share_percent};

/// As kvmppc_timing.py printed it in 2008: times in microseconds, in the source's order.
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

/// What was not measured.
const UNKNOWN: &str = "-";

/// The two forms of the document: that of its workloads, and the earlier one of its comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classic {
    /// Of the wiki's workloads, 2008: averages with four decimals.
    Long,
    /// Of its two tables before and after paravirtualization: without the last two decimals, and
    /// with the length of the recording.
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

    fn runtime(self, whole_ns: u64, is_timed: bool) -> String {
        let seconds = whole_ns / 1_000_000_000;
        match self {
            Classic::Long => String::new(),
            Classic::Short if !is_timed => String::new(),
            Classic::Short => format!(" => ~{}:{:02} runtime", seconds / 60, seconds % 60),
        }
    }

    fn row(self, row: &ExitRow, percent: Option<f64>) -> String {
        let us = |ns: Option<u64>| ns.map_or(UNKNOWN.to_owned(), |ns| (ns / 1000).to_string());
        let sum_ns = row.sum_ns.filter(|_| row.is_timed());
        let (name, count, sum) = (escape(&row.reason), row.count, us(sum_ns));
        let (least, most) = (us(row.least_ns), us(row.most_ns));
        let in_average = |ns: u64| format!("{:.4}", average((ns / 1000) as f64, count as f64));
        let average = sum_ns.map_or(UNKNOWN.to_owned(), in_average);
        let deviation = deviation_ns(row);
        let deviation =
            deviation.map_or(UNKNOWN.to_owned(), |ns| format!("{:.3}", ns / number::US));
        let percent = percent.map_or(UNKNOWN.to_owned(), |percent| format!("{percent:.2}"));
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
