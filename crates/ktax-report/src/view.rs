//! The content of a page as plain data that does not depend on the format. A picture has the data
//! that a format draws, not shapes and colours. The page also shows the numbers of each picture as
//! text, in the picture's labels or in a table.
//!
//! Texts are not escaped here. Each format escapes them in its own way.

mod table;

pub use table::{Cell, Column, ColumnKind, Columns, Fields, Line, Records, Table, Value};

use std::cell::OnceCell;

use crate::number;
use ktax_host::text::counted;
use ktax_model::{FORMAT, PairRatio, Ratio, Saved, SavedResult, Sides, Verdict, Warning};

/// Result that can be shown in every format.
pub trait Report {
    /// Name that distinguishes this report from others that are printed with it, such as a point of
    /// a sweep or a path. Empty for a single report.
    fn name(&self) -> &str {
        ""
    }

    /// Builds the page for people.
    fn view(&self) -> View;

    /// Builds the details that the page shows at [`Section::Rows`]. Only formats that can fold
    /// details away call this function, because details are most of a page.
    fn details(&self) -> Details {
        Details::default()
    }

    /// Builds the lines for programs that read tables.
    fn records(&self) -> Records;

    fn result(&self) -> SavedResult;

    /// Returns the result in the form that is kept on disk, with its headline.
    fn saved(&self) -> Saved
    where
        Self: Sized,
    {
        Document::with_name(self.name(), self).saved()
    }
}

/// Report with a name, for printing. Its view is built once, even if several formats print it.
pub struct Document<'a> {
    pub name: &'a str,
    pub report: &'a dyn Report,
    view: OnceCell<View>,
}

impl<'a> From<&'a dyn Report> for Document<'a> {
    fn from(report: &'a dyn Report) -> Document<'a> {
        Document::with_name(report.name(), report)
    }
}

impl<'a> Document<'a> {
    pub fn with_name(name: &'a str, report: &'a dyn Report) -> Document<'a> {
        Document { name, report, view: OnceCell::new() }
    }

    /// Returns the page. Its title ends in the document's name.
    pub fn view(&self) -> &View {
        self.view.get_or_init(|| {
            let mut view = self.report.view();
            if !self.name.is_empty() {
                view.title = format!("{}, {}", view.title, self.name);
            }
            view
        })
    }

    /// Returns the result in the form that is kept on disk, with its headline.
    pub fn saved(&self) -> Saved {
        let (name, headline) = (self.name.to_owned(), self.view().headline.clone());
        Saved { format: FORMAT, name, headline, dir: None, result: self.report.result() }
    }

    /// Returns the lines for programs. If the document has a name, it is the first column.
    pub fn records(&self) -> Records {
        let mut records = self.report.records();
        if !self.name.is_empty() {
            records.header.insert(0, "name".to_owned());
            records.lines.iter_mut().for_each(|line| line.insert(0, self.name.into()));
        }
        records
    }
}

/// Content of a page. The fields are in the order in which formats print them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    pub title: String,
    /// Answer in one sentence; empty if the report has no answer.
    pub headline: String,
    /// Sides that were compared; empty if the report is no comparison.
    pub sides: Vec<SideLine>,
    /// Heads of [`SideLine::name`] and [`SideLine::settings`]. If the second head is empty, the
    /// settings are not shown.
    pub side_heads: [&'static str; 2],
    /// Description of the measurement; may be empty.
    pub how: String,
    /// Version of the programs that measured, because a page may be older than the ktax that reads
    /// it; may be empty.
    pub measured_by: String,
    /// Words of the command that repeats the measurement; empty if there is no such command.
    pub again: Vec<String>,
    /// Sections: the answer first, then the evidence.
    pub sections: Vec<Section>,
    pub warnings: Vec<Warning>,
    /// Explanation of the numbers and the columns.
    pub legend: Legend,
}

impl View {
    /// Returns the legend; an empty one if the page has tables and all their rows failed.
    pub fn shown_legend(&self) -> Legend {
        let mut tables = self.sections.iter().filter_map(Section::as_table).peekable();
        match tables.peek().is_none() || tables.any(Table::has_numbers) {
            true => self.legend.clone(),
            false => Legend::default(),
        }
    }
}

/// Legend at the end of a page, for readers who see such a page for the first time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Legend {
    pub sentences: Vec<String>,
    /// Terms, such as heads of columns, and their meanings.
    pub terms: Vec<(&'static str, String)>,
}

