//! Forms of an exit table: columns of a page, bars of 100 %, the form of 2008; and two tables,
//! compared reason by reason.

use crate::exits::title;
use crate::exits::{VcpuTime, diff_headline, sum_ns};
use crate::number;
use crate::view::{
    ColumnKind, Columns, Fields, Legend, Line, Picture, Records, Report, Section, SideLine,
    StackedBar, Table, View,
};
use ktax_host::text::escape;
use ktax_model::{
    ExitEvents, ExitPair, ExitParts, ExitRow, ExitRows, ExitTable, SavedResult, exit_warnings,
};
use ktax_stats::tables::{average, checked_percent_change, share_percent, std_dev_from_sums};

/// Table of times and counts. A narrow page leaves out, in this order: the deviation, the minimum,
/// the quantiles, the maximum, the average, the share of exits. Columns that the source does not
/// have are always left out.
pub fn times_table(rows: &[&ExitRow], table: &ExitTable) -> Table {
    let has_row = |is_wanted: fn(&ExitRow) -> bool| rows.iter().any(|row| is_wanted(row));
    // KVM's statistics have at most the time of halts, and may have no reasons.
    let (has_extremes, has_times) = (table.is_timed(), has_row(ExitRow::is_timed));
    let has_quantiles = has_row(|row| row.p50_ns.is_some());
    // An exit passes through several phases, so shares of exits would not add up.
    let has_shares = has_row(ExitRow::is_reason) && table.rows_are != ExitRows::Phases;
    let us = |ns: f64| number::measured(ns / number::US);
    let optional_us = |ns: Option<u64>| ns.map(|ns| us(ns as f64));
    let time = |row: &ExitRow| row.is_timed().then(|| row.time_ns() as f64);
    let share = |ns: f64| format!("{:.2}", share_percent(ns, table.sum_ns() as f64));
    let mut columns = Columns::new(rows);
    columns.name("reason", |row| &row.reason);
    columns.number("sum %", |row| time(row).map(share)).keep_if(has_times);
    let sum = |row| time(row).map(|ns| number::whole(ns / number::US));
    columns.number("sum µs", sum).keep_if(has_times);
    columns.number("count", |row| number::whole(row.count as f64));
    let exits = |row: &ExitRow| share_percent(row.count as f64, table.exits() as f64);
    let exits = |row: &ExitRow| row.is_reason().then(|| format!("{:.2}", exits(row)));
    columns.number("count %", exits).drop_order(5).keep_if(has_shares);
    let rate = |row: &ExitRow| Some(number::measured(row.count as f64 / table.elapsed_s()?));
    columns.number("rate /s", rate).keep_if(table.elapsed_s().is_some());
    let mean = |row: &ExitRow| time(row).map(|ns| us(average(ns, row.count as f64)));
    columns.number("avg µs", mean).drop_order(4).keep_if(has_times);
    let deviation = |row: &ExitRow| deviation_ns(row).map(us);
    columns.number("stddev µs", deviation).drop_order(0).keep_if(has_extremes);
    columns.number("min µs", |row| optional_us(row.least_ns)).drop_order(1).keep_if(has_extremes);
    columns.number("p50 µs", |row| optional_us(row.p50_ns)).drop_order(2).keep_if(has_quantiles);
    columns.number("p99 µs", |row| optional_us(row.p99_ns)).drop_order(2).keep_if(has_quantiles);
    columns.number("max µs", |row| optional_us(row.most_ns)).drop_order(3).keep_if(has_extremes);
    columns.table()
}

/// Returns an empty table with columns of numbers for each reason.
pub fn reason_table(heads: &[&str]) -> Table {
    let numbers = heads.iter().map(|head| (*head, ColumnKind::Number));
    Table::new([("reason", ColumnKind::Name)].into_iter().chain(numbers))
}

/// Returns the standard deviation, ns; `None` if the source has no squares.
fn deviation_ns(row: &ExitRow) -> Option<f64> {
    std_dev_from_sums(row.count, row.sum_ns?, row.squares_ns2?)
}

