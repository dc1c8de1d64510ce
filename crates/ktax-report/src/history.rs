//! The cost of rows over kernels: a line for each row, and where the cost steps.

mod steps;
mod tables;

pub use steps::sparkline;

use crate::history::steps::{
    CostStep, largest, largest_detectable, levels_picture, lineages, series, short, steps,
};
use crate::history::tables::{
    common_lineage, details, kernels_table, line_points, overview, step_command,
};
use crate::number::{limit, percent};
use crate::view::{Legend, Records, Report, Section, Value, View};
use ktax_host::text::{counted, counted_as};
use ktax_model::{History, HistoryLine, HistoryPoint, SavedResult, StepFunction, metric};
use ktax_stats::tables::change_percent;

impl Report for History {
    /// Shows a line for each row, the kernels at which rows step, then each point.
    fn view(&self) -> View {
        let is_long = self.lines.len() > LINES_WITH_POINTS;
        let mut sections = Vec::new();
        if self.lines.len() > 1 {
            sections.push(Section::table(overview(self)));
        }
        if is_long {
            sections.push(Section::Table {
                title: "Kernels at which rows step:".to_owned(),
                table: kernels_table(self),
                notes: Vec::new(),
            });
        } else {
            for lines in lineages(&self.lines) {
                sections.push(levels_picture(self, lines));
                sections.extend(lines.iter().map(|line| line_points(self, line)));
            }
        }
        sections.extend(largest_step(self).map(|step| step_command(self, &step)));
        sections.push(details(self, is_long));
        View {
            title: title(self),
            headline: headline(self),
            how: how(self),
            sections,
            legend: legend(self),
            ..View::default()
        }
    }

    /// Writes one line for each point.
    fn records(&self) -> Records {
        let mut records = Records::new(COLUMNS);
        for line in &self.lines {
            for point in &line.points {
                let (against, before) = (point.against.as_ref(), point.before.as_ref());
                let anchor =
                    against.and_then(|against| Some(&line.points.get(against.anchor)?.name));
                records.push([
                    (&line.row).into(),
                    (&self.metric).into(),
                    self.function.as_ref().into(),
                    (&line.lineage).into(),
                    (&line.measured).into(),
                    point.place.into(),
                    (&point.kernel).into(),
                    (&point.name).into(),
                    Value::Text(point.tags.join(" ")),
                    point.cost(line.ops).into(),
                    anchor.into(),
                    against.map(|against| against.delta).into(),
                    against.and_then(|against| against.percent).into(),
                    against.map(|against| against.verdict.text()).into(),
                    before.map(|before| before.delta).into(),
                    before.and_then(|before| before.percent).into(),
                    before.and_then(|before| before.detectable_percent).into(),
                    Value::Text(functions_text(point)),
                ]);
            }
        }
        records
    }

    fn result(&self) -> SavedResult {
        SavedResult::History(Box::new(self.clone()))
    }
}

/// Number of lines whose points are shown. Of more lines a page folds the points away, and a
/// terminal shows them in the history of the row.
const LINES_WITH_POINTS: usize = 6;

fn title(history: &History) -> String {
    let rows: std::collections::BTreeSet<&str> =
        history.lines.iter().map(|line| line.row.as_str()).collect();
    let what = match rows.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => (*one).to_owned(),
        several => format!("{} rows", several.len()),
    };
    match &history.function {
        Some(function) => format!("History of {function} in {what}"),
        None => format!("History of {what}"),
    }
}

fn how(history: &History) -> String {
    let unit = metric(&history.metric).map_or("", |metric| metric.unit);
    let lineage = common_lineage(history).filter(|lineage| !lineage.is_empty());
    let lineage = lineage.map_or(String::new(), |lineage| format!("{lineage} · "));
    let (metric, threshold) = (&history.metric, history.threshold_percent);
    format!("{lineage}{metric} ({unit} per operation) · threshold {threshold} %")
}

/// Returns the largest step within a series, else the largest of all.
fn largest_step(history: &History) -> Option<CostStep<'_>> {
    let all = || history.lines.iter().flat_map(steps);
    let by_size = |one: &CostStep<'_>, other: &CostStep<'_>| one.size().total_cmp(&other.size());
    let within = all().filter(|step| !step.is_between_series()).max_by(by_size);
    within.or_else(|| all().max_by(by_size))
}

fn legend(history: &History) -> Legend {
    let sentence = format!(
        "A row steps where its cost changes by the rule of `ktax compare`, by at least {} %. Each \
         kernel is compared with the anchor, the last kernel at which the cost stepped, so that \
         small changes that add up are a step, too. The size of a step is that to the kernel \
         before it; of small changes that add up it is that to the anchor. Costs are medians over \
         the layouts.",
        history.threshold_percent
    );
    let legend = Legend::new([sentence]).with([
        ("delta %", "the change to the kernel before"),
        ("MDE %", "the smallest change to the kernel before that would have been found"),
    ]);
    match history.lines.len() {
        1 => legend,
        _ => legend.with([
            ("carried most by", "the function with the largest delta at this step"),
            (
                "cost over kernels",
                "a bar for each kernel; full height is the largest change of the row, and at \
                 least 2 %",
            ),
        ]),
    }
}