impl Legend {
    pub fn new<T: Into<String>>(sentences: impl IntoIterator<Item = T>) -> Legend {
        Legend { sentences: sentences.into_iter().map(Into::into).collect(), terms: Vec::new() }
    }

    pub fn with_terms<T: Into<String>>(
        mut self,
        terms: impl IntoIterator<Item = (&'static str, T)>,
    ) -> Legend {
        self.terms.extend(terms.into_iter().map(|(term, meaning)| (term, meaning.into())));
        self
    }
}

/// Side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideLine {
    /// `base` or `change`.
    pub side: &'static str,
    /// Name of the side's kernel, command or recording.
    pub name: String,
    /// Boot line and other settings of the side; may be empty.
    pub settings: String,
}

/// Part of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Section {
    /// Sentences. Each is a paragraph.
    Sentences(Vec<String>),
    /// A table below its title, which may be empty, and above its notes.
    Table {
        title: String,
        table: Table,
        notes: Vec<String>,
    },
    /// The functions that carry a row's delta.
    Functions(RowFunctions),
    /// Changes of Metrics other than the headline.
    AlsoChanged {
        title: String,
        changes: Vec<MetricChange>,
    },
    Notes {
        title: String,
        notes: Vec<Note>,
    },
    /// Rows without an answer, by reason.
    Reasons {
        title: String,
        reasons: Vec<FailureReason>,
    },
    Items {
        title: String,
        items: Vec<String>,
    },
    /// Replacement of a picture, for formats without pictures.
    InWords(Box<Section>),
    /// A picture; formats without pictures omit it.
    Picture {
        title: String,
        picture: Picture,
        how: String,
    },
    /// The report's [`Details`], in formats that can fold them away; other formats show
    /// [`RowFunctions`].
    Rows,
    /// Further sections, in formats that can fold them away; other formats omit them.
    Folded {
        /// Title that is visible while the sections are folded.
        summary: String,
        sections: Vec<Section>,
    },
    /// A line for a shell, already quoted. Formats print it unchanged, so that it can be copied.
    Command {
        sentence: String,
        command: String,
    },
    /// A command as words. Formats quote the words and break a line that is too wide.
    Again {
        sentence: String,
        words: Vec<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricChange {
    pub row: String,
    pub metric: String,
    pub from_to: String,
    pub delta: String,
    pub percent: String,
    pub verdict: Cell,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub row: String,
    pub text: String,
}

/// Reason for which rows have no answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureReason {
    /// Noun for the boots that failed: `boot`, `boots`, `12 boots of the change`; empty if the
    /// reason is no failed boot.
    pub boots: String,
    /// Name of the boot, or names of the boots; empty if `boots` has their number instead.
    pub name: String,
    pub rows: Vec<String>,
    pub why: String,
    /// Next step for the user; empty if `why` has it.
    pub next_step: String,
}

/// Details of all rows, for readers who want more than the answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    pub rows: Vec<RowDetail>,
    /// Explanation of the pictures in the rows.
    pub how: String,
}

/// Details of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDetail {
    pub row: String,
    /// Short answer: `+404.00 instructions (+1.22 %)`.
    pub answer: String,
    pub verdict: Cell,
    pub sections: Vec<Section>,
    /// Words of the command that measures this row again; empty if there is no such command.
    pub again: Vec<String>,
}

impl Section {
    pub fn table(table: Table) -> Section {
        table.with_title("")
    }

    pub fn sentences<T: Into<String>>(sentences: impl IntoIterator<Item = T>) -> Section {
        Section::Sentences(sentences.into_iter().map(Into::into).collect())
    }

    pub fn picture(title: impl Into<String>, picture: Picture, how: &str) -> Section {
        Section::Picture { title: title.into(), picture, how: how.to_owned() }
    }

    pub fn notes(title: impl Into<String>, notes: impl IntoIterator<Item = Note>) -> Section {
        Section::Notes { title: title.into(), notes: notes.into_iter().collect() }
    }

    /// Returns the section that formats without pictures show.
    pub fn in_words(&self) -> &Section {
        if let Section::InWords(section) = self { section } else { self }
    }