/// Table of the parts of each row's time: in the guest, in the kernel, in the VMM, halted,
/// preempted.
pub fn parts_table(rows: &[&ExitRow], table: &ExitTable) -> Table {
    let us = |ns: u64| match ns {
        0 => String::new(),
        ns => number::whole(ns as f64 / number::US),
    };
    let line = |name: &str, columns: [u64; PARTS]| {
        Line::new([name.to_owned()].into_iter().chain(columns.map(us)))
    };
    let sums = rows.iter().map(|row| part_columns(row)).fold([0u64; PARTS], |mut sums, more| {
        sums.iter_mut().zip(more).for_each(|(sum, part)| *sum = sum.saturating_add(part));
        sums
    });
    let lines = rows.iter().map(|row| line(&row.reason, part_columns(row)));
    let lines = lines.chain([line("all", sums)]);
    // Empty parts are left out first, then the guest, whose time is in the guest's row.
    let empty: Vec<usize> = (1..=PARTS).filter(|column| sums[column - 1] == 0).collect();
    let guest = if empty.contains(&1) { vec![] } else { vec![1] };
    let heads =
        ["guest µs", "kernel µs", "VMM µs", "halted µs", "preempted µs", "unknown or halted µs"];
    let drop_groups = vec![empty, guest];
    let parts = Table { drop_groups, ..reason_table(&heads) }.with_lines(lines);
    // Without task switches, halted and preempted time is not known.
    match table.is_missing(ExitEvents::Scheduling) {
        true => parts.without_columns(&[4, 5]),
        false => parts.without_columns(&[6]),
    }
}

/// Number of columns of [`part_columns`].
const PARTS: usize = 6;

/// Returns the ns in the guest, in the kernel, in the VMM, halted, preempted, unknown or halted.
fn part_columns(row: &ExitRow) -> [u64; PARTS] {
    let no_parts = ExitParts::default();
    let part = row.parts.as_ref().unwrap_or(&no_parts);
    let (guest, kernel) = if row.is_guest { (part.kernel_ns, 0) } else { (0, part.kernel_ns) };
    let [halted, preempted, unknown] = part.waits_ns();
    [guest, kernel, part.user_ns, halted, preempted, unknown]
}

/// Maximum number of reasons with a part of their own in a bar.
const MAX_BAR_REASONS: usize = 6;

const BARS_HOW: &str = "The parts add up to all of the recorded time of the vCPUs.";

/// Returns a picture with one bar for each table that has times; empty if none has.
pub fn bars<'a>(tables: impl IntoIterator<Item = (String, &'a ExitTable)>) -> Section {
    let timed = tables.into_iter().filter(|(_, table)| table.is_timed() && table.sum_ns() > 0);
    let bars = timed.map(|(name, table)| StackedBar { name, parts: bar_parts(table) }).collect();
    Section::Picture {
        title: "Where the time of the vCPUs went".to_owned(),
        picture: Picture::Bars(bars),
        how: BARS_HOW.to_owned(),
    }
}

/// Returns the parts of a bar: in the guest, the exit reasons (without halted or preempted time),
/// other reasons, halted, preempted.
fn bar_parts(table: &ExitTable) -> Vec<(String, u64)> {
    let time = VcpuTime::sum(&[table], true);
    let (shown, others) = time.exits.split_at(time.exits.len().min(MAX_BAR_REASONS));
    let ends = [
        ("other reasons", sum_ns(others)),
        ("halted", time.halted),
        ("preempted", time.preempted),
        ("unknown or halted", time.unknown_ns()),
    ];
    let parts = [("in the guest", time.guest)].into_iter().chain(shown.iter().copied()).chain(ends);
    parts.filter(|(_, ns)| *ns > 0).map(|(name, ns)| (name.to_owned(), ns)).collect()
}

