//! The cost of rows over kernels: a line for each row, and where the cost steps.

use crate::number::{limit, percent};
use crate::view::{
    Cell, Columns, Details, Fields, KernelLevel, KernelPoint, Kind, Legend, Levels, Line, Picture,
    Records, Report, RowDetail, Section, Table, View,
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
        let is_long = self.lines.len() > LINES_WITH_POINTS;
        let mut sections = Vec::new();
        if self.lines.len() > 1 {
            sections.push(Section::table(overview(self)));
        }
        if is_long {
            sections.push(kernels_table(self).titled("Kernels at which rows step:"));
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
        let detail = |lines| line_detail(self, lines, self.lines.len() > LINES_WITH_POINTS);
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
            point.previous_difference.as_ref().and_then(|one| one.percent)
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

/// Number of lines up to which points are shown; a page of more folds them away.
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
    checked_percent_change(from.cost(line.ops), line.points.last()?.cost(line.ops))
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

/// `12 of 62 rows step, most of all fstat: +1.22 % at 6.1.0-50 (do_statx +8.00)`.
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

/// Function and delta of each that carries a step: `do_statx 8 fput -1`.
fn functions_text(point: &HistoryPoint) -> String {
    let described = |carried: &StepFunction| format!("{} {}", carried.function, carried.delta);
    point.functions.iter().map(described).collect::<Vec<_>>().join(" ")
}

#[derive(Clone, Copy)]
pub struct CostStep<'a> {
    pub line: &'a HistoryLine,
    /// The kernel at which the cost steps.
    pub point: &'a HistoryPoint,
    /// The kernel that it is compared with: the one before, or the anchor of a slow rise.
    pub base: &'a HistoryPoint,
    /// `slower`, `faster` or `different work`.
    pub verdict: Verdict,
    /// Change in percent of the base; absent where the base costs nothing.
    pub percent: Option<f64>,
    /// The minimum detectable effect in percent; absent where it is not known.
    pub detectable_percent: Option<f64>,
}

impl<'a> CostStep<'a> {
    /// Returns the step at an index of a line, if there is one.
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

    /// Tells whether the two kernels are of different series, such as 6.1 and 6.12.
    pub fn is_between_series(&self) -> bool {
        series(&self.base.kernel) != series(&self.point.kernel)
    }

    /// Size in percent, without its sign; infinite where the base costs nothing.
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

    /// Names the functions that carry most, at most `most` of them: `do_statx +8.00, fput -1.00`.
    pub fn carried_by(&self, most: usize) -> String {
        let described = |carried: &StepFunction| {
            format!("{} {}", carried.function, number::delta(carried.delta))
        };
        let all: Vec<String> = self.point.functions.iter().take(most).map(described).collect();
        all.join(", ")
    }

    /// Answer of a step: `+1.22 % at 6.1.0-50 (do_statx +8.00)`.
    pub fn answer(&self) -> String {
        let functions = match self.carried_by(2) {
            functions if functions.is_empty() => functions,
            functions => format!(" ({functions})"),
        };
        format!("{} at {}{functions}", self.shown_percent(), short(self.line, &self.point.kernel))
    }
}

/// Returns all steps of a line, in the order of its kernels.
pub fn steps(line: &HistoryLine) -> impl Iterator<Item = CostStep<'_>> {
    (1..line.points.len()).filter_map(|index| CostStep::find(line, index))
}

/// Returns the largest step of a line: of those between series, or of those within one.
pub fn largest(line: &HistoryLine, is_between_series: bool) -> Option<CostStep<'_>> {
    let wanted = steps(line).filter(|step| step.is_between_series() == is_between_series);
    wanted.max_by(|one, other| one.size().total_cmp(&other.size()))
}

/// Returns the largest MDE of the points of a line, in percent: a line without a step would have
/// shown a larger one. `None` where no point has one.
pub fn largest_detectable(line: &HistoryLine) -> Option<f64> {
    let before = line.points.iter().filter_map(|point| point.previous_difference.as_ref());
    before.filter_map(|before| before.detectable_percent).max_by(f64::total_cmp)
}

/// Lines by row and kernels, the largest step within a series first.
pub fn by_size(history: &History) -> Vec<&[HistoryLine]> {
    let size = |line: &HistoryLine, between| largest(line, between).map_or(0.0, |step| step.size());
    let key = |lines: &[HistoryLine]| {
        let most = |between| lines.iter().map(|line| size(line, between)).fold(0.0, f64::max);
        [most(false), most(true)]
    };
    let mut all: Vec<([f64; 2], &[HistoryLine])> =
        lineages(&history.lines).map(|lines| (key(lines), lines)).collect();
    // Stable: rows with steps of one size stay in the order of their names.
    all.sort_by(|(one, _), (other, _)| {
        other[0].total_cmp(&one[0]).then(other[1].total_cmp(&one[1]))
    });
    all.into_iter().map(|(_, lines)| lines).collect()
}