    /// Returns the table of the section; `None` for other sections and for a table without lines.
    pub fn as_table(&self) -> Option<&Table> {
        match self.in_words() {
            Section::Table { table, .. } if !table.lines.is_empty() => Some(table),
            _ => None,
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Section::Sentences(sentences) => sentences.is_empty(),
            Section::Table { table, .. } => table.lines.is_empty(),
            Section::Functions(functions) => functions.lines.is_empty(),
            Section::AlsoChanged { changes, .. } => changes.is_empty(),
            Section::Notes { notes, .. } => notes.is_empty(),
            Section::Reasons { reasons, .. } => reasons.is_empty(),
            Section::Items { items, .. } => items.is_empty(),
            Section::InWords(section) => section.is_empty(),
            Section::Picture { picture, .. } => picture.is_empty(),
            Section::Rows => false,
            Section::Folded { sections, .. } => sections.iter().all(Section::is_empty),
            Section::Command { command, .. } => command.is_empty(),
            Section::Again { words, .. } => words.is_empty(),
        }
    }

    /// Tells whether formats without pictures and folding omit the section.
    pub fn is_wordless(&self) -> bool {
        let is_for_pages =
            matches!(self, Section::Picture { .. } | Section::Rows | Section::Folded { .. });
        self.is_empty() || is_for_pages
    }
}

impl MetricChange {
    pub fn table(changes: &[MetricChange]) -> Table {
        let changes: Vec<&MetricChange> = changes.iter().collect();
        let mut columns = Columns::new(&changes);
        columns.row("workload", |change| &change.row);
        columns.words("metric", |change| &change.metric);
        columns.number("base →\nchange", |change| &change.from_to).drop_order(0);
        columns.number("delta", |change| &change.delta);
        columns.number("delta %", |change| &change.percent);
        columns.verdict(|change| change.verdict.clone());
        columns.table()
    }
}

/// The functions that carry a row's delta.
#[derive(Debug, Clone, PartialEq)]
pub struct RowFunctions {
    pub row: String,
    /// Change: `+404.00 instructions (+1.22 %, the same in every layout)`.
    pub effect: String,
    /// Size of the change in percent of the base, without its sign; infinite if the base is 0.
    pub size_percent: f64,
    /// Description of one operation.
    pub operation: String,
    /// Unit of [`FunctionLine::other`].
    pub other: &'static str,
    /// True if formats show all functions without a limit.
    pub is_complete: bool,
    pub lines: Vec<FunctionLine>,
    /// The call paths that carry most; empty if call paths are not known.
    pub paths: Vec<PathLine>,
}

/// Call path that carries much of a row's delta.
#[derive(Debug, Clone, PartialEq)]
pub struct PathLine {
    /// End of the call path: `vfs_open → do_dentry_open → security_file_open`.
    pub path: String,
    /// Delta per operation of the last function and its callees.
    pub delta: f64,
    /// Share of the row's delta, percent.
    pub share_percent: f64,
    /// CPU feature that is missing, if only one Side takes this path and takes it for that reason.
    pub lacking: Option<&'static str>,
}

/// Contribution of one function, per operation.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionLine {
    pub function: String,
    /// Change minus base, in the unit of the effect.
    pub delta: f64,
    /// Counts of base and change: `25.00 → 168.00`.
    pub from_to: String,
    /// Change minus base, in the unit [`RowFunctions::other`].
    pub other: f64,
}

/// Share of the largest delta below which a delta is noise.
const NOISE_SHARE: f64 = 0.01;

/// Returns how many functions to show. Each function has two deltas (of the deciding count and of
/// the other), and the functions are sorted by the first delta, the largest first. The number
/// includes the last function with a delta that is no noise, and is at least 1.
pub fn significant_count(functions: &[[f64; 2]]) -> usize {
    let largest =
        [0, 1].map(|kind| functions.iter().map(|deltas| deltas[kind].abs()).fold(0.0, f64::max));
    let is_significant = |deltas: &[f64; 2]| {
        deltas
            .iter()
            .zip(largest)
            .any(|(delta, largest)| *delta != 0.0 && delta.abs() >= largest * NOISE_SHARE)
    };
    let last = functions.iter().rposition(is_significant);
    last.map_or(functions.len().min(1), |last| last + 1)
}

