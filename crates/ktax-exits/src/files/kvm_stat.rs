//! Reader of the text of `perf kvm stat report` and `perf kvm stat live`, of every perf since 3.7.
//! The columns of a table are read from its header. Tables that are quoted in mails may lack rows.

use super::{damaged, lines};
use crate::table::add_row;
use ktax_model::{ExitRow, ExitRows, ExitTable, Result, Warning};

const SOURCE: &str = "perf kvm stat";

/// Name of the row for samples whose rows the text lacks.
const LEFT_OUT: &str = "(left out of the text)";

/// Rounding error of an average or a total, ns: perf prints hundredths of a microsecond.
const ROUNDING_NS: f64 = 5.0;

/// Rounding error of a share: perf prints hundredths of a per cent.
const ROUNDING_SHARE: f64 = 0.000_05;

/// Minimum standard error, per cent, that gives a standard deviation within 1 %: perf prints
/// hundredths.
const MIN_ERROR_PERCENT: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Samples,
    SamplesShare,
    TimeShare,
    Sum,
    Min,
    Max,
    Mean,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct TableHeader {
    rows_are: ExitRows,
    /// The columns after the name, from left to right.
    columns: Vec<Column>,
    /// Head of perf's name column: `VM-EXIT`, `MMIO Access`.
    event_name: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct PrintedRow {
    row: ExitRow,
    time_share: Option<f64>,
    mean_ns: Option<u64>,
    /// Standard error of the mean, in per cent of it.
    error_percent: Option<f64>,
}

/// A table whose end was not read yet.
struct OpenTable {
    header: TableHeader,
    title: String,
    /// Line number of the header.
    line: usize,
    rows: Vec<PrintedRow>,
    /// Code of the next row, which perf prints as `UNKNOWN`.
    unknown_code: Option<u64>,
}

/// `Total Samples:10000, Total events handled time:400020.00us.`
struct TotalLine {
    samples: u64,
    time_ns: u64,
}

pub(super) fn recognizes(text: &str) -> bool {
    lines(text).any(|(_, line)| parse_header(&strip_decoration(line)).is_some())
}

pub(super) fn read(text: &str) -> Result<Vec<ExitTable>> {
    let (mut tables, mut open): (Vec<ExitTable>, Option<OpenTable>) = (Vec::new(), None);
    let (mut target, mut clock) = (String::new(), String::new());
    // perf prints this warning before the first table.
    let mut lost_chunks = None;
    for (number, line) in lines(text) {
        let line = strip_decoration(line);
        let line = line.trim();
        if let Some(header) = parse_header(line) {
            tables.extend(open.take().map(|open| open.finish(None)).transpose()?);
            let (title, line) = (target.clone() + &clock, number);
            open = Some(OpenTable { header, title, line, rows: vec![], unknown_code: None });
        } else if let Some(rest) = line.strip_prefix("Analyze events for ") {
            target = rest.trim_end_matches(':').to_owned();
        } else if is_clock(line) {
            clock = format!(" at {line}");
        } else if let Some(total) = parse_total(line) {
            tables.extend(open.take().map(|open| open.finish(Some(&total))).transpose()?);
        } else if let Some(lost) = line.strip_prefix("Lost events: ") {
            tables.last_mut().into_iter().for_each(|table| table.warnings.push(lost_events(lost)));
        } else if let Some(chunks) = parse_lost_chunks(line) {
            lost_chunks = Some(chunks.to_owned());
        } else if let Some(open) = &mut open {
            open.add(number, line)?;
        }
    }
    tables.extend(open.map(|open| open.finish(None)).transpose()?);
    if let Some(chunks) = lost_chunks {
        tables.iter_mut().for_each(|table| table.warnings.push(lost_events(&chunks)));
    }
    Ok(tables)
}

/// Parses `Processed 10000 events and lost 3 chunks!`, a warning of perf on standard error.
fn parse_lost_chunks(line: &str) -> Option<&str> {
    line.strip_prefix("Processed ")?.split_once(" events and lost ")?.1.strip_suffix(" chunks!")
}

fn lost_events(number: &str) -> Warning {
    let fact = format!("perf lost events {number} times, so counts and times are too small");
    let next_step = "record with `ktax exits record`, which copies no events if eBPF is allowed";
    Warning::new(fact, next_step)
}

/// Strips quote marks of mails, escape sequences of terminals, and comment signs from a line.
fn strip_decoration(line: &str) -> String {
    let mut text = String::new();
    let mut parts = line.split("\u{1b}[");
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        // An escape sequence has numeric parameters and ends with one letter.
        let after_parameters = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        text.push_str(after_parameters.get(1..).unwrap_or_default());
    }
    text.trim_start_matches(['>', '|', '#', ' ', '\t']).replace('\u{a0}', " ")
}