/// Prints a table in the form of kvmppc_timing.py of 2008: times in microseconds, in the source's
/// order.
pub fn exits_classic(table: &ExitTable, columns: ClassicColumns) -> String {
    let total_ns = table.sum_ns();
    let is_timed = table.rows.iter().any(ExitRow::is_timed);
    let sum = if is_timed { (total_ns / 1000).to_string() } else { UNKNOWN.to_owned() };
    let mut text = format!("sum of time {sum}{}\n", columns.runtime(total_ns, is_timed));
    text += columns.header();
    for row in table.rows.iter().filter(|row| row.count > 0) {
        let percent = share_percent(row.time_ns() as f64, total_ns as f64);
        text += &columns.row(row, (row.is_timed() && percent.is_finite()).then_some(percent));
    }
    text
}

const UNKNOWN: &str = "-";

/// Column layouts of the document of 2008.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassicColumns {
    /// Layout of the workloads in the wiki: averages with four decimals.
    Long,
    /// Layout of the tables before and after paravirtualization: averages with two decimals, and
    /// the length of the recording.
    Short,
}

impl ClassicColumns {
    fn header(self) -> &'static str {
        match self {
            ClassicColumns::Long => {
                "        type    count      min      max          sum              avg       \
                 stddev     %\n"
            }
            ClassicColumns::Short => {
                "               count  min    max       sum     avg   stddev      %\n"
            }
        }
    }

    fn runtime(self, total_ns: u64, is_timed: bool) -> String {
        let seconds = total_ns / 1_000_000_000;
        match self {
            ClassicColumns::Long => String::new(),
            ClassicColumns::Short if !is_timed => String::new(),
            ClassicColumns::Short => format!(" => ~{}:{:02} runtime", seconds / 60, seconds % 60),
        }
    }

    fn row(self, row: &ExitRow, percent: Option<f64>) -> String {
        let text = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
        let us = |ns: Option<u64>| text(ns.map(|ns| (ns / 1000).to_string()));
        let sum_ns = row.sum_ns.filter(|_| row.is_timed());
        let (name, count, sum) = (escape(&row.reason), row.count, us(sum_ns));
        let (least, most) = (us(row.least_ns), us(row.most_ns));
        let average_us = |ns: u64| format!("{:.4}", average((ns / 1000) as f64, count as f64));
        let average = text(sum_ns.map(average_us));
        let deviation = text(deviation_ns(row).map(|ns| format!("{:.3}", ns / number::US)));
        let percent = text(percent.map(|percent| format!("{percent:.2}")));
        match self {
            ClassicColumns::Long => format!(
                "{name:>11}: {count:>8} {least:>8} {most:>8} {sum:>12} {average:>16} \
                 {deviation:>12} {percent:>5}\n"
            ),
            ClassicColumns::Short => {
                // Two decimals of the four are cut off, not rounded.
                let cut = if average == UNKNOWN { UNKNOWN } else { &average[..average.len() - 2] };
                format!(
                    "{name:>11} {count:>8} {least:>4} {most:>6} {sum:>9} {cut:>7} {deviation:>8} \
                     {percent:>6}\n"
                )
            }
        }
    }
}

/// Two exit tables, compared reason by reason.
#[derive(Debug, Clone, Copy)]
pub struct ExitDiff<'a>(pub &'a ExitPair);

impl ExitDiff<'_> {
    fn scale(&self) -> ExitScale {
        ExitScale::new(&self.0.base, &self.0.change, self.0.totals)
    }
}

fn diff_title(base: &ExitTable, change: &ExitTable) -> String {
    let is_timed = base.is_timed() && change.is_timed();
    let by = if is_timed { "time" } else { "count" };
    format!("Exits by reason, largest change in {by} first")
}

/// Sentence that tells totals from rates, and how to get the other.
fn scale_sentence(pair: &ExitPair, scale: ExitScale) -> String {
    match scale {
        ExitScale::Seconds([base, change]) => format!(
            "Times and counts are normalised: they are for each second of the recording. The base \
             has {} s, and the change has {} s. If both did the same work, compare totals with \
             --totals.",
            number::measured(base),
            number::measured(change)
        ),
        ExitScale::Totals if pair.totals => {
            "Times and counts are totals, as if both recordings did the same work.".to_owned()
        }
        ExitScale::Totals => {
            "Times and counts are totals, because a table does not say how long was \
                          recorded. They only compare if both did the same work."
                .to_owned()
        }
    }
}

