//! A [`Comparison`] in the shape of a published table, so that the two can be compared.

use std::collections::BTreeMap;

use crate::formats::{Page, TextOptions, published_table};
use crate::view::{ColumnKind, Line, Section, SideLine, Table};
use crate::{counts, number, words};
use ktax_model::{
    Comparison, ComparisonMethod, Effect, MachineModel, NativeRow, NativeTable, Row, Side, family,
};
use ktax_stats::tables::{checked_percent_change, mean, median, percent_change};

/// Published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The three tables of the LSM paper of 2002, and the rows of lmbench that the paper left out.
    Lmbench,
    /// The performance counters of the PARAVIRT mail of 2009.
    Counters,
    /// The fork test of the shared page tables of 2002.
    Pages,
}

impl Shape {
    /// Prints the table, and the names of the rows that are not in the table. Lines without a row
    /// in the Comparison are left out. The text ends in a newline.
    pub fn render(self, comparison: &Comparison, options: TextOptions) -> String {
        let table = match self {
            Shape::Lmbench => render_lmbench(comparison, options),
            Shape::Counters => render_counters(comparison, options),
            Shape::Pages => render_pages(comparison, options),
        };
        let rows = comparison.rows.iter().filter(|row| !self.has(comparison, row));
        let omitted: Vec<&str> = rows.map(|row| row.row.as_str()).collect();
        if omitted.is_empty() {
            return table;
        }
        let omitted = format!(
            "Omitted, because these tables have no line for them: {}. To print all rows, run \
             `ktax report` without --columns.",
            omitted.join(", ")
        );
        table + "\n" + &Page::new(options).paragraph(&omitted)
    }

    /// Tells whether a row is in the table.
    fn has(self, comparison: &Comparison, row: &Row) -> bool {
        match self {
            Shape::Lmbench => has_lmbench_row(comparison, row),
            Shape::Counters => true,
            Shape::Pages => has_page_row(comparison, row),
        }
    }
}

/// Prints a table for each family of rows that only differ in `pages`: the cost without extra pages
/// (the overhead), and the costs above it.
fn render_pages(comparison: &Comparison, options: TextOptions) -> String {
    let overheads = comparison.rows.iter().filter(|row| row.params.get("pages") == Some(&0));
    let page = Page::new(options);
    let mut text = page.paragraph(&comparison.title);
    if overheads.clone().next().is_none() {
        let missing = "No row has pages=0, the cost of a process without extra pages. Compare with \
                       `-w fork-pages`, or with `-w fork-pages:pages=0` and other sizes.";
        return text + "\n" + &page.paragraph(missing);
    }
    for overhead in overheads {
        text += &pages_table(comparison, overhead, options);
    }
    text
}

/// Tells whether a row is in one of the tables: its family must have a measured row without pages.
fn has_page_row(comparison: &Comparison, row: &Row) -> bool {
    let title = family(&row.row, "pages");
    let is_overhead = |row: &&Row| row.params.get("pages") == Some(&0);
    let overheads = comparison.rows.iter().filter(is_overhead);
    let mut overheads = overheads.filter(|overhead| family(&overhead.row, "pages") == title);
    overheads.any(|overhead| {
        let effect = overhead.effects().first();
        effect.is_some_and(|overhead| {
            row.params.get("pages") == Some(&0) || pages_cells(row, overhead).is_some()
        })
    })
}

fn pages_table(comparison: &Comparison, row: &Row, options: TextOptions) -> String {
    let Some(overhead) = row.effects().first() else { return String::new() };
    let (base, change) = (number::count(overhead.base), number::count(overhead.change));
    let title = family(&row.row, "pages");
    let mut text = format!(
        "\n{}: overhead for creating one process: {base} instructions in base, \
         {change} in change\n\n",
        Page::new(options).escape(&title)
    );
    let sized = comparison.rows.iter().filter(|row| family(&row.row, "pages") == title);
    let rows = sized.filter_map(|row| pages_cells(row, overhead));
    let header =
        ["pages", "base\nabove overhead", "per page", "change\nabove overhead", "per page"];
    text += &published_table(&header, rows.collect(), 0..header.len(), options);
    let growth = comparison.counts().map(|counts| &counts.growth);
    for growth in growth.into_iter().flatten().filter(|growth| growth.family == title) {
        text += &format!("\n{}", Page::new(options).paragraph(&words::growth(growth)));
    }
    text
}

