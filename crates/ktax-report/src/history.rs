//! Report of the cost of rows over kernels, and of the kernels at which the cost steps.

use crate::number::{limit, percent};
use crate::view::{
    Cell, ColumnKind, Columns, Details, Fields, KernelLevel, KernelLevels, KernelPoint, Legend,
    Line, Picture, Records, Report, RowDetail, Section, Table, View,
};
use crate::{number, words};
use ktax_host::text::{counted, counted_as, shell_line};
use ktax_model::{
    History, HistoryLine, HistoryPoint, PreviousDifference, SavedResult, StepFunction, Verdict,
    metric,
};
use ktax_plan::HistorySteps;
use ktax_stats::tables::checked_percent_change;

impl Report for History {
    fn view(&self) -> View {
        let is_long = self.lines.len() > MAX_LINES_WITH_POINTS;
        let mut sections = Vec::new();
        if self.lines.len() > 1 {
            sections.push(Section::table(overview(self)));
        }
        if is_long {
            sections.push(kernels_table(self).with_title("Kernels at which rows step:"));
        } else {
            for lines in lineages(&self.lines) {
                sections.push(levels_picture(self, lines));
                sections.extend(lines.iter().map(|line| line_points(self, line)));
            }
        }
        sections.extend(largest_step(self).map(|step| step_command(self, &step)));
        sections.push(Section::Rows);
        View {
            title: title(self),
            headline: headline(self),
            how: how(self),
            sections,
            legend: legend(self),
            ..View::default()
        }
    }

    fn details(&self) -> Details {
        let detail = |lines| line_detail(self, lines, self.lines.len() > MAX_LINES_WITH_POINTS);
        Details { rows: by_size(self).into_iter().map(detail).collect(), how: String::new() }
    }

    fn records(&self) -> Records {
        let points = self.lines.iter();
        let points = points.flat_map(|line| line.points.iter().map(move |point| (line, point)));
        let points: Vec<(&HistoryLine, &HistoryPoint)> = points.collect();
        let mut fields = Fields::new(&points);
        fields.add("row", |(line, _)| &line.row);
        fields.add("metric", |_| &self.metric);
        fields.add("function", |_| self.function.as_ref());
        fields.add("lineage", |(line, _)| &line.lineage);
        fields.add("measured", |(line, _)| &line.measured);
        fields.add("place", |(_, point)| point.position);
        fields.add("kernel", |(_, point)| &point.kernel);
        fields.add("subject", |(_, point)| &point.name);
        fields.add("tags", |(_, point)| point.tags.join(" "));
        fields.add("cost", |(line, point)| point.cost(line.ops));
        fields.add("anchor", |(line, point)| {
            point
                .anchor_difference
                .as_ref()
                .and_then(|against| Some(&line.points.get(against.anchor)?.name))
        });
        fields.add("delta", |(_, point)| {
            point.anchor_difference.as_ref().map(|against| against.delta)
        });
        fields.add("percent", |(_, point)| {
            point.anchor_difference.as_ref().and_then(|against| against.percent)
        });
        fields.add("verdict", |(_, point)| {
            point.anchor_difference.as_ref().map(|against| against.verdict.text())
        });
        fields.add("delta before", |(_, point)| {
            point.previous_difference.as_ref().map(|before| before.delta)
        });
        fields.add("percent before", |(_, point)| {
            point.previous_difference.as_ref().and_then(|before| before.percent)
        });
        let detectable = |point: &HistoryPoint| {
            point.previous_difference.as_ref().and_then(|before| before.detectable_percent)
        };
        fields.add("MDE percent", |(_, point)| detectable(point));
        fields.add("functions", |(_, point)| functions_text(point));
        fields.records()
    }

    fn result(&self) -> SavedResult {
        SavedResult::History(Box::new(self.clone()))
    }
}

/// Maximum number of lines whose points are shown. With more lines, a page folds the points away.
const MAX_LINES_WITH_POINTS: usize = 6;

