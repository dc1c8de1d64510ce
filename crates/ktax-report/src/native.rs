//! Reports of results on the running kernel: of workloads, and of the performance counters of a
//! command in the form of the mail of 2009.

use crate::number::{count, measured, percent, percent_range, whole};
use crate::view::{
    Columns, FailureReason, Fields, Legend, Records, Report, Section, SideLine, Table, View,
};
use crate::{shapes, words};
use ktax_host::text::{counted, shell_line};
use ktax_model::{
    ELAPSED, Failure, NativeColumn, NativeRow, NativeTable, Repeats, STAT_COUNTERS, SavedResult,
    Side, StatCounter, StatRow, StatTable, Summary,
};

impl Report for NativeTable {
    fn view(&self) -> View {
        let mut sections = match self.rows.as_slice() {
            [row] => row_sections(self, row),
            _ => vec![rows_table(self)],
        };
        sections.push(failures(self));
        sections.extend(shapes::native_counters(self));
        sections.push(Section::sentences(self.growth.iter().map(words::growth)));
        View {
            title: format!("{}, per operation: {}", self.title, self.operation),
            headline: headline(self),
            how: format!(
                "Linux {} · {} · each sample is a fresh process",
                self.release,
                counted(self.cpus, "CPU")
            ),
            sections,
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let lines: Vec<MeasuredColumn<'_>> =
            self.rows.iter().flat_map(|row| measured_columns(self, row)).collect();
        let failures: Vec<Option<String>> =
            lines.iter().map(|(row, _)| row.failure.as_ref().map(ToString::to_string)).collect();
        let lines: Vec<(MeasuredColumn<'_>, &Option<String>)> =
            lines.into_iter().zip(&failures).collect();
        let column = |((_, measured), _): (MeasuredColumn<'_>, _)| {
            measured.map(|(column, _)| column.clone())
        };
        let cell =
            |((_, measured), _): (MeasuredColumn<'_>, _)| measured.map(|(_, cell)| cell.clone());
        let mut fields = Fields::new(&lines);
        fields.add("row", |((row, _), _)| &row.workload.row);
        fields.add("column", |line| column(line).map(|column| column.name));
        fields.add("unit", |line| column(line).map(|column| column.unit));
        fields.add("median", |line| cell(line).map(|cell| cell.median));
        fields.add("min", |line| cell(line).map(|cell| cell.least));
        fields.add("max", |line| cell(line).map(|cell| cell.most));
        fields.add("samples", |line| cell(line).map(|cell| cell.samples.len()));
        fields.add("failure", |(_, failure)| failure.as_ref());
        fields.add_all("sample", |((_, measured), _)| {
            measured.map_or(&[], |(_, cell)| &cell.samples)
        });
        fields.records()
    }

    fn result(&self) -> SavedResult {
        SavedResult::Native(Box::new(self.clone()))
    }
}

/// Row with one of its columns; `None` for a row without measured columns.
type MeasuredColumn<'a> = (&'a NativeRow, Option<(&'a NativeColumn, &'a Summary)>);

fn measured_columns<'a>(table: &'a NativeTable, row: &'a NativeRow) -> Vec<MeasuredColumn<'a>> {
    let cells = table.columns.iter().zip(&row.cells);
    let cells = cells.filter_map(|(column, cell)| Some((row, Some((column, cell.as_ref()?)))));
    let cells: Vec<MeasuredColumn<'_>> = cells.collect();
    if cells.is_empty() { vec![(row, None)] } else { cells }
}

fn headline(table: &NativeTable) -> String {
    let Some(column) = table.columns.first() else { return String::new() };
    let with_unit =
        |value: f64| format!("{} {}", measured(value), column.unit).trim_end().to_owned();
    let cells = table.rows.iter().filter_map(|row| Some((row, row.cells.first()?.as_ref()?)));
    let mut measured_rows: Vec<(&NativeRow, &Summary)> = cells.collect();
    measured_rows.sort_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    let heading = &column.heading;
    let mut sentence = match measured_rows.as_slice() {
        [] => String::new(),
        [(row, cell)] => format!(
            "{}: {heading} {} (median of {}; {} to {})",
            row.workload.row,
            with_unit(cell.median),
            counted(cell.samples.len(), "sample"),
            measured(cell.least),
            measured(cell.most),
        ),
        [(first, smallest), .., (last, largest)] => format!(
            "{heading} from {} ({}) to {} ({})",
            with_unit(smallest.median),
            first.workload.row,
            with_unit(largest.median),
            last.workload.row,
        ),
    };
    let failed = table.rows.iter().filter(|row| row.failure.is_some()).count();
    if failed > 0 {
        let rows = counted(table.rows.len(), "row");
        sentence = format!("{sentence}; {failed} of {rows} failed");
    }
    sentence.trim_start_matches("; ").to_owned()
}

fn row_sections(table: &NativeTable, row: &NativeRow) -> Vec<Section> {
    let cells = || table.columns.iter().zip(&row.cells);
    let lines = cells().filter_map(|(column, cell)| Some((column, cell.as_ref()?)));
    let lines: Vec<(&NativeColumn, &Summary)> = lines.collect();
    let mut columns = Columns::new(&lines);
    columns.words("quantity", |(column, _)| &column.heading);
    columns.words("unit", |(column, _)| &column.unit);
    columns.number("median", |(_, cell)| measured(cell.median));
    columns.number("min", |(_, cell)| measured(cell.least));
    columns.number("max", |(_, cell)| measured(cell.most));
    columns.number("samples", |(_, cell)| cell.samples.len());
    let mut sections = vec![Section::table(columns.table())];
    if let Some((column, Some(cell))) = cells().next() {
        let samples: Vec<String> = cell.samples.iter().map(|value| measured(*value)).collect();
        let samples = samples.join("  ");
        let samples = format!("{} of each sample, in order: {samples}", column.heading);
        sections.push(Section::Sentences(vec![samples]));
        let original = table.original.as_ref().map(|original| match column.unit.as_str() {
            "µs" => format!("{original}: {:.4} microseconds", cell.median),
            unit => format!("{original}: {:.2} {unit}", cell.median),
        });
        sections.push(Section::sentences(original));
    }
    sections
}

fn rows_table(table: &NativeTable) -> Section {
    let rows: Vec<&NativeRow> = table.rows.iter().collect();
    let mut columns = Columns::new(&rows);
    columns.row("row", |row| &row.workload.row);
    columns.number("samples", |row| row.samples.len());
    for (index, NativeColumn { heading, unit, .. }) in table.columns.iter().enumerate() {
        let head = format!("{heading}\n{unit}");
        columns.number(head.trim_end(), |row| match row.cells.get(index) {
            Some(Some(cell)) => measured(cell.median),
            _ => "–".to_owned(),
        });
    }
    columns.table().with_note("", "Each number is the median of the samples.")
}

/// Section of the rows that failed, with the next step.
fn failures(table: &NativeTable) -> Section {
    let failed = table.rows.iter().filter_map(|row| Some((row, row.failure.as_ref()?)));
    let failed = failed.map(|(row, failure): (&NativeRow, &Failure)| FailureReason {
        rows: vec![row.workload.row.clone()],
        why: failure.to_string(),
        next_step: failure.native_next_step().into_owned(),
        ..FailureReason::default()
    });
    Section::Reasons { title: "Failed:".to_owned(), reasons: failed.collect() }
}

/// Report of performance counters.
#[derive(Debug, Clone, Copy)]
pub struct StatPage<'a> {
    pub table: &'a StatTable,
    /// True if the page lists the values of all runs.
    pub values: bool,
}

impl Report for StatPage<'_> {
    fn view(&self) -> View {
        stat_view(self.table, self.values)
    }