impl Report for ExitDiff<'_> {
    fn view(&self) -> View {
        let (ExitPair { base, change, .. }, scale) = (self.0, self.scale());
        let side = |side, table: &ExitTable| {
            let length =
                table.elapsed_s().map(|seconds| format!("{} s", number::measured(seconds)));
            SideLine { side, name: title(table), settings: length.unwrap_or_default() }
        };
        let sides = vec![side("base", base), side("change", change)];
        let has_lengths = sides.iter().any(|side| !side.settings.is_empty());
        View {
            title: diff_title(base, change),
            headline: diff_headline(base, change, scale),
            sides,
            side_heads: ["exits of", if has_lengths { "recorded" } else { "" }],
            sections: vec![
                bars([("base".to_owned(), base), ("change".to_owned(), change)]),
                Section::Table {
                    title: String::new(),
                    table: reasons_table(base, change, scale),
                    notes: vec![scale_sentence(self.0, scale)],
                },
            ],
            warnings: exit_warnings([base, change]),
            legend: Legend::default().with_terms([
                (
                    "time delta %",
                    "change minus base in percent of base: the total time of a reason",
                ),
                ("count delta %", "change minus base in percent of base: the count of a reason"),
            ]),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let (ExitPair { base, change, .. }, scale) = (self.0, self.scale());
        let percent = |(_, base, change): ReasonPair<'_>| {
            let [base, change] = scale.apply([base.1? as f64, change.1? as f64]);
            checked_percent_change(base, change)
        };
        let pairs = reason_pairs(base, change, scale);
        let mut fields = Fields::new(&pairs);
        fields.add("reason", |(reason, ..)| reason);
        fields.add("base_count", |(_, base, _)| base.0);
        fields.add("change_count", |(.., change)| change.0);
        fields.add("base_ns", |(_, base, _)| base.1);
        fields.add("change_ns", |(.., change)| change.1);
        fields.add("base_elapsed_ns", |_| base.elapsed_ns);
        fields.add("change_elapsed_ns", |_| change.elapsed_ns);
        fields.add("percent", percent);
        fields.records()
    }

    fn result(&self) -> SavedResult {
        SavedResult::ExitDiff(Box::new(self.0.clone()))
    }
}

/// ExitScale of the counts and times of two exit tables.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ExitScale {
    /// Totals of the recordings.
    Totals,
    /// Counts and times per second; the lengths of the recordings of base and change, s.
    Seconds([f64; 2]),
}

impl ExitScale {
    /// Returns the scale per second if both tables have a length, unless `totals` is true.
    pub fn new(base: &ExitTable, change: &ExitTable, totals: bool) -> ExitScale {
        match base.elapsed_s().zip(change.elapsed_s()) {
            Some((base, change)) if !totals => ExitScale::Seconds([base, change]),
            _ => ExitScale::Totals,
        }
    }

    pub fn apply(self, values: [f64; 2]) -> [f64; 2] {
        match self {
            ExitScale::Totals => values,
            ExitScale::Seconds([base, change]) => [values[0] / base, values[1] / change],
        }
    }

    /// Returns the unit of a scaled value after a space: ` µs/s`; empty for a total without a unit.
    pub fn unit(self, unit: &str) -> String {
        let per = if self == ExitScale::Totals { "" } else { "/s" };
        let unit = format!("{unit}{per}");
        if unit.is_empty() { unit } else { format!(" {unit}") }
    }
}

/// Count, and total time in ns; `None` for a time that was not measured.
type CountAndSum = (u64, Option<u64>);

/// Name of a reason, its count and time in the base and in the change.
type ReasonPair<'a> = (&'a str, CountAndSum, CountAndSum);

/// Returns the total time of a reason, ns; `None` if it was not measured: KVM's statistics only
/// have the time of halts.
pub fn reason_time_ns(table: &ExitTable, reason: &str) -> Option<u64> {
    let row = table.row(reason);
    let is_measured = table.is_timed() || row.is_some_and(ExitRow::is_timed);
    is_measured.then(|| row.map_or(0, ExitRow::time_ns))
}