fn title(history: &History) -> String {
    let rows: std::collections::BTreeSet<&str> =
        history.lines.iter().map(|line| line.row.as_str()).collect();
    let rows = match rows.into_iter().collect::<Vec<_>>().as_slice() {
        [one] => (*one).to_owned(),
        several => format!("{} rows", several.len()),
    };
    match &history.function {
        Some(function) => format!("History of {function} in {rows}"),
        None => format!("History of {rows}"),
    }
}

fn how(history: &History) -> String {
    let unit = metric(&history.metric).map_or("", |metric| metric.unit);
    let lineage = common_lineage(history).filter(|lineage| !lineage.is_empty());
    let lineage = lineage.map_or(String::new(), |lineage| format!("{lineage} · "));
    let (metric, threshold) = (&history.metric, history.threshold_percent);
    format!("{lineage}{metric} ({unit} per operation) · threshold {threshold} %")
}

/// Returns the largest step within a series of kernels; without one, the largest step.
fn largest_step(history: &History) -> Option<CostStep<'_>> {
    let all_steps = || history.lines.iter().flat_map(steps);
    let by_size = |one: &CostStep<'_>, other: &CostStep<'_>| one.size().total_cmp(&other.size());
    let within = all_steps().filter(|step| !step.is_between_series()).max_by(by_size);
    within.or_else(|| all_steps().max_by(by_size))
}

fn legend(history: &History) -> Legend {
    let sentence = format!(
        "A row steps where its cost changes by the rule of `ktax compare`, by at least {} %. Each \
         kernel is compared with the anchor, the last kernel at which the cost stepped, so that \
         small changes that add up are a step, too. The size of a step is the change to the kernel \
         before; if small changes add up, it is the change to the anchor. Costs are medians over \
         the layouts.",
        history.threshold_percent
    );
    let legend = Legend::new([sentence]).with_terms([
        ("delta %", "the change to the kernel before"),
        ("MDE %", "the smallest change to the kernel before that would have been found"),
    ]);
    match history.lines.len() {
        1 => legend,
        _ => legend.with_terms([
            ("carried most by", "the function with the largest delta at this step"),
            (
                "cost over kernels",
                "a bar for each kernel; the full height is the largest change of the row, but at \
                 least 2 %",
            ),
        ]),
    }
}

/// Change from a point to the last point of a line, in percent.
fn percent_over(line: &HistoryLine, from: &HistoryPoint) -> Option<f64> {
    checked_percent_change(from.cost(line.ops), line.points.last()?.cost(line.ops))
}

/// Headline: how many rows step, and the largest step; first within a series of kernels, then
/// between series.
fn headline(history: &History) -> String {
    let long: Vec<&HistoryLine> =
        history.lines.iter().filter(|line| line.points.len() > 1).collect();
    let prefix = history.function.as_ref().map_or(String::new(), |name| format!("{name} in "));
    match (history.lines.as_slice(), long.as_slice()) {
        ([], _) => String::new(),
        (lines, []) => format!(
            "{}: a history needs at least two kernels; --along names the kernels.",
            match lines {
                [one] => format!("{prefix}{}: one kernel", one.row),
                several => format!("{}, each of one kernel", counted(several.len(), "line")),
            }
        ),
        (_, [line]) => format!("{prefix}{} over {}", line.row, answer(line)),
        (lines, _) => {
            let row_count = counted_as(lines.len(), "row", "rows");
            let within = largest_of_all(lines, false);
            let between = largest_of_all(lines, true);
            match between {
                None => format!("{prefix}{}", rows_that_step(&row_count, within)),
                Some(_) => format!(
                    "Within a series of kernels, {}. {}, {}.",
                    rows_that_step(&row_count, within),
                    pairs_of_series(history),
                    rows_that_step(&row_count, between)
                ),
            }
        }
    }
}

/// Returns the number of lines that step, and the largest step of these; `None` if no line steps.
fn largest_of_all(lines: &[HistoryLine], is_between_series: bool) -> Option<(usize, CostStep<'_>)> {
    let steps = lines.iter().filter_map(|line| largest(line, is_between_series));
    let steps: Vec<CostStep<'_>> = steps.collect();
    let count = steps.len();
    let largest = steps.into_iter().max_by(|one, other| one.size().total_cmp(&other.size()));
    largest.map(|step| (count, step))
}

