//! What `ktax stat` prints: the two-column table of 2009, and its postscript.

use super::TextOptions;
use super::number::{self, measured, percent, percent_range, whole};
use super::text::{paragraph, table_of_numbers};
use crate::model::{COUNTERS, Counter, ELAPSED, Repeats, StatRow, StatTable};
use crate::text::escape;

/// A command as one would type it.
pub fn command_line(words: &[String]) -> String {
    let words = words.iter().map(String::as_str);
    escape(&shlex::try_join(words.clone()).unwrap_or_else(|_| words.collect::<Vec<_>>().join(" ")))
}

/// The table, ending in a newline; with all values of what is no part of another counter if asked.
pub fn stat(table: &StatTable, values: bool, options: TextOptions) -> String {
    let sections = [
        heading(table, options),
        counters(table, options),
        uncounted(table, options),
        if values { all_values(table, options) } else { String::new() },
        legend(table, options),
    ];
    let sections: Vec<String> = sections.into_iter().filter(|text| !text.is_empty()).collect();
    sections.join("\n")
}

fn heading(table: &StatTable, options: TextOptions) -> String {
    let lines: Vec<String> = table.commands.iter().map(|it| command_line(&it.words)).collect();
    let runs = table.runs;
    let (mut text, how) = match (lines.as_slice(), table.seed) {
        ([base, change], Some(seed)) => {
            let sides = [format!("base    {base}"), format!("change  {change}")];
            let text = format!("Performance counter stats\n\n{}\n", sides.join("\n"));
            let pairs = if runs == 1 { "1 pair".to_owned() } else { format!("{runs} pairs") };
            (text, format!("{pairs}, which first by lot, seed {seed}"))
        }
        _ => {
            let text = format!("Performance counter stats for `{}`\n", lines.join(" "));
            (text, if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") })
        }
    };
    let (release, cpus) = (escape(&table.release), table.cpus);
    text += &paragraph(&format!("{how} · Linux {release} · {cpus} CPUs"), options);
    for (command, line) in table.commands.iter().zip(&lines) {
        if let Some(first) = command.failures.first() {
            let failed = command.failures.len();
            let text_of = format!("{failed} of {runs} runs of `{line}` failed, first with {first}");
            text += &paragraph(&escape(&text_of), options);
        }
    }
    text
}

fn counters(table: &StatTable, options: TextOptions) -> String {
    let (two, repeated) = (table.commands.len() == 2, table.runs > 1);
    let mut header = match (two, repeated) {
        (true, _) => vec!["base", "change"],
        (false, true) => vec!["mean"],
        (false, false) => vec!["counted"],
    };
    let numbers = header.len();
    header.push("counter");
    let has_interval =
        table.rows.iter().any(|row| row.change.is_some_and(|it| it.interval_percent.is_some()));
    header.extend(match (two, repeated) {
        (true, _) if has_interval => vec![" change %", "95 % interval"],
        (true, _) => vec![" change %"],
        (false, true) => vec!["spread %", "median within %"],
        (false, false) => vec![],
    });
    let lines = table.rows.iter().map(|row| {
        let counter = counter(row);
        let mut cells: Vec<String> =
            row.repeats.iter().map(|seen| value(counter, seen.mean)).collect();
        cells.resize(numbers, "not counted here".to_owned());
        let indent = if counter.headline { "" } else { "  " };
        let scaled = if share(row).is_some() { ", scaled" } else { "" };
        cells.push(format!("{indent}{}{scaled}", counter.title));
        if let Some(change) = row.change {
            cells.push(format!("{:>9}", percent(Some(change.percent))));
            cells.extend(change.interval_percent.map(range));
        } else if let [seen] = row.repeats.as_slice() {
            cells
                .push(seen.spread_percent.map_or(String::new(), |it| format!("{:>8}", spread(it))));
            cells.push(within(seen).unwrap_or_default());
        }
        cells.resize(header.len(), String::new());
        cells
    });
    table_of_numbers(&header, lines.collect(), 0..numbers, options)
}

fn counter(row: &StatRow) -> &'static Counter {
    let known = |counter: &&Counter| counter.name == row.counter;
    COUNTERS.iter().find(known).unwrap_or(&ELAPSED)
}