/// Returns the reasons of both tables, the largest change of time first; without times, the largest
/// change of counts first.
fn reason_pairs<'a>(
    base: &'a ExitTable,
    change: &'a ExitTable,
    scale: ExitScale,
) -> Vec<ReasonPair<'a>> {
    let only_in_change = change.rows.iter().filter(|row| base.row(&row.reason).is_none());
    let names = base.rows.iter().chain(only_in_change).map(|row| row.reason.as_str());
    let count_and_sum = |table: &ExitTable, reason: &str| -> CountAndSum {
        (table.row(reason).map_or(0, |row| row.count), reason_time_ns(table, reason))
    };
    let mut rows: Vec<ReasonPair<'a>> = names
        .map(|reason| (reason, count_and_sum(base, reason), count_and_sum(change, reason)))
        .collect();
    rows.retain(|(_, base, change)| base.0 > 0 || change.0 > 0);
    let size = |(_, base, change): &ReasonPair<'_>| {
        let difference = |values: [u64; 2]| {
            let [base, change] = scale.apply(values.map(|value| value as f64));
            (base - change).abs()
        };
        let time = base.1.zip(change.1).map_or(0.0, |(base, change)| difference([base, change]));
        (time, difference([base.0, change.0]))
    };
    let by_size = |pair: &ReasonPair<'_>, other: &ReasonPair<'_>| {
        let ((time, count), (other_time, other_count)) = (size(pair), size(other));
        other_time.total_cmp(&time).then(other_count.total_cmp(&count))
    };
    rows.sort_by(by_size);
    rows
}

/// Table of the times and counts of all reasons, and of their sum.
pub fn reasons_table(base: &ExitTable, change: &ExitTable, scale: ExitScale) -> Table {
    let format_value = if scale == ExitScale::Totals { number::whole } else { number::measured };
    let side = |values: [Option<f64>; 2], index: usize| {
        let scaled = scale.apply(values.map(Option::unwrap_or_default));
        values[index].map(|_| format_value(scaled[index]))
    };
    let percent = |[base, change]: [Option<f64>; 2]| {
        let [base, change] = scale.apply([base?, change?]);
        Some(number::percent(checked_percent_change(base, change)))
    };
    let times = |(_, base, change): ReasonPair<'_>| {
        [base.1, change.1].map(|ns| Some(ns? as f64 / number::US))
    };
    let counts =
        |(_, base, change): ReasonPair<'_>| [base.0, change.0].map(|count| Some(count as f64));
    // The rows of the guest count entries, not exits.
    let total = |table: &ExitTable| (table.exits(), table.is_timed().then(|| table.sum_ns()));
    let all = ("all", total(base), total(change));
    let rows: Vec<ReasonPair<'_>> =
        reason_pairs(base, change, scale).into_iter().chain([all]).collect();
    let has_times = rows.iter().any(|(_, base, change)| base.1.or(change.1).is_some());
    let [time, count] = [scale.unit("µs"), scale.unit("")];
    let count = if count.is_empty() { " count".to_owned() } else { count };
    let mut columns = Columns::new(&rows);
    columns.name("reason", |(name, ..)| name);
    // A narrow page leaves out the counts first, then their delta, then the time of the base.
    columns
        .number(&format!("base{time}"), |row| side(times(row), 0))
        .drop_order(2)
        .keep_if(has_times);
    columns.number(&format!("change{time}"), |row| side(times(row), 1)).keep_if(has_times);
    columns.number("time delta %", |row| percent(times(row))).keep_if(has_times);
    columns.number(&format!("base{count}"), |row| side(counts(row), 0)).drop_order(0);
    columns.number(&format!("change{count}"), |row| side(counts(row), 1)).drop_order(0);
    columns.number("count delta %", |row| percent(counts(row))).drop_order(1);
    columns.table()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_bar_add_up_to_the_recorded_time() {
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