/// Parses the header of a table, such as `VM-EXIT Samples Samples% Time% Min Time Max Time Avg
/// time` or `Event name Samples Sample% Time (ns) Time% Max Time (ns) …`; `None` for other lines.
fn parse_header(line: &str) -> Option<TableHeader> {
    let spaced = line.replace('(', " (");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let name_words = words.iter().position(|word| *word == "Samples").filter(|n| *n > 0)?;
    let mut columns = Vec::new();
    let mut rest = &words[name_words..];
    while let Some((column, length)) = parse_column(rest) {
        columns.push(column);
        rest = &rest[length..];
    }
    let is_header = rest.is_empty() && columns.contains(&Column::SamplesShare);
    let event_name = words[..name_words].join(" ");
    let rows_are = if counts_exits(&event_name) { ExitRows::Reasons } else { ExitRows::Accesses };
    is_header.then_some(TableHeader { rows_are, columns, event_name })
}

/// Returns true if a table with this name column has one row for each exit reason.
fn counts_exits(event_name: &str) -> bool {
    matches!(event_name, "VM-EXIT" | "Event name")
}

/// Parses the head of the first column; returns the column and the number of words of its head.
fn parse_column(words: &[&str]) -> Option<(Column, usize)> {
    let is_time = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case("time"));
    // 1 if the word at this index is the unit `(ns)`.
    let unit =
        |index: usize| usize::from(words.get(index).is_some_and(|word| word.starts_with("(n")));
    let column = match words.first()?.to_ascii_lowercase().as_str() {
        "samples" => (Column::Samples, 1),
        "samples%" | "sample%" => (Column::SamplesShare, 1),
        "time%" => (Column::TimeShare, 1),
        "time" => (Column::Sum, 1 + unit(1)),
        "min" if is_time => (Column::Min, 2 + unit(2)),
        "max" if is_time => (Column::Max, 2 + unit(2)),
        "avg" | "mean" if is_time => (Column::Mean, 2 + unit(2)),
        _ => return None,
    };
    Some(column)
}

/// Returns true for a time such as `10:11:12.123456`, with which `perf kvm stat live` begins a
/// table.
fn is_clock(line: &str) -> bool {
    let parts: Vec<&str> = line.split([':', '.']).collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 4 && line.matches(':').count() == 2 && parts.iter().all(is_number)
}

/// Parses the line with the totals, at the end of a table.
fn parse_total(line: &str) -> Option<TotalLine> {
    let (samples, time) = line.strip_prefix("Total Samples:")?.split_once(',')?;
    let time = time.trim().strip_prefix("Total events handled time:")?.trim_end_matches('.');
    Some(TotalLine { samples: samples.trim().parse().ok()?, time_ns: parse_time_ns(time)? })
}

/// Parses a time such as `342.52us` or `3500ns`, in ns; a number without a unit is in ns.
fn parse_time_ns(word: &str) -> Option<u64> {
    let (number, digits) = match word.strip_suffix("us") {
        Some(number) => (number, 3),
        None => (word.strip_suffix("ns").unwrap_or(word), 0),
    };
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_fraction = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let integer: u64 = integer.parse().ok().filter(|_| is_fraction)?;
    let padded = format!("{fraction:0<9}");
    let fraction: u64 = padded[..digits].parse().unwrap_or(0);
    integer.checked_mul(10u64.pow(digits as u32))?.checked_add(fraction)
}

