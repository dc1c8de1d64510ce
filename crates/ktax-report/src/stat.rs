//! Counters of a command: the two-column table of 2009, and its postscript.

use crate::number::{count, measured, percent, percent_range, whole};
use crate::view::{Kind, Legend, Line, Records, Report, Section, SideLine, Table, Value, View};
use ktax_host::text::{counted, shell_line};
use ktax_model::{
    ELAPSED, Repeats, STAT_COUNTERS, SavedResult, Side, StatCounter, StatRow, StatTable,
};

/// Table of counters, with or without all values below it.
#[derive(Debug, Clone, Copy)]
pub struct StatPage<'a> {
    /// Table of counters.
    pub table: &'a StatTable,
    /// Whether all values are shown.
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

    /// Writes one line for each counter and command, with all values in the order of the runs.
    fn records(&self) -> Records {
        let values = (0..self.runs).map(|run| format!("value_{run}"));
        let mut records = Records::new(COLUMNS.map(str::to_owned).into_iter().chain(values));
        for row in &self.rows {
            for (repeats, side) in row.repeats.iter().zip(side_names(self)) {
                let fixed = record_line(row, side, repeats);
                records.push(
                    fixed.into_iter().chain(repeats.values.iter().map(|value| (*value).into())),
                );
            }
            if row.repeats.is_empty() {
                let nothing = std::iter::repeat_n(Value::Nothing, 10);
                let names = [(&row.counter).into(), (&row.unit).into()];
                records
                    .push(names.into_iter().chain(nothing).chain([row.uncounted.as_ref().into()]));
            }
        }
        records
    }

    fn result(&self) -> SavedResult {
        SavedResult::Stat(Box::new(self.clone()))
    }
}