/// Formats `12 of 62 rows step, most of all fstat: +1.22 % at 6.1.0-50 (do_statx +8.00)`.
fn rows_that_step(all: &str, count_and_largest: Option<(usize, CostStep<'_>)>) -> String {
    match count_and_largest {
        None => format!("0 of {all} step"),
        Some((count, step)) => {
            let verb = if count == 1 { "steps" } else { "step" };
            format!("{count} of {all} {verb}, most of all {}: {}", step.line.row, step.answer())
        }
    }
}

/// Names a pair of series, `From 6.1 to 6.12`, or returns `Between series` for several pairs.
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

/// Summary of a line: `12 kernels: 3 steps, the largest +8.10 % at 6.1.0-50 (do_statx +8.00); +8.10
/// % from 6.1.0 to 6.12.5`.
pub fn answer(line: &HistoryLine) -> String {
    let kernels = counted(line.points.len(), "kernel");
    let all_steps: Vec<CostStep<'_>> = steps(line).collect();
    let largest = all_steps.iter().max_by(|one, other| one.size().total_cmp(&other.size()));
    let steps = match (all_steps.len(), largest) {
        (1, Some(step)) => format!("1 step, {}", step.answer()),
        (count, Some(step)) => format!("{count} steps, the largest {}", step.answer()),
        (_, None) => match largest_detectable(line) {
            None => "no step".to_owned(),
            Some(mde) => format!("no step (would have seen {} %)", limit(mde)),
        },
    };
    let (first, last) = (line.points.first(), line.points.last());
    let change = first.zip(last).map(|(first, last)| {
        let change = match percent_over(line, first) {
            None => "new".to_owned(),
            change => format!("{} %", percent(change)),
        };
        let [first, last] = [first, last].map(|point| short_name(line, &point.kernel));
        format!("; {change} from {first} to {last}")
    });
    format!("{kernels}: {steps}{}", change.unwrap_or_default())
}

/// Lists the functions that carry a step, with their deltas: `do_statx 8 fput -1`.
fn functions_text(point: &HistoryPoint) -> String {
    let function_text = |carried: &StepFunction| format!("{} {}", carried.function, carried.delta);
    point.functions.iter().map(function_text).collect::<Vec<_>>().join(" ")
}

/// Step of a row's cost at a kernel.
#[derive(Clone, Copy)]
pub struct CostStep<'a> {
    pub line: &'a HistoryLine,
    /// The kernel at which the cost steps.
    pub point: &'a HistoryPoint,
    /// The kernel that `point` is compared with: the kernel before, or the anchor if small changes
    /// add up.
    pub base: &'a HistoryPoint,
    /// `slower`, `faster` or `different work`.
    pub verdict: Verdict,
    /// Change in percent of the base; `None` if the cost of the base is 0.
    pub percent: Option<f64>,
    /// The minimum detectable effect in percent; `None` if it is not known.
    pub detectable_percent: Option<f64>,
}