impl RowFunctions {
    /// Returns lines of delta, function, counts of both sides, and other delta: of at most `limit`
    /// functions (without functions that carry next to nothing; all if `is_complete`), and a last
    /// line with the sum of the others.
    pub fn largest(&self, limit: usize) -> Vec<[String; 4]> {
        let deltas: Vec<[f64; 2]> =
            self.lines.iter().map(|line| [line.delta, line.other]).collect();
        let count =
            if self.is_complete { usize::MAX } else { limit.min(significant_count(&deltas)) };
        let (shown, others) = self.lines.split_at(self.lines.len().min(count));
        let line = |line: &FunctionLine| {
            let (delta, other) = (number::delta(line.delta), self.other_text(line.other));
            [delta, line.function.clone(), line.from_to.clone(), other]
        };
        let sum = |value: fn(&FunctionLine) -> f64| others.iter().map(value).sum::<f64>();
        let rest = (!others.is_empty()).then(|| {
            let name = format!("… {}", counted(others.len(), "more function"));
            let (delta, other) = (sum(|line| line.delta), sum(|line| line.other));
            [number::delta(delta), name, String::new(), self.other_text(other)]
        });
        shown.iter().map(line).chain(rest).collect()
    }

    /// Returns `Call paths that carry most: vfs_open → security_file_open +215.00 (30 %)`; empty
    /// without call paths.
    pub fn paths_sentence(&self) -> String {
        let path_text = |line: &PathLine| {
            let (delta, share) = (number::delta(line.delta), number::whole(line.share_percent));
            let why = line.lacking.map(|feature| format!(", as the CPU lacks {feature}"));
            format!("{} {delta} ({share} %{})", line.path, why.unwrap_or_default())
        };
        let texts: Vec<String> = self.paths.iter().map(path_text).collect();
        match texts.is_empty() {
            true => String::new(),
            false => format!("Call paths that carry most: {}", texts.join(", ")),
        }
    }

    fn other_text(&self, value: f64) -> String {
        match value {
            0.0 => String::new(),
            value => format!("{} {}", self.other, number::delta(value)),
        }
    }
}

/// Picture that a page can draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Picture {
    Forest(Forest),
    Bridge(Bridge),
    Flame(Flame),
    Dots(Dots),
    Curves(Curves),
    Trail(PairTrail),
    Bars(Vec<StackedBar>),
    Steps(ChainCosts),
    Levels(KernelLevels),
}

/// Forest plot: the deltas of all rows on one axis, in percent of the base.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    /// Value up to which the axis is linear; above it the axis is logarithmic.
    pub threshold_percent: f64,
    pub lines: Vec<ForestLine>,
}

/// One row of a [`Forest`].
#[derive(Debug, Clone, PartialEq)]
pub struct ForestLine {
    pub row: String,
    /// Delta, percent; `None` if the row has no delta.
    pub percent: Option<f64>,
    pub range: Option<(f64, f64)>,
    pub detectable: Option<f64>,
    /// Texts of delta, range and MDE.
    pub shown: [String; 3],
    /// Function that carries most, `security_task_alloc 35 %`; empty if none is known.
    pub carried: String,
    pub verdict: Cell,
}

/// Waterfall chart: bars that add up from the base to the change.
#[derive(Debug, Clone, PartialEq)]
pub struct Bridge {
    /// Unit of the counts: `instructions`.
    pub unit: &'static str,
    /// Unit of [`BridgeBar::other`].
    pub other: &'static str,
    /// Bars, of which the first is the base and the last is the change.
    pub bars: Vec<BridgeBar>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    /// The value of the base or of the change.
    Side,
    /// The delta of a function that both Sides execute.
    Both,
    /// A function that only the change executes.
    New,
    /// A function that only the base executes.
    Gone,
}

/// A bar of a [`Bridge`].
#[derive(Debug, Clone, PartialEq)]
pub struct BridgeBar {
    pub name: String,
    pub kind: BarKind,
    /// Start and end, as differences from the base.
    pub span: (f64, f64),
    /// Text of the value. The printed values of the functions add up exactly to change minus base.
    pub shown: String,
    /// Counts of both Sides, `25.00 → 168.00`; empty if the bar is no function.
    pub from_to: String,
    /// Delta of the other count; empty if it did not change.
    pub other: String,
}

/// Flame graph of both sides: functions below their callers. Functions of only one side have a bar,
/// too.
#[derive(Debug, Clone, PartialEq)]
pub struct Flame {
    /// Unit of the counts: `instructions`.
    pub unit: &'static str,
    /// Bars in depth-first order: a caller comes before its callees. The first bar is the root.
    pub bars: Vec<FlameBar>,
}