/// Cost of the last point over another, in percent of that.
fn percent_over(line: &HistoryLine, from: &HistoryPoint) -> Option<f64> {
    change_percent(from.cost(line.ops), line.points.last()?.cost(line.ops))
}

/// Answer: where rows step, and which steps most; first within a series of kernels, then between
/// series.
fn headline(history: &History) -> String {
    let long: Vec<&HistoryLine> =
        history.lines.iter().filter(|line| line.points.len() > 1).collect();
    let whose = history.function.as_ref().map_or(String::new(), |name| format!("{name} in "));
    match (history.lines.as_slice(), long.as_slice()) {
        ([], _) => String::new(),
        (lines, []) => format!(
            "{}: there is nothing to compare yet; --along names subjects to compare.",
            match lines {
                [one] => format!("{whose}{}: one kernel", one.row),
                several => format!("{}, each of one kernel", counted(several.len(), "line")),
            }
        ),
        (_, [line]) => format!("{whose}{} over {}", line.row, answer(line)),
        (lines, _) => {
            let all = counted_as(lines.len(), "row", "rows");
            let within = largest_of_all(lines, false);
            let between = largest_of_all(lines, true);
            match between {
                None => format!("{whose}{}", rows_that_step(&all, within)),
                Some(_) => format!(
                    "Within a series of kernels, {}. {}, {}.",
                    rows_that_step(&all, within),
                    pairs_of_series(history),
                    rows_that_step(&all, between)
                ),
            }
        }
    }
}

/// Returns the number of lines that step, and the largest step of all.
fn largest_of_all(lines: &[HistoryLine], is_between_series: bool) -> Option<(usize, CostStep<'_>)> {
    let steps = lines.iter().filter_map(|line| largest(line, is_between_series));
    let steps: Vec<CostStep<'_>> = steps.collect();
    let count = steps.len();
    let largest = steps.into_iter().max_by(|one, other| one.size().total_cmp(&other.size()));
    largest.map(|step| (count, step))
}

/// Says how many rows step: `12 of 62 rows step, most of all fstat: +1.22 % at 6.1.0-50 (do_statx
/// +8.00)`.
fn rows_that_step(all: &str, found: Option<(usize, CostStep<'_>)>) -> String {
    match found {
        None => format!("0 of {all} step"),
        Some((count, step)) => {
            let verb = if count == 1 { "steps" } else { "step" };
            format!("{count} of {all} {verb}, most of all {}: {}", step.line.row, step.answer())
        }
    }
}

/// Names a pair of series: `From 6.1 to 6.12`, or `Between series` where there are several.
fn pairs_of_series(history: &History) -> String {
    let mut pairs: Vec<[(u32, u32); 2]> = history
        .lines
        .iter()
        .flat_map(steps)
        .filter_map(|step| Some([series(&step.base.kernel)?, series(&step.point.kernel)?]))
        .filter(|[from, to]| from != to)
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    match pairs.as_slice() {
        [[from, to]] => format!("From {}.{} to {}.{}", from.0, from.1, to.0, to.1),
        _ => "Between series".to_owned(),
    }
}

/// Answer of a line: `12 kernels: 3 steps, the largest +8.10 % at 6.1.0-50 (do_statx +8.00); +8.10
/// % from 6.1.0 to 6.12.5`.
pub fn answer(line: &HistoryLine) -> String {
    let kernels = counted(line.points.len(), "kernel");
    let found: Vec<CostStep<'_>> = steps(line).collect();
    let largest = found.iter().max_by(|one, other| one.size().total_cmp(&other.size()));
    let steps = match (found.len(), largest) {
        (1, Some(step)) => format!("1 step, {}", step.answer()),
        (count, Some(step)) => format!("{count} steps, the largest {}", step.answer()),
        (_, None) => match largest_detectable(line) {
            None => "no step".to_owned(),
            Some(least) => format!("no step (would have seen {} %)", limit(least)),
        },
    };
    let (first, last) = (line.points.first(), line.points.last());
    let change = first.zip(last).map(|(first, last)| {
        let change = match percent_over(line, first) {
            None => "new".to_owned(),
            change => format!("{} %", percent(change)),
        };
        let [first, last] = [first, last].map(|point| short(line, &point.kernel));
        format!("; {change} from {first} to {last}")
    });
    format!("{kernels}: {steps}{}", change.unwrap_or_default())
}

const COLUMNS: [&str; 18] = [
    "row",
    "metric",
    "function",
    "lineage",
    "measured",
    "place",
    "kernel",
    "subject",
    "tags",
    "cost",
    "anchor",
    "delta",
    "percent",
    "verdict",
    "delta before",
    "percent before",
    "MDE percent",
    "functions",
];

/// Function and delta of each that carries a step: `do_statx 8 fput -1`.
fn functions_text(point: &HistoryPoint) -> String {
    let one = |carried: &StepFunction| format!("{} {}", carried.function, carried.delta);
    point.functions.iter().map(one).collect::<Vec<_>>().join(" ")
}