impl<'a> CostStep<'a> {
    /// Returns the step at a point of a line; `None` if the cost does not step there.
    pub fn find(line: &'a HistoryLine, index: usize) -> Option<CostStep<'a>> {
        let point = line.points.get(index)?;
        let base = line.points.get(point.step_base(index)?)?;
        let against = point.anchor_difference.as_ref()?;
        let before = point.previous_difference.as_ref().filter(|before| before.verdict.is_change());
        let (verdict, percent, detectable_percent) = match before {
            Some(PreviousDifference { verdict, percent, detectable_percent, .. }) => {
                (*verdict, *percent, *detectable_percent)
            }
            None => (against.verdict, against.percent, against.detectable_percent),
        };
        Some(CostStep { line, point, base, verdict, percent, detectable_percent })
    }

    pub fn has_functions(&self) -> bool {
        !self.point.functions.is_empty()
    }

    /// Tells whether the two kernels are from different series, such as 6.1 and 6.12.
    pub fn is_between_series(&self) -> bool {
        series(&self.base.kernel) != series(&self.point.kernel)
    }

    /// Returns the size in percent, without its sign; infinite if the cost of the base is 0.
    pub fn size(&self) -> f64 {
        self.percent.map_or(f64::INFINITY, f64::abs)
    }

    /// Formats the change: `+1.22 %`, or `new`.
    pub fn shown_percent(&self) -> String {
        match self.percent {
            None => "new".to_owned(),
            percent => format!("{} %", number::percent(percent)),
        }
    }

    /// Names at most `limit` functions that carry most: `do_statx +8.00, fput -1.00`.
    pub fn carried_by(&self, limit: usize) -> String {
        let function_text = |carried: &StepFunction| {
            format!("{} {}", carried.function, number::delta(carried.delta))
        };
        let largest = self.point.functions.iter().take(limit);
        largest.map(function_text).collect::<Vec<String>>().join(", ")
    }

    /// Describes the step: `+1.22 % at 6.1.0-50 (do_statx +8.00)`.
    pub fn answer(&self) -> String {
        let functions = match self.carried_by(2) {
            functions if functions.is_empty() => functions,
            functions => format!(" ({functions})"),
        };
        let kernel = short_name(self.line, &self.point.kernel);
        format!("{} at {kernel}{functions}", self.shown_percent())
    }
}

/// Returns all steps of a line, in the order of its kernels.
pub fn steps(line: &HistoryLine) -> impl Iterator<Item = CostStep<'_>> {
    (1..line.points.len()).filter_map(|index| CostStep::find(line, index))
}

/// Returns the largest step of a line between two series, or within one series.
pub fn largest(line: &HistoryLine, is_between_series: bool) -> Option<CostStep<'_>> {
    let wanted = steps(line).filter(|step| step.is_between_series() == is_between_series);
    wanted.max_by(|one, other| one.size().total_cmp(&other.size()))
}

/// Returns the largest MDE of the points of a line, in percent; `None` if no point has an MDE. A
/// line without steps would have shown any larger change.
pub fn largest_detectable(line: &HistoryLine) -> Option<f64> {
    let before = line.points.iter().filter_map(|point| point.previous_difference.as_ref());
    before.filter_map(|before| before.detectable_percent).max_by(f64::total_cmp)
}

/// Groups the lines by row and lineage. The group with the largest step within a series comes
/// first.
pub fn by_size(history: &History) -> Vec<&[HistoryLine]> {
    let size = |line: &HistoryLine, between| largest(line, between).map_or(0.0, |step| step.size());
    let key = |lines: &[HistoryLine]| {
        let largest = |between| lines.iter().map(|line| size(line, between)).fold(0.0, f64::max);
        [largest(false), largest(true)]
    };
    let mut groups: Vec<([f64; 2], &[HistoryLine])> =
        lineages(&history.lines).map(|lines| (key(lines), lines)).collect();
    // A stable sort: rows with steps of the same size stay in the order of their names.
    groups.sort_by(|(one, _), (other, _)| {
        other[0].total_cmp(&one[0]).then(other[1].total_cmp(&one[1]))
    });
    groups.into_iter().map(|(_, lines)| lines).collect()
}

/// Groups the lines of one row over the same kernels. Lines of a group were measured in different
/// ways.
pub fn lineages(lines: &[HistoryLine]) -> impl Iterator<Item = &[HistoryLine]> {
    lines.chunk_by(|one, other| one.row == other.row && one.lineage == other.lineage)
}

/// Parses the series of a kernel's name: 6 and 12 for `6.12.57+deb12-cloud-amd64` and for
/// `v6.12-rc1`; `None` if the name does not begin with a version.
pub fn series(kernel: &str) -> Option<(u32, u32)> {
    let version = kernel.strip_prefix('v').unwrap_or(kernel);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns the name of a kernel without the flavour that all kernels of the line have.
pub fn short_name<'a>(line: &HistoryLine, kernel: &'a str) -> &'a str {
    let flavour = line.lineage.split(' ').next().unwrap_or_default();
    let short = kernel.strip_suffix(flavour).and_then(|name| name.strip_suffix('-'));
    short.filter(|_| !flavour.is_empty()).unwrap_or(kernel)
}