    fn records(&self) -> Records {
        self.table.records()
    }

    fn result(&self) -> SavedResult {
        self.table.result()
    }
}

impl Report for StatTable {
    fn view(&self) -> View {
        stat_view(self, false)
    }

    fn records(&self) -> Records {
        let lines: Vec<RecordLine<'_>> =
            self.rows.iter().flat_map(|row| record_lines(self, row)).collect();
        // The change is computed from both commands; it is in the line of the second.
        let change = |line: RecordLine<'_>| line.0.change.filter(|_| line.1 == Side::Change.name());
        let ends = |line| change(line).and_then(|change| change.interval_percent);
        let interval = |(_, _, values): RecordLine<'_>| values?.interval;
        let mut fields = Fields::new(&lines);
        fields.add("counter", |(row, ..)| &row.counter);
        fields.add("unit", |(row, ..)| &row.unit);
        fields.add("side", |(_, side, values)| values.map(|_| side));
        fields.add("mean", |(.., values)| values.map(|values| values.mean));
        fields.add("median", |(.., values)| values.map(|values| values.median));
        fields
            .add("spread_percent", |(.., values)| values.and_then(|values| values.spread_percent));
        fields.add("median_low", |line| interval(line).map(|interval| interval.low));
        fields.add("median_high", |line| interval(line).map(|interval| interval.high));
        fields.add("counted_percent", |(.., values)| values.map(|values| values.counted_percent));
        fields.add("change_percent", |line| change(line).map(|change| change.percent));
        fields.add("change_low", |line| ends(line).map(|[low, _]| low));
        fields.add("change_high", |line| ends(line).map(|[_, high]| high));
        fields.add("not_counted", |(row, ..)| row.uncounted.as_ref());
        for run in 0..self.runs {
            fields.add(format!("value_{run}"), |(.., values)| values?.values.get(run).copied());
        }
        fields.records()
    }