/// A function of a [`Flame`], on one call path.
#[derive(Debug, Clone, PartialEq)]
pub struct FlameBar {
    pub name: String,
    /// Number of callers above this bar.
    pub depth: usize,
    /// Left edge, in percent of the picture.
    pub start: f64,
    /// Width, in percent of the picture.
    pub width: f64,
    /// Count of each side including callees, in percent of the bar's width.
    pub sides: Sides<f64>,
    /// Delta as a share of the largest delta, from -1 to 1; 0 within the spread of the layouts.
    pub delta_share: f64,
    /// Text of the counts including callees.
    pub numbers: String,
    /// Text of the counts without callees; `None` if these did not change.
    pub own_numbers: Option<String>,
}

/// Values of each Layout, per operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Dots {
    /// Base and change of each Layout.
    pub layouts: Vec<(f64, f64)>,
    /// The Layout whose delta is the median.
    pub median: usize,
}

/// Costs over a parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    pub parameter: String,
    /// Name and unit of the cost.
    pub cost: String,
    pub curves: Vec<SideCurve>,
    /// Values of the parameter at which two curves cross.
    pub crossings: Vec<f64>,
}

/// The cost of one Side.
#[derive(Debug, Clone, PartialEq)]
pub struct SideCurve {
    /// `base` or `change`.
    pub name: &'static str,
    /// Pairs of parameter and cost.
    pub points: Vec<(f64, f64)>,
}

/// Timed pairs in the order in which they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct PairTrail {
    pub pairs: Vec<PairRatio>,
    /// Interim looks of the sequential test: numbers of change pairs after which the test was
    /// evaluated.
    pub looks: Vec<usize>,
    pub ratio: Option<Ratio>,
}

/// Bar of a total and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackedBar {
    pub name: String,
    /// Names and sizes of the parts, in the order of drawing.
    pub parts: Vec<(String, u64)>,
}

/// Costs along a chain of elements, such as commits.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainCosts {
    pub unit: &'static str,
    /// Noun for the elements: `commits`.
    pub elements: &'static str,
    /// Number of all elements: the right end of the axis.
    pub last: usize,
    /// Number of applied elements, and the cost with them.
    pub points: Vec<(usize, f64)>,
    /// Numbers of applied elements at which the cost could not be measured.
    pub skipped: Vec<usize>,
    /// Number of applied elements at which the cost steps, and the name of the element that carries
    /// the step.
    pub carriers: Vec<(usize, String)>,
}

/// Costs of a row over kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelLevels {
    pub unit: &'static str,
    /// Names of the kernels, from the oldest to the newest.
    pub kernels: Vec<String>,
    /// Groups of measurements. Measurements of different groups are not comparable.
    pub levels: Vec<KernelLevel>,
}

/// Measurements that are comparable with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelLevel {
    pub points: Vec<KernelPoint>,
}

/// A measurement of a [`KernelLevel`].
#[derive(Debug, Clone, PartialEq)]
pub struct KernelPoint {
    /// Index of the kernel in [`KernelLevels::kernels`].
    pub kernel: usize,
    pub cost: f64,
    /// Verdict of the step; `None` if the cost does not step here.
    pub step: Option<Verdict>,
    /// Kernel and size of the step: `6.1.0-50 +1.22 %`; empty if the cost does not step here.
    pub label: String,
    /// Kernel and numbers that the page shows while the mouse points at the measurement.
    pub hover: String,
}

impl Picture {
    pub fn is_empty(&self) -> bool {
        match self {
            Picture::Forest(forest) => forest.lines.is_empty(),
            Picture::Bridge(bridge) => bridge.bars.is_empty(),
            Picture::Flame(flame) => flame.bars.is_empty(),
            Picture::Dots(dots) => dots.layouts.is_empty(),
            Picture::Curves(curves) => curves.curves.iter().all(|curve| curve.points.len() < 2),
            Picture::Trail(trail) => trail.pairs.is_empty(),
            Picture::Bars(bars) => bars.iter().all(|bar| bar.parts.is_empty()),
            Picture::Steps(steps) => steps.points.len() < 2,
            Picture::Levels(levels) => levels.kernels.len() < 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_with_negligible_deltas_are_left_out() {
        assert_eq!(significant_count(&[]), 0);
        assert_eq!(significant_count(&[[0.0, 0.0]]), 1);
        assert_eq!(
            significant_count(&[[-120.0, 0.0], [45.0, 0.0], [-0.003, 0.0], [0.003, 0.0]]),
            2
        );
        // A function is shown if its other delta is large.
        assert_eq!(significant_count(&[[-120.0, 0.0], [0.0, 4096.0], [0.003, 1.0]]), 2);
        // A single function is shown, however small it is.
        assert_eq!(significant_count(&[[0.003, 0.0]]), 1);
    }
}