pub fn levels_picture(history: &History, lines: &[HistoryLine]) -> Section {
    let mut kernels: Vec<(usize, String)> = lines
        .iter()
        .flat_map(|line| {
            let name = |point: &HistoryPoint| short_name(line, &point.kernel).to_owned();
            line.points.iter().map(move |point| (point.position, name(point)))
        })
        .collect();
    kernels.sort();
    kernels.dedup_by_key(|(place, _)| *place);
    let kernel_index = |wanted: usize| {
        kernels.binary_search_by_key(&wanted, |(place, _)| *place).unwrap_or_default()
    };
    let level = |line: &HistoryLine| KernelLevel {
        points: line
            .points
            .iter()
            .enumerate()
            .map(|(index, point)| {
                let step = CostStep::find(line, index);
                KernelPoint {
                    kernel: kernel_index(point.position),
                    cost: point.cost(line.ops),
                    step: step.map(|step| step.verdict),
                    label: step.map(|step| step_label(&step)).unwrap_or_default(),
                    hover: point_hover(line, point, step),
                }
            })
            .collect(),
    };
    let levels = lines.iter().map(level).collect();
    let breaks = match lines.len() {
        1 => "",
        _ => {
            " Separate lines were measured with another QEMU, guest or machine and are not \
             comparable."
        }
    };
    Section::Picture {
        title: format!("{} over kernels", lines[0].row),
        picture: Picture::Levels(KernelLevels {
            unit: metric(&history.metric).map_or("", |metric| metric.unit),
            levels,
            kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect(),
        }),
        how: format!("Each dot is a kernel; a mark with a name is a step.{breaks}"),
    }
}

/// Label of a step: `6.1.0-50 +1.22 %`.
fn step_label(step: &CostStep<'_>) -> String {
    format!("{} {}", short_name(step.line, &step.point.kernel), step.shown_percent())
}

/// Text that a page shows at a point: `6.1.0-50: 330.03, +0.31 % to the kernel before, MDE 0.10 %;
/// do_statx +8.00`.
fn point_hover(line: &HistoryLine, point: &HistoryPoint, step: Option<CostStep<'_>>) -> String {
    let cost = number::count(point.cost(line.ops));
    let mut text = format!("{}: {cost}", short_name(line, &point.kernel));
    if let Some(PreviousDifference { percent, detectable_percent, .. }) = &point.previous_difference
    {
        text += &format!(", {} % to the kernel before", number::percent(*percent));
        if let Some(mde) = detectable_percent {
            text += &format!(", MDE {} %", number::limit(*mde));
        }
    }
    match step.map(|step| step.carried_by(2)).filter(|functions| !functions.is_empty()) {
        Some(functions) => format!("{text}; {functions}"),
        None => text,
    }
}

/// Bars of a sparkline, from the smallest cost of a line to the largest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Minimum change with full height, in percent of the smallest cost. With a smaller one, the noise
/// of the layouts would fill the height.
const MIN_FULL_HEIGHT_PERCENT: f64 = 2.0;

/// Maximum number of bars. A longer line shows the newest points.
const MAX_BARS: usize = 20;

/// Draws a bar for each point. The height is the cost above the smallest cost of the line.
pub fn sparkline(line: &HistoryLine) -> String {
    let first = line.points.len().saturating_sub(MAX_BARS);
    let costs: Vec<f64> = line.points[first..].iter().map(|point| point.cost(line.ops)).collect();
    let min = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let max = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let full_height = (max - min).max(min * MIN_FULL_HEIGHT_PERCENT / 100.0);
    let bar = |cost: &f64| {
        let share = if full_height > 0.0 { (cost - min) / full_height } else { 0.0 };
        BARS[(share * (BARS.len() - 1) as f64).round() as usize]
    };
    let prefix = if first > 0 { "…" } else { "" };
    prefix.chars().chain(costs.iter().map(bar)).collect()
}