/// Times in milliseconds, everything else as it is.
fn value(counter: &Counter, value: f64) -> String {
    match counter.unit {
        "ns" => number::count(value / 1e6),
        _ if value.fract() == 0.0 => whole(value),
        _ => measured(value),
    }
}

fn spread(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.2}") }
}

fn range([low, high]: [f64; 2]) -> String {
    percent_range(Some(low), Some(high))
}

/// Where the median lies, in percent of itself.
fn within(seen: &Repeats) -> Option<String> {
    let interval = seen.interval?;
    let ends = [interval.low, interval.high].map(|end| (end / seen.median - 1.0) * 100.0);
    ends.iter().all(|end| end.is_finite()).then(|| range(ends))
}

/// In how many percent of the time something was counted that shared the CPU's counters.
fn share(row: &StatRow) -> Option<f64> {
    let least = row.repeats.iter().map(|seen| seen.counted_percent).fold(100.0, f64::min);
    (least < 99.95).then_some(least)
}

/// What was counted a part of the time or not at all: each reason once, with all that it is the
/// reason of.
fn uncounted(table: &StatTable, options: TextOptions) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in &table.rows {
        let Some(reason) = &row.uncounted else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, counters)) => counters.push(&row.counter),
            None => reasons.push((reason, vec![&row.counter])),
        }
    }
    let line = |(reason, counters): &(&str, Vec<&str>)| {
        let text = format!("Not counted here: {}: {reason}.", counters.join(", "));
        paragraph(&escape(&text), options)
    };
    let scaled = table.rows.iter().filter_map(|row| {
        let text = format!("{} was counted {:.1} % of the time", row.counter, share(row)?);
        Some(paragraph(&format!("Scaled: {text} by a CPU with too few counters."), options))
    });
    scaled.chain(reasons.iter().map(line)).collect()
}

/// As the postscript of 2009 has them: from the least to the most.
fn all_values(table: &StatTable, options: TextOptions) -> String {
    let mut text = String::new();
    let names = if table.commands.len() == 2 { vec![", base", ", change"] } else { vec![""] };
    for row in table.rows.iter().filter(|row| counter(row).headline) {
        for (seen, name) in row.repeats.iter().zip(&names) {
            // Without spaces in them, for whoever copies them.
            let plain = |it: &f64| value(counter(row), *it).replace(' ', "");
            let sorted: Vec<String> = seen.sorted.iter().map(plain).collect();
            let mut line = format!("{}{name}: {}", counter(row).title, sorted.join("  "));
            if let Some(value) = seen.spread_percent {
                line += &format!("; spread {} %", spread(value));
            }
            text += &paragraph(&line, options);
        }
    }
    text
}

/// What the columns are.
fn legend(table: &StatTable, options: TextOptions) -> String {
    let two = table.commands.len() == 2;
    if !two && table.runs == 1 {
        return String::new();
    }
    let text = match table.rows.iter().find_map(|row| row.repeats.first()?.interval) {
        _ if two => {
            "Means. change: what the pairs' ratios say, each row by itself; of a 0 there is none. \
             An interval takes six pairs."
                .to_owned()
        }
        Some(interval) => format!(
            "spread: how far the largest value is above the smallest. median within: the precision \
             that {} runs support; the median lies that far from the one seen, with {:.1} % \
             confidence if the runs do not influence each other.",
            table.runs, interval.level_percent
        ),
        None => "spread: how far the largest value is above the smallest. Six runs and more say \
                 where the median lies."
            .to_owned(),
    };
    paragraph(&text, options)
}