/// Shows the counters, what could not be counted, and all values if `with_values`.
fn stat_view(table: &StatTable, with_values: bool) -> View {
    let lines: Vec<String> =
        table.commands.iter().map(|command| shell_line(&command.words)).collect();
    let (title, sides, how) = match (lines.as_slice(), table.seed) {
        ([base, change], Some(seed)) => {
            let side = |side: Side, line: &String| SideLine {
                side: side.name(),
                what: line.clone(),
                beside: String::new(),
            };
            let pairs = counted(table.runs, "pair");
            let how = format!("{pairs} in randomized order (seed {seed})");
            let sides = vec![side(Side::Base, base), side(Side::Change, change)];
            ("Performance counter stats".to_owned(), sides, how)
        }
        _ => {
            let title = format!("Performance counter stats for `{}`", lines.join(" "));
            (title, Vec::new(), counted(table.runs, "run"))
        }
    };
    let cpus = counted(table.cpus, "CPU");
    View {
        title,
        headline: headline(table),
        sides,
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
const NAMED: [&str; 3] = ["elapsed", "task-clock", "instructions"];

/// Answer: `time elapsed +3.72 % (interval +3.40…4.05), task clock +0.10 % (…: no change
/// detected)`; of one command the means, and of each how many runs failed.
fn headline(table: &StatTable) -> String {
    let rows = NAMED.iter().filter_map(|name| table.rows.iter().find(|row| row.counter == *name));
    let rows: Vec<&StatRow> = rows.collect();
    let mut parts: Vec<String> = match table.commands.len() {
        2 => rows.iter().filter_map(|row| changed_text(row)).collect(),
        _ => rows.iter().filter_map(|row| mean_text(row)).collect(),
    };
    let has_none =
        |row: &&StatRow| row.change.is_some_and(|change| change.interval_percent.is_none());
    if rows.iter().any(has_none) {
        parts.push("too few runs for an interval".to_owned());
    }
    for (command, side) in table.commands.iter().zip(Side::BOTH) {
        let whose = if table.commands.len() == 2 {
            format!(" of the {}", side.name())
        } else {
            String::new()
        };
        if !command.failures.is_empty() {
            let runs = counted(table.runs, "run");
            parts.push(format!("{} of {runs}{whose} failed", command.failures.len()));
        }
    }
    parts.join(", ")
}

/// Returns a counter's name, and its unit where the screen has one.
fn counter_name(row: &StatRow) -> (&'static str, String) {
    match row_counter(row).title.strip_suffix(')').and_then(|title| title.split_once(" (")) {
        Some((name, unit)) => (name, format!(" {unit}")),
        None => (row_counter(row).title, String::new()),
    }
}

/// Change of a counter by its pairs, which need not be that of the means.
fn changed_text(row: &StatRow) -> Option<String> {
    let change = row.change?;
    let (name, _) = counter_name(row);
    let by = percent(Some(change.percent));
    Some(match change.interval_percent {
        None => format!("{name} {by} %"),
        Some(ends @ [low, high]) if low <= 0.0 && 0.0 <= high => {
            format!("{name} {by} % (interval {}: no change detected)", shown_range(ends))
        }
        Some(ends) => format!("{name} {by} % (interval {})", shown_range(ends)),
    })
}

fn mean_text(row: &StatRow) -> Option<String> {
    let (name, unit) = counter_name(row);
    let mean = shown_value(row_counter(row), row.repeats.first()?.mean);
    Some(format!("{name} {mean}{unit}"))
}

const COUNTER: (&str, Kind) = ("counter", Kind::Words);

/// Table with a line for each counter; a part belongs to the whole above it.
fn counters_table(table: &StatTable) -> Table {
    let has_interval = table
        .rows
        .iter()
        .any(|row| row.change.is_some_and(|change| change.interval_percent.is_some()));
    let columns: &[(&str, Kind)] = match (table.commands.len() == 2, table.runs > 1) {
        (true, _) if has_interval => &[
            ("base", Kind::Number),
            ("change", Kind::Number),
            COUNTER,
            ("change %", Kind::Number),
            ("interval\n(95 %)", Kind::Words),
        ],
        (true, _) => {
            &[("base", Kind::Number), ("change", Kind::Number), COUNTER, ("change %", Kind::Number)]
        }
        (false, true) => &[
            ("mean", Kind::Number),
            COUNTER,
            ("spread %", Kind::Number),
            ("median within\n%", Kind::Words),
        ],
        (false, false) => &[("count", Kind::Number), COUNTER],
    };
    let lines = table.rows.iter().map(|row| counter_line(row, table.commands.len(), columns.len()));
    // The interval is the precision; the change stays.
    let interval = columns.iter().rposition(|column| column.1 == Kind::Words && *column != COUNTER);
    let gives_way = interval.into_iter().map(|column| vec![column]).collect();
    let wraps = columns.iter().position(|column| *column == COUNTER).unwrap_or(0);
    let empty = Table::new(columns.iter().copied());
    Table { gives_way, wraps, ..empty }.with(lines)
}

fn counter_line(row: &StatRow, commands: usize, columns: usize) -> Line {
    let counter = row_counter(row);
    let mut cells: Vec<String> =
        row.repeats.iter().map(|seen| shown_value(counter, seen.mean)).collect();
    cells.resize(commands, "not counted here".to_owned());
    let scaled = if counted_share(row).is_some() { ", scaled" } else { "" };
    cells.push(format!("{}{scaled}", counter.title));
    if let Some(change) = row.change {
        cells.push(percent(Some(change.percent)));
        cells.extend(change.interval_percent.map(shown_range));
    } else if let [seen] = row.repeats.as_slice() {
        cells.push(seen.spread_percent.map_or(String::new(), shown_spread));
        cells.push(median_within(seen).unwrap_or_default());
    }
    cells.resize(columns, String::new());
    Line { is_part: !counter.headline, ..Line::new(cells) }
}

/// Confidence interval of the median, in percent of itself.
fn median_within(seen: &Repeats) -> Option<String> {
    let interval = seen.interval?;
    let ends = [interval.low, interval.high].map(|end| (end / seen.median - 1.0) * 100.0);
    ends.iter().all(|end| end.is_finite()).then(|| shown_range(ends))
}

/// Sentences about runs that failed.
fn failed_runs(table: &StatTable) -> Vec<String> {
    let failed = table.commands.iter().filter_map(|command| {
        let (first, failed) = (command.failures.first()?, command.failures.len());
        let (runs, line) = (counted(table.runs, "run"), shell_line(&command.words));
        Some(format!("{failed} of {runs} of `{line}` failed; the first failed with {first}"))
    });
    failed.collect()
}

/// Sentences about counters that were counted a part of the time or not at all, each reason once.
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

/// Lists all values, as the postscript of 2009 has them: from the least to the most.
fn all_values(table: &StatTable) -> Vec<String> {
    let names: &[&str] = if table.commands.len() == 2 { &[", base", ", change"] } else { &[""] };
    let row_values = |row: &StatRow| -> Vec<String> {
        let counter = row_counter(row);
        let seen = row.repeats.iter().zip(names).filter(|_| counter.headline);
        let line = |(seen, name): (&Repeats, &&str)| {
            let sorted: Vec<String> =
                seen.sorted.iter().map(|value| shown_value(counter, *value)).collect();
            let spread =
                seen.spread_percent.map(|value| format!("; spread {} %", shown_spread(value)));
            let (title, sorted) = (counter.title, sorted.join("  "));
            format!("{title}{name}: {sorted}{}", spread.unwrap_or_default())
        };
        seen.map(line).collect()
    };
    table.rows.iter().flat_map(row_values).collect()
}

/// Legend of the columns.
fn legend(table: &StatTable) -> Legend {
    let interval = table.rows.iter().find_map(|row| row.repeats.first()?.interval);
    let spread = ("spread %", "how far the largest value is above the smallest".to_owned());
    Legend::default().with(match (table.commands.len() == 2, table.runs, interval) {
        (false, 1, _) => vec![],
        (true, ..) => vec![
            ("base, change", "means over the runs".to_owned()),
            (
                "change %",
                "estimate from the ratios of the pairs, row by row; empty if a value is 0"
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

const COLUMNS: [&str; 13] = [
    "counter",
    "unit",
    "side",
    "mean",
    "median",
    "spread_percent",
    "median_low",
    "median_high",
    "counted_percent",
    "change_percent",
    "change_low",
    "change_high",
    "not_counted",
];

fn side_names(table: &StatTable) -> [&'static str; 2] {
    match table.commands.len() {
        2 => Side::BOTH.map(Side::name),
        _ => [""; 2],
    }
}

fn record_line(row: &StatRow, side: &'static str, repeats: &Repeats) -> [Value; 13] {
    let interval = repeats.interval;
    // The change belongs to the pair and stands with the second command.
    let change = row.change.filter(|_| side == Side::Change.name());
    let ends = change.and_then(|change| change.interval_percent);
    [
        (&row.counter).into(),
        (&row.unit).into(),
        side.into(),
        repeats.mean.into(),
        repeats.median.into(),
        repeats.spread_percent.into(),
        interval.map(|interval| interval.low).into(),
        interval.map(|interval| interval.high).into(),
        repeats.counted_percent.into(),
        change.map(|change| change.percent).into(),
        ends.map(|[low, _]| low).into(),
        ends.map(|[_, high]| high).into(),
        row.uncounted.as_ref().into(),
    ]
}

/// Returns the counter of a row.
fn row_counter(row: &StatRow) -> &'static StatCounter {
    let known = |counter: &&StatCounter| counter.name == row.counter;
    STAT_COUNTERS.iter().find(known).unwrap_or(&ELAPSED)
}

/// Formats times in milliseconds, everything else as it is.
fn shown_value(counter: &StatCounter, value: f64) -> String {
    match counter.unit {
        "ns" => count(value / 1e6),
        _ if value.fract() == 0.0 => whole(value),
        _ => measured(value),
    }
}

/// Formats a spread, in percent.
fn shown_spread(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.2}") }
}

/// Formats a range, in percent.
fn shown_range([low, high]: [f64; 2]) -> String {
    percent_range(Some(low), Some(high))
}

/// Percentage of the time for which a counter was counted that shared the CPU's counters; `None` if
/// it was all.
fn counted_share(row: &StatRow) -> Option<f64> {
    let least = row.repeats.iter().map(|seen| seen.counted_percent).fold(100.0, f64::min);
    (least < 99.95).then_some(least)
}