/// Table of the largest step of each line, and the functions that carry it; the largest step first.
pub fn overview(history: &History) -> Table {
    let groups = by_size(history);
    let lines: Vec<OverviewLine<'_>> =
        groups.iter().copied().flatten().map(OverviewLine::new).collect();
    let has_series = lines.iter().any(|line| line.between.is_some());
    let has_functions = history.lines.iter().flat_map(steps).any(|step| step.has_functions());
    let kernel_head = if has_series { "largest step\nin a series" } else { "largest step\nat" };
    let percent = |step: Option<CostStep<'_>>| step.map(|step| number::percent(step.percent));
    let mut columns = Columns::new(&lines);
    columns.row("workload", |row| &row.line.row);
    columns.words("of", |row| &row.line.lineage).keep_if(common_lineage(history).is_none());
    columns.name(kernel_head, OverviewLine::kernel_of_step);
    columns.number("step\n%", |row| percent(row.within));
    columns.number("MDE\n%", |row| row.detectable.map(number::limit));
    let carried =
        columns.name("carried most by", |row| row.largest_step().map(|step| step.carried_by(1)));
    carried.drop_order(4).keep_if(has_functions);
    columns.number("between\nseries %", |row| percent(row.between)).keep_if(has_series);
    columns.number("steps", |row| row.steps).drop_order(2).wide_only();
    columns.name("cost over kernels", |row| sparkline(row.line)).drop_order(1).wide_only();
    let from_to_head = format!("first → last\n{}", words::unit(&history.metric));
    columns.number(&from_to_head, |row| from_to(row.line)).drop_order(0).wide_only();
    columns.verdict(OverviewLine::verdict).drop_order(3);
    let mut table = columns.table();
    let details =
        groups.iter().enumerate().flat_map(|(group, lines)| lines.iter().map(move |_| group));
    table.lines.iter_mut().zip(details).for_each(|(line, group)| line.linked_detail = Some(group));
    table
}

/// Line of the overview, with its largest step within a series and its largest between two series.
#[derive(Clone, Copy)]
struct OverviewLine<'a> {
    line: &'a HistoryLine,
    within: Option<CostStep<'a>>,
    between: Option<CostStep<'a>>,
    detectable: Option<f64>,
    steps: usize,
}

impl<'a> OverviewLine<'a> {
    fn new(line: &'a HistoryLine) -> OverviewLine<'a> {
        let [within, between] = [false, true].map(|is_between| largest(line, is_between));
        let detectable = match within {
            Some(step) => step.detectable_percent,
            None => largest_detectable(line),
        };
        OverviewLine { line, within, between, detectable, steps: steps(line).count() }
    }

    fn largest_step(self) -> Option<CostStep<'a>> {
        self.within.or(self.between)
    }

    /// Names the kernel of the largest step within a series; `none` without such a step.
    fn kernel_of_step(self) -> &'a str {
        match self.within {
            Some(step) => short_name(self.line, &step.point.kernel),
            None if self.line.points.len() > 1 => "none",
            None => "",
        }
    }

    /// Returns the verdict of the largest step; `no detected change` without a step; an empty cell
    /// for a single kernel.
    fn verdict(self) -> Cell {
        match self.largest_step() {
            Some(step) => step.verdict.into(),
            None if self.line.points.len() > 1 => Verdict::NoDetectedChange.into(),
            None => Cell::default(),
        }
    }
}