/// Returns the cells of a row: pages, and of both sides the cost above the overhead and this cost
/// per page. `None` for a row without pages.
fn pages_cells(row: &Row, overhead: &Effect) -> Option<Vec<String>> {
    let effect = row.effects().first()?;
    let pages = *row.params.get("pages").filter(|pages| **pages > 0)? as f64;
    let mut cells = vec![number::count(pages)];
    for above in [effect.base - overhead.base, effect.change - overhead.change] {
        cells.extend([number::delta(above), number::delta(above / pages)]);
    }
    Some(cells)
}

/// Line of the table of performance counters.
struct Counter {
    /// Name with its unit.
    name: &'static str,
    /// Name of the value that the guest reports.
    value: &'static str,
    /// The guest's unit is this factor smaller.
    divisor: f64,
    /// Reason for which the exact engine has no value.
    not_exact: &'static str,
}

const fn counter(
    name: &'static str,
    value: &'static str,
    divisor: f64,
    not_exact: &'static str,
) -> Counter {
    Counter { name, value, divisor, not_exact }
}

/// Counters in the published order.
const COUNTERS: [Counter; 9] = [
    counter("task clock (msecs)", "task-clock-ns", 1e6, "instructions are not time"),
    counter("CPU migrations", "cpu-migrations", 1.0, "there is one CPU"),
    counter("context switches", "context-switches", 1.0, "the guest reported no value"),
    counter("page faults", "page-faults", 1.0, "the guest reported no value"),
    counter("CPU cycles", "cycles", 1.0, "QEMU executes instructions, not cycles"),
    counter("instructions", "instructions", 1.0, "the row failed"),
    counter("cache references", "cache-references", 1.0, "QEMU has no caches; --model models some"),
    counter("cache misses", "cache-misses", 1.0, "QEMU has no caches; --model models some"),
    counter("time elapsed (msecs)", "nanoseconds", 1e6, "instructions are not time"),
];

/// Counters that only a machine model has. They follow the others.
const MODEL_COUNTERS: [Counter; 4] = [
    counter("L1 icache misses", "l1i-misses", 1.0, ""),
    counter("dTLB misses", "dtlb-misses", 1.0, ""),
    counter("branches", "branches", 1.0, ""),
    counter("branch misses", "branch-misses", 1.0, ""),
];

/// Reason for which a model has no misses of the last-level cache.
const TOO_SHORT: &str = "(the region is too short for the model)";

const MODEL_PREFIX: &str = "model-";

/// Values by the guest's names of the counters.
type Values = BTreeMap<String, f64>;

/// Prints one table for each row: base, change, relative change, counter.
fn render_counters(comparison: &Comparison, options: TextOptions) -> String {
    let header = ["base", "change", "", "counter", ""];
    let model = modelled_machine(comparison);
    let section = |row: &Row| {
        let values = Side::BOTH.map(|side| side_values(row, side));
        let is_modelled = |counter: &Counter| row.effect(&metric_name(counter)).is_some();
        let why = |counter: &Counter, is_counted: bool| match model {
            Some(model) if is_modelled(counter) => format!("(model {})", model.name),
            Some(_) if counter.value == "cache-misses" => TOO_SHORT.to_owned(),
            _ if is_counted => String::new(),
            _ => format!("({})", counter.not_exact),
        };
        let title = Page::new(options).paragraph(&counters_title(&row.row));
        let more = MODEL_COUNTERS.iter().filter(|counter| is_modelled(counter));
        let lines = counter_lines(COUNTERS.iter().chain(more), &values, why);
        let table = published_table(&header, lines, 0..3, options);
        format!("\n{title}\n{table}")
    };
    comparison.rows.iter().map(section).collect()
}

