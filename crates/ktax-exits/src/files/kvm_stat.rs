//! Text of `perf kvm stat report` and `perf kvm stat live`, of every perf since 3.7; the header of
//! a table names its columns. Tables quoted in mails leave out rows.

use super::{damaged, lines};
use crate::table::add_row;
use ktax_model::{ExitRow, ExitRows, ExitTable, Result, Warning};

const SOURCE: &str = "perf kvm stat";

/// Name of the row for samples that the text leaves out of its table.
const LEFT_OUT: &str = "(left out of the text)";

/// Half of the last digit of an average or a total, ns: perf prints hundredths of a microsecond.
const HALF_DIGIT_NS: f64 = 5.0;

/// Half of the last digit of a share: perf prints hundredths of a per cent.
const HALF_DIGIT_SHARE: f64 = 0.000_05;

/// The smallest relative error, per cent, whose rounding leaves a standard deviation good to 1 %.
const ERROR_LEAST_PERCENT: f64 = 0.5;

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
    /// In their order, without the name of the event.
    columns: Vec<Column>,
    /// perf's name for the events: `VM-EXIT`, `MMIO Access`.
    events: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct PrintedRow {
    row: ExitRow,
    time_share: Option<f64>,
    mean_ns: Option<u64>,
    /// Standard error of the mean, in per cent of it.
    error_percent: Option<f64>,
}

/// A table whose end has not been read yet.
struct OpenTable {
    header: TableHeader,
    title: String,
    number: usize,
    rows: Vec<PrintedRow>,
    /// Code of the next row, which has no name.
    code: Option<u64>,
}

/// `Total Samples:10000, Total events handled time:400020.00us.`
struct TotalLine {
    samples: u64,
    time_ns: u64,
}

pub(super) fn recognizes(text: &str) -> bool {
    lines(text).any(|(_, line)| parse_header(&plain(line)).is_some())
}