/// Groups the lines of a row about the same kernels, which were measured in different ways.
pub fn lineages(lines: &[HistoryLine]) -> impl Iterator<Item = &[HistoryLine]> {
    lines.chunk_by(|one, other| one.row == other.row && one.lineage == other.lineage)
}

/// Parses the series of a kernel's name: 6 and 12 of `6.12.57+deb12-cloud-amd64` and of
/// `v6.12-rc1`; `None` where the name begins with no version.
pub fn series(kernel: &str) -> Option<(u32, u32)> {
    let version = kernel.strip_prefix('v').unwrap_or(kernel);
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub fn short<'a>(line: &HistoryLine, kernel: &'a str) -> &'a str {
    let flavour = line.lineage.split(' ').next().unwrap_or_default();
    let without = kernel.strip_suffix(flavour).and_then(|name| name.strip_suffix('-'));
    without.filter(|_| !flavour.is_empty()).unwrap_or(kernel)
}

pub fn levels_picture(history: &History, lines: &[HistoryLine]) -> Section {
    let mut kernels: Vec<(usize, String)> = lines
        .iter()
        .flat_map(|line| {
            let name = |point: &HistoryPoint| short(line, &point.kernel).to_owned();
            line.points.iter().map(move |point| (point.position, name(point)))
        })
        .collect();
    kernels.sort();
    kernels.dedup_by_key(|(place, _)| *place);
    let place = |wanted: usize| {
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
                    place: place(point.position),
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
        _ => " Where a line ends, another QEMU, guest or machine begins: the lines do not compare.",
    };
    Section::Picture {
        title: format!("{} over kernels", lines[0].row),
        picture: Picture::Levels(Levels {
            unit: metric(&history.metric).map_or("", |metric| metric.unit),
            levels,
            kernels: kernels.into_iter().map(|(_, kernel)| kernel).collect(),
        }),
        how: format!("Each dot is a kernel; a mark with a name is a step.{breaks}"),
    }
}

/// Label of a step: `6.1.0-50 +1.22 %`.
fn step_label(step: &CostStep<'_>) -> String {
    format!("{} {}", short(step.line, &step.point.kernel), step.shown_percent())
}

/// Text over a point: `6.1.0-50: 330.03, +0.31 % to the kernel before, MDE 0.10 %; do_statx +8.00`.
fn point_hover(line: &HistoryLine, point: &HistoryPoint, step: Option<CostStep<'_>>) -> String {
    let cost = number::count(point.cost(line.ops));
    let mut text = format!("{}: {cost}", short(line, &point.kernel));
    if let Some(PreviousDifference { percent, detectable_percent, .. }) = &point.previous_difference
    {
        text += &format!(", {} % to the kernel before", number::percent(*percent));
        if let Some(least) = detectable_percent {
            text += &format!(", MDE {} %", number::limit(*least));
        }
    }
    match step.map(|step| step.carried_by(2)).filter(|functions| !functions.is_empty()) {
        Some(functions) => format!("{text}; {functions}"),
        None => text,
    }
}

/// Bars from the least cost of a line to its largest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Change in percent of the least cost that has full height, where no larger one is there: the
/// noise of layouts would fill the whole height otherwise.
const FULL_PERCENT: f64 = 2.0;

/// Number of bars that a table has room for: of a longer line the newest.
const MOST: usize = 20;

/// Draws a bar for each point, from the least cost of the line up.
pub fn sparkline(line: &HistoryLine) -> String {
    let costs: Vec<f64> = shown(line).map(|index| line.points[index].cost(line.ops)).collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let most = costs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let full = (most - least).max(least * FULL_PERCENT / 100.0);
    let bar = |cost: &f64| {
        let share = if full > 0.0 { (cost - least) / full } else { 0.0 };
        BARS[(share * (BARS.len() - 1) as f64).round() as usize]
    };
    let begins = if line.points.len() > MOST { "…" } else { "" };
    begins.chars().chain(costs.iter().map(bar)).collect()
}

fn shown(line: &HistoryLine) -> impl Iterator<Item = usize> + '_ {
    line.points.len().saturating_sub(MOST)..line.points.len()
}