/// Parses a percentage such as `54.85%`.
fn parse_percent(word: &str) -> Option<f64> {
    let number = word.strip_suffix('%')?.parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

impl TableHeader {
    /// Parses a row; `None` for other lines.
    fn parse_row(&self, line: &str) -> Option<PrintedRow> {
        let (line, error_percent) = match line.rsplit_once("+-") {
            Some((before, after)) => {
                let word = after.trim().trim_end_matches(')').trim();
                (before.trim_end().trim_end_matches('(').trim_end(), parse_percent(word))
            }
            None => (line, None),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let name_words = words.len().checked_sub(self.columns.len()).filter(|n| *n > 0)?;
        let row = ExitRow { reason: words[..name_words].join(" "), ..ExitRow::default() };
        let mut printed = PrintedRow { row, error_percent, ..PrintedRow::default() };
        for (column, word) in self.columns.iter().zip(&words[name_words..]) {
            match column {
                Column::Samples => printed.row.count = word.parse().ok()?,
                Column::SamplesShare => drop(parse_percent(word)?),
                Column::TimeShare => printed.time_share = Some(parse_percent(word)? / 100.0),
                Column::Sum => printed.row.sum_ns = Some(parse_time_ns(word)?),
                Column::Min => printed.row.least_ns = Some(parse_time_ns(word)?),
                Column::Max => printed.row.most_ns = Some(parse_time_ns(word)?),
                Column::Mean => printed.mean_ns = Some(parse_time_ns(word)?),
            }
        }
        Some(printed)
    }
}

impl PrintedRow {
    /// Returns the time of all samples, ns: the printed average times their number, limited to the
    /// range that the printed share of the total allows. The average of many samples is rounded
    /// more coarsely than the share.
    fn sum_ns(&self, total: Option<&TotalLine>) -> Option<u64> {
        if self.row.sum_ns.is_some() {
            return self.row.sum_ns;
        }
        let sum = self.mean_ns? as f64 * self.row.count as f64;
        let by_share = total.zip(self.time_share).map(|(total, share)| {
            let ns = |share: f64| share * total.time_ns as f64;
            let minimum = ns(share - ROUNDING_SHARE) - ROUNDING_NS;
            [minimum, ns(share + ROUNDING_SHARE) + ROUNDING_NS]
        });
        let sum = by_share.map_or(sum, |[minimum, maximum]| sum.max(minimum).min(maximum));
        Some(sum.round() as u64)
    }

    /// Returns the sum of squares, ns², from the standard error of the mean that perf prints.
    fn squares_ns2(&self, sum_ns: u64) -> Option<u128> {
        let (count, sum) = (self.row.count as f64, sum_ns as f64);
        let error = self.error_percent.filter(|error| *error >= MIN_ERROR_PERCENT)?;
        let mean = sum / count;
        let variance = (error / 100.0 * mean).powi(2) * count;
        let squares = variance * (count - 1.0) + sum * mean;
        (self.row.count > 1 && squares < u128::MAX as f64).then_some(squares as u128)
    }

    /// Returns the row with the sums that follow from the printed numbers and the totals.
    fn finish(self, total: Option<&TotalLine>) -> ExitRow {
        let sum_ns = self.sum_ns(total);
        let squares_ns2 = sum_ns.and_then(|sum| self.squares_ns2(sum));
        ExitRow { sum_ns, squares_ns2, ..self.row }
    }
}

impl OpenTable {
    /// Adds a line: a row, or the code of the next row. Other lines without percentages are
    /// ignored.
    fn add(&mut self, number: usize, line: &str) -> Result<()> {
        if let Some(mut printed) = self.header.parse_row(line) {
            if let (Some(code), "UNKNOWN") = (self.unknown_code.take(), &*printed.row.reason) {
                printed.row.reason = format!("{code:#x}");
            }
            self.rows.push(printed);
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("unknown kvm exit code:") {
            self.unknown_code = rest.split_whitespace().next().and_then(|code| code.parse().ok());
        } else if line.contains('%') && line.split_whitespace().count() > 2 {
            return Err(damaged(number, "a row that does not fit the header of its table"));
        }
        Ok(())
    }

    fn finish(self, total: Option<&TotalLine>) -> Result<ExitTable> {
        let mut rows: Vec<ExitRow> = Vec::new();
        for printed in self.rows {
            let row = printed.finish(total);
            match rows.iter_mut().find(|other| other.reason == row.reason) {
                // perf prints several rows `UNKNOWN`, one for each code without a name.
                Some(other) => {
                    add_row(other, &row);
                    other.squares_ns2 = None;
                }
                None => rows.push(row),
            }
        }
        let event_name = &self.header.event_name;
        let source = match counts_exits(event_name) {
            true => SOURCE.to_owned(),
            false => format!("{SOURCE}, {event_name}"),
        };
        let are_addresses = !rows.is_empty() && rows.iter().all(|row| is_address(&row.reason));
        let rows_are = if are_addresses { ExitRows::Accesses } else { self.header.rows_are };
        let mut table =
            ExitTable { name: self.title, source, rows_are, rows, ..ExitTable::default() };
        if let Some(total) = total {
            add_left_out(&mut table, total, self.line)?;
        }
        Ok(table)
    }
}

/// Returns true for an accessed address such as `0xfee00380:W` or `0x70:POUT`.
fn is_address(name: &str) -> bool {
    name.starts_with("0x") && name.contains(':')
}

/// Adds a row for the samples that are in the totals but in no row of the text.
fn add_left_out(table: &mut ExitTable, total: &TotalLine, line: usize) -> Result<()> {
    let counted = table.rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.count));
    if counted > total.samples {
        let message =
            format!("the rows have {counted} samples, and the total says {}", total.samples);
        return Err(damaged(line, &message));
    }
    if counted == total.samples {
        return Ok(());
    }
    let has_times = table.rows.iter().all(|row| row.sum_ns.is_some());
    let time_ns = total.time_ns.saturating_sub(table.sum_ns());
    table.rows.push(ExitRow {
        reason: LEFT_OUT.to_owned(),
        count: total.samples - counted,
        sum_ns: has_times.then_some(time_ns),
        ..ExitRow::default()
    });
    let fact = format!("the text has rows for {counted} of {} samples", total.samples);
    let next_step = "give the whole output of `perf kvm stat report`";
    table.warnings.push(Warning::new(fact, next_step));
    Ok(())
}

#[cfg(test)]
#[path = "kvm_stat_tests.rs"]
mod tests;