    fn result(&self) -> SavedResult {
        SavedResult::Stat(Box::new(self.clone()))
    }
}

/// Counter, side, and the counter's values on the side; `None` for a counter without values.
type RecordLine<'a> = (&'a StatRow, &'static str, Option<&'a Repeats>);

fn record_lines<'a>(table: &StatTable, row: &'a StatRow) -> Vec<RecordLine<'a>> {
    let names = match table.commands.len() {
        2 => Side::BOTH.map(Side::name),
        _ => [""; 2],
    };
    match row.repeats.as_slice() {
        [] => vec![(row, "", None)],
        all => names.into_iter().zip(all).map(|(side, values)| (row, side, Some(values))).collect(),
    }
}

/// Builds the page: the counters, failed runs, counters that were not counted, and with
/// `with_values` the values of all runs.
fn stat_view(table: &StatTable, with_values: bool) -> View {
    let lines: Vec<String> =
        table.commands.iter().map(|command| shell_line(&command.words)).collect();
    let (title, how) = match (lines.as_slice(), table.seed) {
        ([_, _], Some(seed)) => {
            let pairs = counted(table.runs, "pair");
            let how = format!("{pairs} in randomized order (seed {seed})");
            ("Performance counter stats".to_owned(), how)
        }
        _ => {
            let title = format!("Performance counter stats for `{}`", lines.join(" "));
            (title, counted(table.runs, "run"))
        }
    };
    let is_pair = lines.len() == 2 && table.seed.is_some();
    let sides = Side::BOTH.into_iter().zip(lines).filter(|_| is_pair);
    let side = |(side, name): (Side, String)| SideLine {
        side: side.name(),
        name,
        settings: String::new(),
    };
    let cpus = counted(table.cpus, "CPU");
    View {
        title,
        headline: stat_headline(table),
        sides: sides.map(side).collect(),
        side_heads: ["command", ""],
        how: format!("{how} · Linux {} · {cpus}", table.release),
        sections: vec![
            Section::table(counters_table(table)),
            Section::Sentences(failed_runs(table)),
            Section::Sentences(uncounted(table)),
            Section::Sentences(if with_values { all_values(table) } else { Vec::new() }),
        ],
        legend: legend(table),
        ..View::default()
    }
}

/// Counters of the headline, in this order.
const HEADLINE_COUNTERS: [&str; 3] = ["elapsed", "task-clock", "instructions"];

/// Headline: `time elapsed +3.72 % (interval +3.40…4.05), task clock +0.10 % (…: no change
/// detected)`, or the means of a single command; then the number of failed runs of each command.
fn stat_headline(table: &StatTable) -> String {
    let rows = HEADLINE_COUNTERS
        .iter()
        .filter_map(|name| table.rows.iter().find(|row| row.counter == *name));
    let rows: Vec<&StatRow> = rows.collect();
    let mut parts: Vec<String> = match table.commands.len() {
        2 => rows.iter().filter_map(|row| changed_text(row)).collect(),
        _ => rows.iter().filter_map(|row| mean_text(row)).collect(),
    };
    let lacks_interval =
        |row: &&StatRow| row.change.is_some_and(|change| change.interval_percent.is_none());
    if rows.iter().any(lacks_interval) {
        parts.push("too few runs for an interval".to_owned());
    }
    for (command, side) in table.commands.iter().zip(Side::BOTH) {
        let of_side = if table.commands.len() == 2 {
            format!(" of the {}", side.name())
        } else {
            String::new()
        };
        if !command.failures.is_empty() {
            let runs = counted(table.runs, "run");
            parts.push(format!("{} of {runs}{of_side} failed", command.failures.len()));
        }
    }
    parts.join(", ")
}