/// Table of the number of rows that step at each kernel, and of the largest step there.
pub fn kernels_table(history: &History) -> Table {
    let mut all_steps: Vec<CostStep<'_>> = history.lines.iter().flat_map(steps).collect();
    fn key<'a>(step: &CostStep<'a>) -> (&'a str, usize) {
        (&step.line.lineage, step.point.position)
    }
    all_steps.sort_by_key(key);
    let kernels = all_steps.chunk_by(|one, other| key(one) == key(other)).map(|steps| {
        let largest = steps.iter().max_by(|one, other| one.size().total_cmp(&other.size()));
        (steps, largest.unwrap_or(&steps[0]))
    });
    let kernels: Vec<(&[CostStep<'_>], &CostStep<'_>)> = kernels.collect();
    let count = |verdict| {
        move |(steps, _): (&[CostStep<'_>], _)| {
            steps.iter().filter(|step| step.verdict == verdict).count()
        }
    };
    let mut columns = Columns::new(&kernels);
    columns.name("kernel", |(_, largest)| &largest.point.kernel);
    columns.number("rows\nslower", count(Verdict::Slower)).drop_order(1);
    columns.number("rows\nfaster", count(Verdict::Faster)).drop_order(1);
    columns.row("largest step", |(_, largest)| &largest.line.row).wrap_last();
    columns.number("step\n%", |(_, largest)| number::percent(largest.percent));
    let carried = columns.name("carried most by", |(_, largest)| largest.carried_by(1));
    carried.drop_order(0).keep_if(all_steps.iter().any(CostStep::has_functions));
    columns.table()
}

/// Returns the lineage that all lines share; `None` if lineages differ.
pub fn common_lineage(history: &History) -> Option<&str> {
    let first = history.lines.first()?.lineage.as_str();
    history.lines.iter().all(|line| line.lineage == first).then_some(first)
}

fn from_to(line: &HistoryLine) -> String {
    let cost = |point: &HistoryPoint| number::count(point.cost(line.ops));
    match line.points.as_slice() {
        [] => String::new(),
        [one] => cost(one),
        [first, .., last] => format!("{} → {}", cost(first), cost(last)),
    }
}

/// Table of the points of a line: cost, and change to the kernel before and to the anchor.
fn points_table(history: &History, line: &HistoryLine) -> Table {
    let points = line.points.iter().enumerate();
    let points: Vec<(&HistoryPoint, Option<CostStep<'_>>)> =
        points.map(|(index, point)| (point, CostStep::find(line, index))).collect();
    let cost = format!("cost\n{}", words::unit(&history.metric));
    let has_tags = line.points.iter().any(|point| !point.tags.is_empty());
    let has_functions = line.points.iter().any(|point| !point.functions.is_empty());
    let mut columns = Columns::new(&points);
    columns.name("kernel", |(point, _)| &point.kernel);
    columns.words("tags", |(point, _)| point.tags.join(", ")).drop_order(3).keep_if(has_tags);
    columns.number(cost.trim_end(), |(point, _)| number::count(point.cost(line.ops)));
    columns.number("delta %", |(point, _)| {
        point.previous_difference.as_ref().map(|before| number::percent(before.percent))
    });
    let detectable = |point: &HistoryPoint| point.previous_difference.as_ref()?.detectable_percent;
    columns.number("MDE\n%", |(point, _)| detectable(point).map(number::limit)).drop_order(4);
    let percent =
        |point: &HistoryPoint| Some(number::percent(point.anchor_difference.as_ref()?.percent));
    columns.number("to the\nanchor %", |(point, _)| percent(point)).drop_order(1).wide_only();
    let anchor = |point: &HistoryPoint| line.points.get(point.anchor_difference.as_ref()?.anchor);
    let anchor = |point| anchor(point).map(|anchor| short_name(line, &anchor.kernel));
    columns.name("anchor", |(point, _)| anchor(point)).drop_order(0).wide_only();
    let carried = columns.name("carried most by", |(_, step)| step.map(|step| step.carried_by(1)));
    carried.drop_order(2).wide_only().keep_if(has_functions);
    columns.verdict(|(point, _)| point.anchor_difference.as_ref().map(|against| against.verdict));
    columns.table()
}

/// Details of the lines of a group; with their points, unless the page shows these already.
fn line_detail(history: &History, lines: &[HistoryLine], has_points: bool) -> RowDetail {
    let mut sections = Vec::new();
    if has_points {
        sections.push(levels_picture(history, lines));
        sections.extend(lines.iter().map(|line| line_points(history, line)));
    }
    sections.extend(lines.iter().flat_map(steps).map(|step| step_command(history, &step)));
    sections.extend(lines.iter().map(|line| kernel_commands(history, line)));
    sections.retain(|section| !section.is_empty());
    let longest = lines.iter().max_by_key(|line| line.points.len());
    RowDetail {
        row: line_name(&lines[0]),
        answer: longest.map(answer).unwrap_or_default(),
        verdict: longest.map(|line| OverviewLine::new(line).verdict()).unwrap_or_default(),
        sections,
        again: Vec::new(),
    }
}

/// Section with the table of the points of a line.
pub fn line_points(history: &History, line: &HistoryLine) -> Section {
    let note = format!("Measured with {}.", line.measured);
    points_table(history, line).with_note(format!("{}:", line_name(line)), note)
}

fn line_name(line: &HistoryLine) -> String {
    let lineage = if line.lineage.is_empty() { "" } else { " · " };
    format!("{}{lineage}{}", line.row, line.lineage)
}

/// Command that shows all functions of a step. It compares the kernels' packages again; without
/// packages it reads the store.
pub fn step_command(history: &History, step: &CostStep<'_>) -> Section {
    let words =
        HistorySteps::new(step.line, history.threshold_percent).words(step.base, step.point);
    let words = match words.is_empty() {
        false => words,
        true => ["ktax", "diff", &step.base.name, &step.point.name, "-w", &step.line.row]
            .map(str::to_owned)
            .to_vec(),
    };
    let [from, to] = [step.base, step.point].map(|point| short_name(step.line, &point.kernel));
    let functions = match step.carried_by(5) {
        functions if functions.is_empty() => functions,
        functions => format!(", carried most by {functions}"),
    };
    Section::Again {
        sentence: format!(
            "{from} → {to}: {}{functions}. To see all functions of this step:",
            step.shown_percent()
        ),
        words,
    }
}

/// Folded table of commands, one for each kernel except the first. A command compares the kernel
/// with the kernel before.
fn kernel_commands(history: &History, line: &HistoryLine) -> Section {
    let mut steps = HistorySteps::new(line, history.threshold_percent);
    let pairs = line.points.windows(2);
    let lines = pairs.filter_map(|pair| {
        let command = steps.shell_line(&pair[0], &pair[1])?;
        Some(Line::new([pair[1].kernel.clone(), command]))
    });
    let columns = [("kernel", ColumnKind::Name), ("command", ColumnKind::Name)];
    let table = Table::new(columns).with_lines(lines);
    let history_command = shell_line(ktax_plan::history_command(history, line));
    let note = format!(
        "Each command compares a kernel with the kernel before, from packages of Debian. After all \
         of these commands, `{history_command}` prints these numbers from the store."
    );
    let summary = "Commands that count each kernel again".to_owned();
    Section::Folded { summary, sections: vec![table.with_note("", note)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    use ktax_model::HistoryPoint;

    #[test]
    fn a_series_is_the_first_two_numbers() {
        for (kernel, expected) in [
            ("6.1.0-50-cloud-amd64", Some((6, 1))),
            ("6.12.57+deb12-cloud-amd64", Some((6, 12))),
            ("v6.12-rc1", Some((6, 12))),
            ("before", None),
            ("7", None),
            ("99999999999.1", None),
        ] {
            assert_eq!(series(kernel), expected, "{kernel}");
        }
    }

    fn line(costs: &[u64]) -> HistoryLine {
        let point = |(place, cost): (usize, &u64)| HistoryPoint {
            position: place,
            name: String::new(),
            kernel: String::new(),
            package: None,
            boot_line: String::new(),
            tags: Vec::new(),
            values: vec![*cost],
            anchor_difference: None,
            previous_difference: None,
            functions: Vec::new(),
        };
        HistoryLine {
            row: String::new(),
            operation: String::new(),
            ops: 1,
            lineage: String::new(),
            measured: String::new(),
            asked: None,
            points: costs.iter().enumerate().map(point).collect(),
        }
    }

    #[test]
    fn bars_grow_with_the_cost() {
        assert_eq!(sparkline(&line(&[10, 10, 17, 24])), "▁▁▅█");
        assert_eq!(sparkline(&line(&[5, 5])), "▁▁");
        // A change of 0.1 % is flat, and a change of 2 % has the full height.
        assert_eq!(sparkline(&line(&[10_000, 10_010, 10_000])), "▁▁▁");
        assert_eq!(sparkline(&line(&[10_000, 10_200, 10_010])), "▁█▁");
        assert_eq!(sparkline(&line(&[])), "");
        let long: Vec<u64> = (0..100).collect();
        let bars = sparkline(&line(&long));
        assert!(bars.starts_with("…▁") && bars.ends_with('█'));
        assert_eq!(bars.chars().count(), MAX_BARS + 1);
    }
}