/// Table of where each line steps most, by how much and in which functions; the largest step first.
pub fn overview(history: &History) -> Table {
    let groups = by_size(history);
    let lines: Vec<OverviewLine<'_>> =
        groups.iter().copied().flatten().map(OverviewLine::new).collect();
    let has_series = lines.iter().any(|line| line.between.is_some());
    let has_functions = history.lines.iter().flat_map(steps).any(|step| step.has_functions());
    let at_head = if has_series { "largest step\nin a series" } else { "largest step\nat" };
    let percent = |step: Option<CostStep<'_>>| step.map(|step| number::percent(step.percent));
    let mut columns = Columns::new(&lines);
    columns.row("workload", |row| &row.line.row);
    columns.words("of", |row| &row.line.lineage).only_if(common_lineage(history).is_none());
    columns.name(at_head, OverviewLine::largest_at);
    columns.number("step\n%", |row| percent(row.within));
    columns.number("MDE\n%", |row| row.detectable.map(number::limit));
    let carried = columns.name("carried most by", |row| row.shown().map(|step| step.carried_by(1)));
    carried.away(4).only_if(has_functions);
    columns.number("between\nseries %", |row| percent(row.between)).only_if(has_series);
    columns.number("steps", |row| row.steps).away(2).extra();
    columns.name("cost over kernels", |row| sparkline(row.line)).away(1).extra();
    let from_to_head = format!("first → last\n{}", words::unit(&history.metric));
    columns.number(&from_to_head, |row| from_to(row.line)).away(0).extra();
    columns.verdict(OverviewLine::verdict).away(3);
    let mut table = columns.table();
    let leads =
        groups.iter().enumerate().flat_map(|(group, lines)| lines.iter().map(move |_| group));
    table.lines.iter_mut().zip(leads).for_each(|(line, group)| line.leads_to = Some(group));
    table
}

/// Line of the overview, with its largest steps within a series and between two.
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

    fn shown(self) -> Option<CostStep<'a>> {
        self.within.or(self.between)
    }

    fn largest_at(self) -> &'a str {
        match self.within {
            Some(step) => short(self.line, &step.point.kernel),
            None if self.line.points.len() > 1 => "none",
            None => "",
        }
    }

    /// Verdict of the largest step; `no detected change` without a step, and empty of one kernel.
    fn verdict(self) -> Cell {
        match self.shown() {
            Some(step) => step.verdict.into(),
            None if self.line.points.len() > 1 => Verdict::NoDetectedChange.into(),
            None => Cell::default(),
        }
    }
}