/// Splits the title of a counter into its name and its unit: `task clock` and ` msecs`. The unit
/// may be empty.
fn counter_name(row: &StatRow) -> (&'static str, String) {
    match row_counter(row).title.strip_suffix(')').and_then(|title| title.split_once(" (")) {
        Some((name, unit)) => (name, format!(" {unit}")),
        None => (row_counter(row).title, String::new()),
    }
}

/// Formats the change of a counter. It is estimated from the pairs, so it may differ from the
/// change of the means.
fn changed_text(row: &StatRow) -> Option<String> {
    let change = row.change?;
    let (name, _) = counter_name(row);
    let change_percent = percent(Some(change.percent));
    Some(match change.interval_percent {
        None => format!("{name} {change_percent} %"),
        Some(ends @ [low, high]) if low <= 0.0 && 0.0 <= high => {
            let interval = shown_range(ends);
            format!("{name} {change_percent} % (interval {interval}: no change detected)")
        }
        Some(ends) => format!("{name} {change_percent} % (interval {})", shown_range(ends)),
    })
}

fn mean_text(row: &StatRow) -> Option<String> {
    let (name, unit) = counter_name(row);
    let mean = shown_value(row_counter(row), row.repeats.first()?.mean);
    Some(format!("{name} {mean}{unit}"))
}

/// Table with a line for each counter. Lines of parts, such as user time, belong to the line above.
/// A narrow page leaves out the interval.
fn counters_table(table: &StatTable) -> Table {
    let rows: Vec<&StatRow> = table.rows.iter().collect();
    let has_interval =
        rows.iter().any(|row| row.change.is_some_and(|change| change.interval_percent.is_some()));
    let mean = |command: usize| {
        move |row: &StatRow| match row.repeats.get(command) {
            Some(values) => shown_value(row_counter(row), values.mean),
            None => "not counted here".to_owned(),
        }
    };
    let is_pair = table.commands.len() == 2;
    let mut columns = Columns::new(&rows);
    match (is_pair, table.runs > 1) {
        (true, _) => {
            columns.number("base", mean(0));
            columns.number("change", mean(1));
        }
        (false, several) => {
            columns.number(if several { "mean" } else { "count" }, mean(0));
        }
    }
    let counter = columns.words("counter", |row| {
        let scaled = if counted_share(row).is_some() { ", scaled" } else { "" };
        format!("{}{scaled}", row_counter(row).title)
    });
    counter.wrap_last();
    match (is_pair, table.runs > 1) {
        (true, _) => {
            let change = |row: &StatRow| Some(percent(Some(row.change?.percent)));
            columns.number("change %", change);
            let interval = |row: &StatRow| row.change?.interval_percent.map(shown_range);
            columns.words("interval\n(95 %)", interval).drop_order(0).keep_if(has_interval);
        }
        (false, true) => {
            let spread = |row: &StatRow| row.repeats.first()?.spread_percent.map(shown_spread);
            columns.number("spread %", spread);
            let interval = |row: &StatRow| median_interval(row.repeats.first()?);
            columns.words("median within\n%", interval).drop_order(0);
        }
        (false, false) => {}
    }
    columns.with_parts(|row| !row_counter(row).is_headline)
}

/// Formats the confidence interval of the median, in percent of the median.
fn median_interval(values: &Repeats) -> Option<String> {
    let interval = values.interval?;
    let ends = [interval.low, interval.high].map(|end| (end / values.median - 1.0) * 100.0);
    ends.iter().all(|end| end.is_finite()).then(|| shown_range(ends))
}

