//! The text of `perf kvm stat report` and `perf kvm stat live`, of every perf since 3.7: which
//! columns a table has stands in its header. Mails quote such tables and leave out rows.

use super::{ExitsError, damaged, lines};
use ktax_model::{ExitRow, ExitRows, ExitTable, Warning};

const SOURCE: &str = "perf kvm stat";

/// Name of the row for samples that the text leaves out of its table.
const LEFT_OUT: &str = "(left out of the text)";

/// Half of the last digit of an average or a total, ns: perf prints hundredths of a microsecond.
const HALF_DIGIT_NS: f64 = 5.0;

/// Half of the last digit of a share: perf prints hundredths of a per cent.
const HALF_DIGIT_SHARE: f64 = 0.000_05;

/// The smallest relative error, per cent, whose rounding leaves a standard deviation good to 1 %.
const ERROR_LEAST_PERCENT: f64 = 0.5;

/// A column of numbers.
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

/// The first line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TableHeader {
    rows_are: ExitRows,
    /// The table's columns in their order, without the name of the event.
    columns: Vec<Column>,
    /// perf's name for the events: `VM-EXIT`, `MMIO Access`.
    events: String,
}

/// The numbers of a row, as they are printed.
#[derive(Debug, Clone, Default, PartialEq)]
struct RowNumbers {
    samples: u64,
    time_share: Option<f64>,
    sum_ns: Option<u64>,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    mean_ns: Option<u64>,
    /// The standard error of the mean, in per cent of it.
    error_percent: Option<f64>,
}

/// A table whose end was not seen yet.
struct OpenTable {
    header: TableHeader,
    title: String,
    /// The line of the header.
    number: usize,
    rows: Vec<(String, RowNumbers)>,
    /// The code of the next row, which has no name.
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

/// Reads every table of a file.
pub(super) fn read(text: &str) -> Result<Vec<ExitTable>, ExitsError> {
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
    Warning {
        fact: format!("perf lost events {number} times, so counts and times are too small"),
        next_step: "record with `ktax exits record`, which loses none".to_owned(),
    }
}

/// Strips what a mail, a terminal or a comment adds to a line.
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

/// Parses the first column; returns it and how many words its head has.
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
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_fraction = fraction.len() <= 9 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let whole: u64 = whole.parse().ok().filter(|_| is_fraction)?;
    let padded = format!("{fraction:0<9}");
    let fraction: u64 = padded[..digits].parse().unwrap_or(0);
    whole.checked_mul(10u64.pow(digits as u32))?.checked_add(fraction)
}