pub(super) fn read(text: &str) -> Result<Vec<ExitTable>> {
    let (mut tables, mut open): (Vec<ExitTable>, Option<OpenTable>) = (Vec::new(), None);
    let (mut target, mut clock) = (String::new(), String::new());
    // perf warns before its first table.
    let mut lost_chunks = None;
    for (number, line) in lines(text) {
        let line = plain(line);
        let line = line.trim();
        if let Some(header) = parse_header(line) {
            tables.extend(open.take().map(|open| open.finish(None)).transpose()?);
            let title = target.clone() + &clock;
            open = Some(OpenTable { header, title, number, rows: vec![], code: None });
        } else if let Some(rest) = line.strip_prefix("Analyze events for ") {
            target = rest.trim_end_matches(':').to_owned();
        } else if is_clock(line) {
            clock = format!(" at {line}");
        } else if let Some(total) = parse_total(line) {
            tables.extend(open.take().map(|open| open.finish(Some(&total))).transpose()?);
        } else if let Some(lost) = line.strip_prefix("Lost events: ") {
            tables.last_mut().into_iter().for_each(|table| table.warnings.push(lost_events(lost)));
        } else if let Some(chunks) = chunks_lost(line) {
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

/// `Processed 10000 events and lost 3 chunks!`, on standard error.
fn chunks_lost(line: &str) -> Option<&str> {
    line.strip_prefix("Processed ")?.split_once(" events and lost ")?.1.strip_suffix(" chunks!")
}

fn lost_events(number: &str) -> Warning {
    let fact = format!("perf lost events {number} times, so counts and times are too small");
    Warning::new(fact, "record with `ktax exits record`, which loses none")
}

/// Strips the additions of a mail, a terminal or a comment from a line.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut parts = line.split("\u{1b}[");
    text.push_str(parts.next().unwrap_or_default());
    for part in parts {
        // The parameters of a terminal's command, then one letter.
        let letter = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        text.push_str(letter.get(1..).unwrap_or_default());
    }
    text.trim_start_matches(['>', '|', '#', ' ', '\t']).replace('\u{a0}', " ")
}

/// `VM-EXIT Samples Samples% Time% Min Time Max Time Avg time`, `Event name Samples Sample% Time
/// (ns) Time% Max Time (ns) …`; `None` for other lines.
fn parse_header(line: &str) -> Option<TableHeader> {
    let spaced = line.replace('(', " (");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let first = words.iter().position(|word| *word == "Samples").filter(|first| *first > 0)?;
    let mut columns = Vec::new();
    let mut rest = &words[first..];
    while let Some((column, length)) = parse_column(rest) {
        columns.push(column);
        rest = &rest[length..];
    }
    let is_whole = rest.is_empty() && columns.contains(&Column::SamplesShare);
    let events = words[..first].join(" ");
    let rows_are = match &*events {
        "VM-EXIT" | "Event name" => ExitRows::Reasons,
        _ => ExitRows::Accesses,
    };
    is_whole.then_some(TableHeader { rows_are, columns, events })
}

/// Parses the first column; returns it with the number of words that its head has.
fn parse_column(words: &[&str]) -> Option<(Column, usize)> {
    let is_time = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case("time"));
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

/// `10:11:12.123456`, as `perf kvm stat live` begins a table.
fn is_clock(line: &str) -> bool {
    let parts: Vec<&str> = line.split([':', '.']).collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    parts.len() == 4 && line.matches(':').count() == 2 && parts.iter().all(is_number)
}

fn parse_total(line: &str) -> Option<TotalLine> {
    let (samples, time) = line.strip_prefix("Total Samples:")?.split_once(',')?;
    let time = time.trim().strip_prefix("Total events handled time:")?.trim_end_matches('.');
    Some(TotalLine { samples: samples.trim().parse().ok()?, time_ns: time_ns(time)? })
}

/// `342.52us`, `3500ns`, and without a unit whole nanoseconds.
fn time_ns(word: &str) -> Option<u64> {
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

fn percent(word: &str) -> Option<f64> {
    let number = word.strip_suffix('%')?.parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

impl TableHeader {
    /// Parses a row; `None` for other lines.
    fn row(&self, line: &str) -> Option<PrintedRow> {
        let (line, error_percent) = match line.rsplit_once("+-") {
            Some((before, after)) => {
                let word = after.trim().trim_end_matches(')').trim();
                (before.trim_end().trim_end_matches('(').trim_end(), percent(word))
            }
            None => (line, None),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.len().checked_sub(self.columns.len()).filter(|name| *name > 0)?;
        let row = ExitRow { reason: words[..name].join(" "), ..ExitRow::default() };
        let mut printed = PrintedRow { row, error_percent, ..PrintedRow::default() };
        for (column, word) in self.columns.iter().zip(&words[name..]) {
            match column {
                Column::Samples => printed.row.count = word.parse().ok()?,
                Column::SamplesShare => drop(percent(word)?),
                Column::TimeShare => printed.time_share = Some(percent(word)? / 100.0),
                Column::Sum => printed.row.sum_ns = Some(time_ns(word)?),
                Column::Min => printed.row.least_ns = Some(time_ns(word)?),
                Column::Max => printed.row.most_ns = Some(time_ns(word)?),
                Column::Mean => printed.mean_ns = Some(time_ns(word)?),
            }
        }
        Some(printed)
    }
}

impl PrintedRow {
    /// Time of all samples, ns: from the average, within what the printed share allows, because an
    /// average of many samples is rounded more coarsely than their share.
    fn sum_ns(&self, total: Option<&TotalLine>) -> Option<u64> {
        if self.row.sum_ns.is_some() {
            return self.row.sum_ns;
        }
        let sum = self.mean_ns? as f64 * self.row.count as f64;
        let by_share = total.zip(self.time_share).map(|(total, share)| {
            let ns = |share: f64| share * total.time_ns as f64;
            let most = ns(share + HALF_DIGIT_SHARE) + HALF_DIGIT_NS;
            [ns(share - HALF_DIGIT_SHARE) - HALF_DIGIT_NS, most]
        });
        let sum = by_share.map_or(sum, |[least, most]| sum.max(least).min(most));
        Some(sum.round() as u64)
    }

    /// Sum of squares, ns²: perf prints the standard error of the mean, and ktax the deviation of
    /// one exit.
    fn squares_ns2(&self, sum_ns: u64) -> Option<u128> {
        let (count, sum) = (self.row.count as f64, sum_ns as f64);
        let error = self.error_percent.filter(|error| *error >= ERROR_LEAST_PERCENT)?;
        let mean = sum / count;
        let variance = (error / 100.0 * mean).powi(2) * count;
        let squares = variance * (count - 1.0) + sum * mean;
        (self.row.count > 1 && squares < u128::MAX as f64).then_some(squares as u128)
    }

    fn finish(self, total: Option<&TotalLine>) -> ExitRow {
        let sum_ns = self.sum_ns(total);
        let squares_ns2 = sum_ns.and_then(|sum| self.squares_ns2(sum));
        ExitRow { sum_ns, squares_ns2, ..self.row }
    }
}

impl OpenTable {
    fn add(&mut self, number: usize, line: &str) -> Result<()> {
        if let Some(mut printed) = self.header.row(line) {
            if let (Some(code), "UNKNOWN") = (self.code.take(), &*printed.row.reason) {
                printed.row.reason = format!("{code:#x}");
            }
            self.rows.push(printed);
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("unknown kvm exit code:") {
            self.code = rest.split_whitespace().next().and_then(|code| code.parse().ok());
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
                // perf prints several for codes that it does not know.
                Some(other) => {
                    add_row(other, &row);
                    other.squares_ns2 = None;
                }
                None => rows.push(row),
            }
        }
        let source = match &*self.header.events {
            "VM-EXIT" | "Event name" => SOURCE.to_owned(),
            events => format!("{SOURCE}, {events}"),
        };
        let are_addresses = !rows.is_empty() && rows.iter().all(|row| is_address(&row.reason));
        let rows_are = if are_addresses { ExitRows::Accesses } else { self.header.rows_are };
        let mut table =
            ExitTable { name: self.title, source, rows_are, rows, ..ExitTable::default() };
        if let Some(total) = total {
            complete(&mut table, total, self.number)?;
        }
        Ok(table)
    }
}

/// `0xfee00380:W`, `0x70:POUT`.
fn is_address(name: &str) -> bool {
    name.starts_with("0x") && name.contains(':')
}

/// Adds a row for the samples that the text leaves out, as far as the total tells.
fn complete(table: &mut ExitTable, total: &TotalLine, number: usize) -> Result<()> {
    let counted = table.rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.count));
    if counted > total.samples {
        let what = format!("the rows have {counted} samples, and the total says {}", total.samples);
        return Err(damaged(number, &what));
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