/// Table of how many rows step at each kernel, and which steps most.
pub fn kernels_table(history: &History) -> Table {
    let mut all: Vec<CostStep<'_>> = history.lines.iter().flat_map(steps).collect();
    fn key<'a>(step: &CostStep<'a>) -> (&'a str, usize) {
        (&step.line.lineage, step.point.position)
    }
    all.sort_by_key(key);
    let kernels = all.chunk_by(|one, other| key(one) == key(other)).map(|steps| {
        let most = steps.iter().max_by(|one, other| one.size().total_cmp(&other.size()));
        (steps, most.unwrap_or(&steps[0]))
    });
    let kernels: Vec<(&[CostStep<'_>], &CostStep<'_>)> = kernels.collect();
    let count = |verdict| {
        move |(steps, _): (&[CostStep<'_>], _)| {
            steps.iter().filter(|step| step.verdict == verdict).count()
        }
    };
    let mut columns = Columns::new(&kernels);
    columns.name("kernel", |(_, most)| &most.point.kernel);
    columns.number("rows\nslower", count(Verdict::Slower)).away(1);
    columns.number("rows\nfaster", count(Verdict::Faster)).away(1);
    columns.row("largest step", |(_, most)| &most.line.row).wraps();
    columns.number("step\n%", |(_, most)| number::percent(most.percent));
    let carried = columns.name("carried most by", |(_, most)| most.carried_by(1));
    carried.away(0).only_if(all.iter().any(CostStep::has_functions));
    columns.table()
}

/// Returns the lineage of all lines, if it is one.
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

/// Table of the points of a line: cost, distance from the kernel before and from the anchor.
fn points_table(history: &History, line: &HistoryLine) -> Table {
    let points = line.points.iter().enumerate();
    let points: Vec<(&HistoryPoint, Option<CostStep<'_>>)> =
        points.map(|(index, point)| (point, CostStep::find(line, index))).collect();
    let cost = format!("cost\n{}", words::unit(&history.metric));
    let has_tags = line.points.iter().any(|point| !point.tags.is_empty());
    let has_functions = line.points.iter().any(|point| !point.functions.is_empty());
    let mut columns = Columns::new(&points);
    columns.name("kernel", |(point, _)| &point.kernel);
    columns.words("tags", |(point, _)| point.tags.join(", ")).away(3).only_if(has_tags);
    columns.number(cost.trim_end(), |(point, _)| number::count(point.cost(line.ops)));
    columns.number("delta %", |(point, _)| {
        point.previous_difference.as_ref().map(|before| number::percent(before.percent))
    });
    let detectable = |point: &HistoryPoint| point.previous_difference.as_ref()?.detectable_percent;
    columns.number("MDE\n%", |(point, _)| detectable(point).map(number::limit)).away(4);
    let percent =
        |point: &HistoryPoint| Some(number::percent(point.anchor_difference.as_ref()?.percent));
    columns.number("to the\nanchor %", |(point, _)| percent(point)).away(1).extra();
    let anchor = |point: &HistoryPoint| line.points.get(point.anchor_difference.as_ref()?.anchor);
    let anchor = |point| anchor(point).map(|anchor| short(line, &anchor.kernel));
    columns.name("anchor", |(point, _)| anchor(point)).away(0).extra();
    let carried = columns.name("carried most by", |(_, step)| step.map(|step| step.carried_by(1)));
    carried.away(2).extra().only_if(has_functions);
    columns.verdict(|(point, _)| point.anchor_difference.as_ref().map(|against| against.verdict));
    columns.table()
}

/// Details of lines about the same kernels; with their points if no table has those yet.
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

/// Section of the points of a line, below its name.
pub fn line_points(history: &History, line: &HistoryLine) -> Section {
    let note = format!("Measured with {}.", line.measured);
    points_table(history, line).noted(format!("{}:", line_name(line)), note)
}

fn line_name(line: &HistoryLine) -> String {
    let lineage = if line.lineage.is_empty() { "" } else { " · " };
    format!("{}{lineage}{}", line.row, line.lineage)
}

/// Command that shows all functions of a step: from packages, else from the store.
pub fn step_command(history: &History, step: &CostStep<'_>) -> Section {
    let words =
        HistorySteps::new(step.line, history.threshold_percent).again(step.base, step.point);
    let words = match words.is_empty() {
        false => words,
        true => ["ktax", "diff", &step.base.name, &step.point.name, "-w", &step.line.row]
            .map(str::to_owned)
            .to_vec(),
    };
    let [from, to] = [step.base, step.point].map(|point| short(step.line, &point.kernel));
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

/// Folded commands, one for each kernel but the first: it counts that kernel and the one before it.
fn kernel_commands(history: &History, line: &HistoryLine) -> Section {
    let mut steps = HistorySteps::new(line, history.threshold_percent);
    let pairs = line.points.windows(2);
    let lines = pairs.filter_map(|pair| {
        let command = steps.shell_line(&pair[0], &pair[1])?;
        Some(Line::new([pair[1].kernel.clone(), command]))
    });
    let columns = [("kernel", Kind::Name), ("command", Kind::Name)];
    let table = Table::new(columns).with(lines);
    let shown = shell_line(ktax_plan::history_again(history, line));
    let note = format!(
        "Each command compares a kernel with the one before it, from packages of Debian. After all \
         of them, `{shown}` prints these numbers from the store."
    );
    let summary = "Commands that count each kernel again".to_owned();
    Section::Folded { summary, sections: vec![table.noted("", note)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    use ktax_model::HistoryPoint;

    #[test]
    fn a_series_is_the_first_two_numbers() {
        for (kernel, found) in [
            ("6.1.0-50-cloud-amd64", Some((6, 1))),
            ("6.12.57+deb12-cloud-amd64", Some((6, 12))),
            ("v6.12-rc1", Some((6, 12))),
            ("before", None),
            ("7", None),
            ("99999999999.1", None),
        ] {
            assert_eq!(series(kernel), found, "{kernel}");
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
    fn the_least_is_lowest_and_the_most_highest() {
        assert_eq!(sparkline(&line(&[10, 10, 17, 24])), "▁▁▅█");
        assert_eq!(sparkline(&line(&[5, 5])), "▁▁");
        // A wiggle of 0.1 % is flat, and a step of 2 % has full height.
        assert_eq!(sparkline(&line(&[10_000, 10_010, 10_000])), "▁▁▁");
        assert_eq!(sparkline(&line(&[10_000, 10_200, 10_010])), "▁█▁");
        assert_eq!(sparkline(&line(&[])), "");
        let long: Vec<u64> = (0..100).collect();
        let drawn = sparkline(&line(&long));
        assert!(drawn.starts_with("…▁") && drawn.ends_with('█'));
        assert_eq!(drawn.chars().count(), MOST + 1);
    }
}