fn percent(word: &str) -> Option<f64> {
    let number = word.strip_suffix('%')?.parse::<f64>().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

impl TableHeader {
    /// Parses a row's name and numbers; `None` for other lines.
    fn row(&self, line: &str) -> Option<(String, RowNumbers)> {
        let (line, error_percent) = match line.rsplit_once("+-") {
            Some((before, after)) => {
                let word = after.trim().trim_end_matches(')').trim();
                (before.trim_end().trim_end_matches('(').trim_end(), percent(word))
            }
            None => (line, None),
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.len().checked_sub(self.columns.len()).filter(|name| *name > 0)?;
        let mut numbers = RowNumbers { error_percent, ..RowNumbers::default() };
        for (column, word) in self.columns.iter().zip(&words[name..]) {
            match column {
                Column::Samples => numbers.samples = word.parse().ok()?,
                Column::SamplesShare => drop(percent(word)?),
                Column::TimeShare => numbers.time_share = Some(percent(word)? / 100.0),
                Column::Sum => numbers.sum_ns = Some(time_ns(word)?),
                Column::Min => numbers.min_ns = Some(time_ns(word)?),
                Column::Max => numbers.max_ns = Some(time_ns(word)?),
                Column::Mean => numbers.mean_ns = Some(time_ns(word)?),
            }
        }
        Some((words[..name].join(" "), numbers))
    }
}

impl RowNumbers {
    /// Time of all samples, ns: from the average, within what the printed share allows, because an
    /// average of many samples is rounded more coarsely than their share.
    fn sum_ns(&self, total: Option<&TotalLine>) -> Option<u64> {
        if self.sum_ns.is_some() {
            return self.sum_ns;
        }
        let sum = self.mean_ns? as f64 * self.samples as f64;
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
        let (count, sum) = (self.samples as f64, sum_ns as f64);
        let error = self.error_percent.filter(|error| *error >= ERROR_LEAST_PERCENT)?;
        let mean = sum / count;
        let variance = (error / 100.0 * mean).powi(2) * count;
        let squares = variance * (count - 1.0) + sum * mean;
        (self.samples > 1 && squares < u128::MAX as f64).then_some(squares as u128)
    }

    fn row(&self, reason: String, total: Option<&TotalLine>) -> ExitRow {
        let sum_ns = self.sum_ns(total);
        ExitRow {
            reason,
            count: self.samples,
            least_ns: self.min_ns,
            most_ns: self.max_ns,
            sum_ns,
            squares_ns2: sum_ns.and_then(|sum| self.squares_ns2(sum)),
            ..ExitRow::default()
        }
    }
}

impl OpenTable {
    fn add(&mut self, number: usize, line: &str) -> Result<(), ExitsError> {
        if let Some((name, numbers)) = self.header.row(line) {
            let name = match self.code.take() {
                Some(code) if name == "UNKNOWN" => format!("{code:#x}"),
                _ => name,
            };
            self.rows.push((name, numbers));
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("unknown kvm exit code:") {
            self.code = rest.split_whitespace().next().and_then(|code| code.parse().ok());
        } else if line.contains('%') && line.split_whitespace().count() > 2 {
            return Err(damaged(number, "a row that does not fit the header of its table"));
        }
        Ok(())
    }

    fn finish(self, total: Option<&TotalLine>) -> Result<ExitTable, ExitsError> {
        let mut rows: Vec<ExitRow> = Vec::new();
        for (name, numbers) in &self.rows {
            let row = numbers.row(name.clone(), total);
            match rows.iter_mut().find(|other| other.reason == *name) {
                Some(other) => merge(other, &row),
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
            ExitTable { of: self.title, source, rows_are, rows, ..ExitTable::default() };
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

/// Merges two rows of one name: perf prints several for codes that it does not know.
fn merge(one: &mut ExitRow, other: &ExitRow) {
    one.count = one.count.saturating_add(other.count);
    one.sum_ns = one.sum_ns.zip(other.sum_ns).map(|(a, b)| a.saturating_add(b));
    one.least_ns = one.least_ns.zip(other.least_ns).map(|(a, b)| a.min(b));
    one.most_ns = one.most_ns.zip(other.most_ns).map(|(a, b)| a.max(b));
    one.squares_ns2 = None;
}

/// Adds what the text leaves out of the table, as far as the total says it.
fn complete(table: &mut ExitTable, total: &TotalLine, number: usize) -> Result<(), ExitsError> {
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
    table.warnings.push(Warning {
        fact: format!("the text has rows for {counted} of {} samples", total.samples),
        next_step: "give the whole output of `perf kvm stat report`".to_owned(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// count, sum, min, max.
    fn numbers(table: &ExitTable, reason: &str) -> (u64, Option<u64>, Option<u64>, Option<u64>) {
        let row = table.row(reason).unwrap_or_else(|| panic!("{reason} in {table:?}"));
        (row.count, row.sum_ns, row.least_ns, row.most_ns)
    }

    fn only(text: &str) -> ExitTable {
        let mut tables = read(text).unwrap();
        assert_eq!(tables.len(), 1, "{tables:?}");
        tables.remove(0)
    }

    #[test]
    fn every_number_of_a_report_is_read() {
        let table = only(include_str!("../../../../tests/data/exits/perf-kvm-stat.txt"));
        assert_eq!((&*table.of, &*table.source), ("all VMs, all VCPUs", SOURCE));
        let ept = numbers(&table, "EPT_VIOLATION");
        assert_eq!(ept, (5000, Some(40_000_000), Some(900), Some(300_000)));
        let halts = numbers(&table, "HLT");
        assert_eq!(halts, (1000, Some(342_520_000), Some(1_100), Some(40_000_000)));
        assert_eq!((table.exits(), table.sum_ns()), (10_000, 400_020_000));
        assert!(table.warnings.is_empty() && table.elapsed_ns.is_none(), "{table:?}");
        // The standard error of 1000 halts is 3.20 % of their mean: √1000 times that is the deviation.
        let row = table.row("HLT").unwrap();
        let squares = row.squares_ns2.unwrap() as f64;
        let deviation = (squares / 1000.0 - 342_520f64.powi(2)).sqrt();
        let expected = 0.032 * 342_520.0 * (999f64 / 1000.0).sqrt() * 1000f64.sqrt();
        assert!((deviation / expected - 1.0).abs() < 1e-6, "{deviation} {expected}");
    }

    /// A table of perf 3.7 to 3.10.
    #[test]
    fn the_first_layout_has_no_minimum_and_maximum() {
        let table = only(
            "Analyze events for all VCPUs:\n\n\
             \x20            VM-EXIT    Samples  Samples%     Time%         Avg time\n\n\
             \x20                HLT        250    50.00%    99.00%     3960.00us ( +-   9.30% )\n\
             \x20            PF excp        250    50.00%     1.00%       40.00us ( +-   0.20% )\n\n\
             Total Samples:500, Total events handled time:1000000.00us.\n",
        );
        assert_eq!(numbers(&table, "HLT"), (250, Some(990_000_000), None, None));
        assert_eq!(numbers(&table, "PF excp"), (250, Some(10_000_000), None, None));
        // An error of 0.20 % may be 0.195 or 0.205: too coarse for a deviation.
        assert_eq!(table.row("PF excp").unwrap().squares_ns2, None);
    }

    /// perf 6.4 and later, whose columns are those of a histogram.
    #[test]
    fn the_layout_with_nanoseconds_has_its_own_order_of_columns() {
        let table = only(
            "# Event name              Samples   Sample%    Time (ns)     Time%   Max Time (ns)   \
             Min Time (ns)  Mean Time (ns)\n\
             STORE_GUEST_PAGE_FAULT     26968     54.00%    2003031800    40.00%       3361400     \
             27600         74274.00\n\
             LOAD_GUEST_PAGE_FAULT      17645     35.00%    1153338100    23.00%       2513400     \
             30800         65363.00\n",
        );
        let store = numbers(&table, "STORE_GUEST_PAGE_FAULT");
        assert_eq!(store, (26_968, Some(2_003_031_800), Some(27_600), Some(3_361_400)));
        assert_eq!(table.exits(), 44_613);
    }

    #[test]
    fn accesses_are_no_reasons_and_names_may_have_blanks() {
        let msr = only(
            "MSR Access Samples  Samples% Time%  Min Time Max Time  Avg time\n\n\
             \x20 0x6e0:W   67007  98.17%   98.31%  0.59us   10.69us  0.90us ( +-  0.10% )\n\
             \x20 0x830:W    1186   1.74%    1.60%  0.53us  108.34us  0.82us ( +- 11.02% )\n\
             \x20  0x3b:R      66   0.10%    0.09%  0.56us    1.26us  0.80us ( +-  3.24% )\n\n\
             Total Samples:68259, Total events handled time:61150.95us.\n",
        );
        assert_eq!((msr.rows_are, &*msr.source), (ExitRows::Accesses, "perf kvm stat, MSR Access"));
        // 67 007 times 0.90 µs is 60 306 µs, but 98.31 % of the total is at most 60 120.56 µs.
        let (count, sum, ..) = numbers(&msr, "0x6e0:W");
        let sum = sum.unwrap();
        assert!(count == 67_007 && (60_114_000..60_121_000).contains(&sum), "{sum}");
        let s390 = only(
            "VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time\n\n\
             DIAG (0x44) time slice end   3  75.00%  50.00%  1.00us  1.00us  1.00us ( +-   0.00% )\n\
             Wait state   1  25.00%  50.00%  3.00us  3.00us  3.00us ( +-   0.00% )\n\n\
             Total Samples:4, Total events handled time:6.00us.\n",
        );
        assert_eq!(numbers(&s390, "DIAG (0x44) time slice end").1, Some(3_000));
        let ppc = only(
            "HCALL-EVENT    Samples  Samples%     Time%    Min Time    Max Time         Avg time\n\n\
             H_VIO_SIGNAL   123    66.85%     0.77%   2.38us   14.75us    2.86us ( +-   4.81% )\n\
             H_SEND_CRQ     61    33.15%    99.23%  18.56us  940.26us  742.00us ( +-   2.54% )\n",
        );
        assert_eq!((ppc.rows_are, ppc.exits()), (ExitRows::Accesses, 184));
    }

    /// A table in a mail: quoted, and without the rows that do not matter.
    #[test]
    fn a_quoted_table_says_what_it_leaves_out() {
        let table = only(
            "> > >              VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time     Avg \
             time\n> > >\n\
             > > >        EPT_VIOLATION     760998    54.85%     7.23%      0.92us  31765.89us      \
             7.78us ( +-   1.46% )\n\
             > > >            MSR_WRITE     170599    12.30%     0.53%      0.60us   3334.13us      \
             2.52us ( +-   0.86% )\n\
             > > > [..]\n> > >\n\
             > > > Total Samples:1387305, Total events handled time:81900258.99us.\n",
        );
        assert_eq!((table.exits(), table.sum_ns()), (1_387_305, 81_900_258_990));
        assert_eq!(table.row(LEFT_OUT).unwrap().count, 1_387_305 - 760_998 - 170_599);
        assert!(
            table.warnings[0].fact.contains("931597 of 1387305 samples"),
            "{:?}",
            table.warnings
        );
    }

    #[test]
    fn reasons_that_perf_does_not_know_are_numbers() {
        let row = |name: &str, samples: u64| {
            format!("{name}  {samples}  50.00%  50.00%  1.00us  9.00us  2.00us ( +-   1.00% )\n")
        };
        let header = "VM-EXIT Samples Samples% Time% Min Time Max Time Avg time\n\n";
        let code = |code: u64| format!("unknown kvm exit code:{code} on VMX\n");
        let text = header.to_owned()
            + &code(131_072)
            + &row("UNKNOWN", 3)
            + &code(327_680)
            + &row("UNKNOWN", 4);
        let table = only(&text);
        assert_eq!((numbers(&table, "0x20000").0, numbers(&table, "0x50000").0), (3, 4));
        // Without the lines of stderr nobody knows which is which.
        let table = only(&(header.to_owned() + &row("UNKNOWN", 3) + &row("UNKNOWN", 4)));
        let sum = numbers(&table, "UNKNOWN");
        assert_eq!(sum, (7, Some(14_000), Some(1_000), Some(9_000)));
    }

    #[test]
    fn what_perf_lost_is_said_also_where_it_warns_before_the_table() {
        let text = include_str!("../../../../tests/data/exits/perf-kvm-stat.txt");
        let warned = format!(
            "Warning:\nProcessed 10000 events and lost 3 chunks!\n\nCheck IO/CPU overload!\n\n{text}"
        );
        assert!(only(&warned).warnings[0].fact.contains("lost events 3 times"));
        assert!(only(text).warnings.is_empty());
    }

    /// `perf kvm stat live` clears the terminal, and then prints the time.
    #[test]
    fn each_refresh_of_live_is_a_table() {
        let one = |clock: &str, samples: u64, vcpu: &str| {
            format!(
                "\u{1b}[H\u{1b}[2J{clock}\n\nAnalyze events for pid(s) 4711, {vcpu}:\n\n\
                 VM-EXIT Samples Samples% Time% Min Time Max Time Avg time\n\n\
                 HLT {samples} 100.00% 100.00% 1.00us 9.00us 2.00us ( +-   1.00% )\n\n\
                 Total Samples:{samples}, Total events handled time:{}.00us.\n\n\nLost events: 2\n\n",
                samples * 2
            )
        };
        let text = one("10:11:12.123456", 3, "all VCPUs") + &one("10:11:13.123456", 4, "VCPU 1");
        let tables = read(&text).unwrap();
        let shown: Vec<_> = tables.iter().map(|table| (&*table.of, table.exits())).collect();
        assert_eq!(
            shown,
            [
                ("pid(s) 4711, all VCPUs at 10:11:12.123456", 3),
                ("pid(s) 4711, VCPU 1 at 10:11:13.123456", 4)
            ]
        );
        assert!(tables.iter().all(|table| table.warnings[0].fact.contains("lost events 2 times")));
    }

    #[test]
    fn a_table_that_does_not_add_up_is_an_error_with_its_line() {
        let header = "VM-EXIT Samples Samples% Time% Min Time Max Time Avg time\n\n";
        let row = "HLT 3 100.00% 100.00% 1.00us 9.00us 2.00us ( +-   1.00% )\n";
        let cut = "HLT 3 100.00% 100.00% 1.0\n";
        let total = "Total Samples:2, Total events handled time:6.00us.\n";
        for (text, line) in [([header, row, total], 1), ([header, row, cut], 4)] {
            let error = read(&text.concat()).unwrap_err();
            assert!(matches!(error, ExitsError::Damaged { line: at, .. } if at == line), "{error}");
        }
        let none = "Total Samples:0, Total events handled time:0.00us.\n";
        assert!(only(&(header.to_owned() + none)).rows.is_empty());
        assert!(
            !recognizes("Samples Samples% Time%\n") && !recognizes("VM-EXIT Samples of time\n")
        );
    }

    proptest! {
        #[test]
        fn any_rows_are_a_table_or_an_error(
            rows in prop::collection::vec(
                "[A-Z_ ()]{0,9} [0-9]{1,20} {1,3}[0-9]{1,3}(\\.[0-9]{0,3})?% [0-9.]{1,6}% \
                 [0-9]{0,21}\\.[0-9]{0,3}us [0-9]{1,19}us [0-9.]{1,9}us( \\( \\+- +[0-9.]{1,5}% \\))?",
                0..20,
            ),
            total in "(Total Samples:[0-9]{1,20}, Total events handled time:[0-9]{0,20}(\\.[0-9])?us)?",
        ) {
            let header = "VM-EXIT Samples Samples% Time% Min Time Max Time Avg time";
            let text = format!("{header}\n{}\n{total}\n", rows.join("\n"));
            for table in read(&text).unwrap_or_default() {
                let _ = (table.sum_ns(), table.exits());
            }
        }

        #[test]
        fn any_text_is_tables_or_an_error(
            words in prop::collection::vec(
                "VM-EXIT|Event name|Samples|Samples%|Sample%|Time%|Time|\\(ns\\)|Min|Max|Avg|Total \
                 Samples:|\u{1b}\\[2J|Lost events: |\n|> |[0-9]{0,20}|[0-9.]{1,9}us|[0-9.]{1,6}%|\\PC",
                0..60,
            ),
        ) {
            let _ = read(&words.join(" "));
        }
    }
}