/// Returns the machine that was modelled; `None` without a model.
fn modelled_machine(comparison: &Comparison) -> Option<&MachineModel> {
    match &comparison.method {
        ComparisonMethod::Counts(counts) => counts.key.machine.model.as_ref()?.machine(),
        _ => None,
    }
}

fn metric_name(counter: &Counter) -> String {
    format!("{MODEL_PREFIX}{}", counter.value)
}

/// Returns the counts of one side in the whole Region.
fn side_values(row: &Row, side: Side) -> Values {
    let seen = row
        .counts()
        .and_then(|counts| Some(counts.observed_values.as_ref()?.get(side).clone()))
        .unwrap_or_default();
    let mut values: Values = seen.into_iter().map(|(name, value)| (name, value as f64)).collect();
    if let Some(effect) = row.effects().first() {
        let per_op = if side == Side::Base { effect.base } else { effect.change };
        values.insert("instructions".to_owned(), per_op * row.ops as f64);
    }
    for effect in row.effects() {
        if let (Some(name), Some(counts)) =
            (effect.metric.strip_prefix(MODEL_PREFIX), effect.counts())
        {
            values.insert(name.to_owned(), *counts.get(side) as f64);
        }
    }
    values
}

/// Tells whether the row was run with `--counters`. Each counter then has a value, or a reason for
/// having none.
fn is_counted(row: &NativeRow) -> bool {
    let has_clock = row.samples.iter().any(|sample| sample.values.contains_key("task-clock-ns"));
    has_clock || !row.uncounted.is_empty()
}

/// Sections of native rows that were counted: the medians of the counters over their Samples.
pub fn native_counters(table: &NativeTable) -> impl Iterator<Item = Section> {
    let section = |row: &NativeRow| {
        let why = |counter: &Counter, is_counted: bool| match row.uncounted.get(counter.value) {
            _ if is_counted => String::new(),
            Some(reason) => format!("({reason})"),
            None => "(the run reported no value)".to_owned(),
        };
        let columns =
            [("here", ColumnKind::Number), ("counter", ColumnKind::Words), ("", ColumnKind::Words)];
        let lines = counter_lines(COUNTERS.iter(), &[medians(row)], why).into_iter().map(Line::new);
        let table = Table { wrapped_column: 2, ..Table::new(columns) }.with_lines(lines);
        Section::Table { title: counters_title(&row.workload.row), table, notes: Vec::new() }
    };
    table.rows.iter().filter(|row| is_counted(row)).map(section)
}

fn counters_title(row: &str) -> String {
    format!("Performance counter stats for '{row}'")
}

fn medians(row: &NativeRow) -> Values {
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in row.samples.iter().flat_map(|sample| &sample.values) {
        all.entry(name.clone()).or_default().push(*value as f64);
    }
    all.into_iter().filter_map(|(name, values)| Some((name, median(&values)?))).collect()
}

/// Returns lines of: the values, the change (if there are two values), the counter's name, a
/// remark.
fn counter_lines<'a>(
    counters: impl Iterator<Item = &'a Counter>,
    values: &[Values],
    why: impl Fn(&Counter, bool) -> String,
) -> Vec<Vec<String>> {
    let line = |counter: &Counter| {
        let value =
            |values: &Values| values.get(counter.value).map(|value| value / counter.divisor);
        let found: Vec<Option<f64>> = values.iter().map(value).collect();
        let mut cells: Vec<String> = found.iter().map(|value| value_cell(*value)).collect();
        if let [base, change] = found.as_slice() {
            cells.push(change_cell(*base, *change));
        }
        cells.push(counter.name.to_owned());
        let is_counted = found.iter().all(Option::is_some);
        cells.push(why(counter, is_counted));
        cells
    };
    counters.map(line).collect()
}

fn value_cell(value: Option<f64>) -> String {
    match value {
        None => "not counted here".to_owned(),
        Some(value) if value.fract() == 0.0 => number::whole(value),
        Some(value) => number::measured(value),
    }
}