fn failed_runs(table: &StatTable) -> Vec<String> {
    let failed = table.commands.iter().filter_map(|command| {
        let (first, failed) = (command.failures.first()?, command.failures.len());
        let (runs, line) = (counted(table.runs, "run"), shell_line(&command.words));
        Some(format!("{failed} of {runs} of `{line}` failed; the first failed with {first}"))
    });
    failed.collect()
}

/// Sentences about counters that were counted for a part of the time or not at all. Counters with
/// the same reason share a sentence.
fn uncounted(table: &StatTable) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &table.rows {
        let Some(reason) = &row.uncounted else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, counters)) => counters.push(&row.counter),
            None => reasons.push((reason, vec![&row.counter])),
        }
    }
    let line = |(reason, counters): (&str, Vec<&str>)| {
        format!("Not counted here: {}: {reason}.", counters.join(", "))
    };
    let scaled = table.rows.iter().filter_map(|row| {
        let (counter, share) = (&row.counter, counted_share(row)?);
        let why = "the CPU has too few counters";
        Some(format!("Scaled: {why}, so {counter} was counted for {share:.1} % of the time."))
    });
    scaled.chain(reasons.into_iter().map(line)).collect()
}

/// Lists the values of all runs, from the smallest to the largest, as the postscript of the mail of
/// 2009.
fn all_values(table: &StatTable) -> Vec<String> {
    let names: &[&str] = if table.commands.len() == 2 { &[", base", ", change"] } else { &[""] };
    let row_values = |row: &StatRow| -> Vec<String> {
        let counter = row_counter(row);
        let repeats = row.repeats.iter().zip(names).filter(|_| counter.is_headline);
        let line = |(values, name): (&Repeats, &&str)| {
            let sorted: Vec<String> =
                values.sorted.iter().map(|value| shown_value(counter, *value)).collect();
            let spread =
                values.spread_percent.map(|value| format!("; spread {} %", shown_spread(value)));
            let (title, sorted) = (counter.title, sorted.join("  "));
            format!("{title}{name}: {sorted}{}", spread.unwrap_or_default())
        };
        repeats.map(line).collect()
    };
    table.rows.iter().flat_map(row_values).collect()
}

fn legend(table: &StatTable) -> Legend {
    let interval = table.rows.iter().find_map(|row| row.repeats.first()?.interval);
    let spread = ("spread %", "how far the largest value is above the smallest".to_owned());
    Legend::default().with_terms(match (table.commands.len() == 2, table.runs, interval) {
        (false, 1, _) => vec![],
        (true, ..) => vec![
            ("base, change", "means over the runs".to_owned()),
            (
                "change %",
                "estimate from the ratios of the pairs, for each row; empty if a value is 0"
                    .to_owned(),
            ),
            ("interval", "confidence interval of the change; it needs six pairs".to_owned()),
        ],
        (false, runs, Some(interval)) => {
            let level = interval.level_percent;
            let within = format!(
                "confidence interval of the median, in percent of the median ({level:.1} % for \
                 {runs} independent runs)"
            );
            vec![spread, ("median within", within)]
        }
        (false, _, None) => {
            vec![
                spread,
                (
                    "median within",
                    "confidence interval of the median; it needs six runs".to_owned(),
                ),
            ]
        }
    })
}

fn row_counter(row: &StatRow) -> &'static StatCounter {
    let is_counter = |counter: &&StatCounter| counter.name == row.counter;
    STAT_COUNTERS.iter().find(is_counter).unwrap_or(&ELAPSED)
}

/// Formats the value of a counter; times are in milliseconds.
fn shown_value(counter: &StatCounter, value: f64) -> String {
    match counter.unit {
        "ns" => count(value / 1e6),
        _ if value.fract() == 0.0 => whole(value),
        _ => measured(value),
    }
}

/// Formats a spread, which is in percent.
fn shown_spread(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.2}") }
}

/// Formats a range, which is in percent.
fn shown_range([low, high]: [f64; 2]) -> String {
    percent_range(Some(low), Some(high))
}

/// Returns the percentage of the time for which a counter was counted; `None` if this rounds to
/// 100.0.
fn counted_share(row: &StatRow) -> Option<f64> {
    let percent = row.repeats.iter().map(|values| values.counted_percent).fold(100.0, f64::min);
    (percent < 99.95).then_some(percent)
}