/// Formats the change in percent of the base; empty without a base.
fn change_cell(base: Option<f64>, change: Option<f64>) -> String {
    match base.zip(change).and_then(|(base, change)| checked_percent_change(base, change)) {
        Some(percent) => format!("{}%", number::percent(Some(percent))),
        None => String::new(),
    }
}

/// The tables as text: a title, which ends in a colon, then lines `NAME = ROW [ROW …]`. The value
/// of a line is the mean of its rows.
const LMBENCH_TABLES: &str = include_str!("lmbench-tables.txt");

/// Name of a line, and the names of its rows.
type PublishedLine = (&'static str, Vec<&'static str>);

fn lmbench_line(line: &'static str) -> Option<PublishedLine> {
    let (name, rows) = line.split_once(" = ")?;
    Some((name, rows.split(' ').collect()))
}

/// Prints the tables of the paper with a further column, the verdict.
fn render_lmbench(comparison: &Comparison, options: TextOptions) -> String {
    let page = Page::new(options);
    let mut text = page.paragraph(&format!("LMBench-style microbenchmarks: {}", comparison.title));
    if let Some(counts) = comparison.counts() {
        for SideLine { side, name, settings } in counts::sides(counts) {
            text += &page.paragraph(&format!("{side}: {name} {settings}"));
        }
        text += &page.paragraph(&words::counts_header(counts));
    }
    let lines: Vec<&str> = LMBENCH_TABLES.lines().collect();
    for table in lines.chunk_by(|_, next| !next.ends_with(':')) {
        let lines = table.iter().filter_map(|line| lmbench_line(line));
        let rows: Vec<Vec<String>> =
            lines.filter_map(|line| lmbench_cells(comparison, &line)).collect();
        if !rows.is_empty() {
            let title = table[0];
            let header = ["Test Type", "base", "change", "% Overhead\nwith change", "verdict"];
            let table = published_table(&header, rows, 1..4, options);
            text += &format!("\n{title}\n{table}");
        }
    }
    text + "\n" + &page.paragraph("Modelled on LMBench; not LMBench's own results.")
}

/// Tells whether a row is in a line that is printed. A line is printed if the Comparison has all
/// its rows.
fn has_lmbench_row(comparison: &Comparison, row: &Row) -> bool {
    let mut lines = LMBENCH_TABLES.lines().filter_map(lmbench_line);
    lines.any(|(_, names)| names.contains(&&*row.row) && line_rows(comparison, &names).is_some())
}

/// Returns the rows of a line; `None` if the Comparison does not have all of them.
fn line_rows<'a>(comparison: &'a Comparison, names: &[&str]) -> Option<Vec<&'a Row>> {
    let find_row = |name: &&str| comparison.rows.iter().find(|row| row.row == *name);
    names.iter().map(find_row).collect()
}

fn lmbench_cells(comparison: &Comparison, (name, names): &PublishedLine) -> Option<Vec<String>> {
    let rows = line_rows(comparison, names)?;
    let headlines: Vec<&Effect> = rows.iter().filter_map(|row| row.effects().first()).collect();
    let mut verdicts: Vec<String> = rows.iter().map(|row| words::verdict_cell(row).text).collect();
    verdicts.dedup();
    let verdict = verdicts.join(" / ");
    if headlines.len() < rows.len() {
        let empty_cells = [(*name).to_owned(), String::new(), String::new(), String::new()];
        return Some(empty_cells.into_iter().chain([verdict]).collect());
    }
    let mean_of = |value: fn(&Effect) -> f64| {
        mean(&headlines.iter().map(|effect| value(effect)).collect::<Vec<f64>>())
    };
    let (base, change) = (mean_of(|effect| effect.base)?, mean_of(|effect| effect.change)?);
    // As for the times of the paper, a positive overhead means that the change costs more.
    let overhead = (base != 0.0).then(|| percent_change(base, change));
    let percent = number::percent(overhead);
    let numbers = [number::count(base), number::count(change), percent + "%"];
    Some([(*name).to_owned()].into_iter().chain(numbers).chain([verdict]).collect())
}
