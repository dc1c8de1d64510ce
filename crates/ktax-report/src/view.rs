//! The content of a page, whatever its format: plain data that says what each part is. A picture
//! says what is drawn, and how large, but not how it looks; each of its numbers also stands as
//! text, in its own lines or in a table of the page.
//!
//! Text is as it came. Each format escapes it in its own way.

mod table;

pub use table::{Cell, Column, Columns, Fields, Kind, Line, Records, Table, Value};

use std::cell::OnceCell;

use crate::number;
use ktax_host::text::counted;
use ktax_model::{FORMAT, PairRatio, Ratio, Saved, SavedResult, Sides, Verdict, Warning};

/// Result that can be shown in every format.
pub trait Report {
    /// Name that tells it from others beside it: a point of a sweep, a path. Empty without others.
    fn name(&self) -> &str {
        ""
    }

    /// Builds the page for people.
    fn view(&self) -> View;

    /// Builds what stands where the page has [`Section::Rows`]. Only formats that can fold it away
    /// ask for it: it is most of a page.
    fn details(&self) -> Details {
        Details::default()
    }

    /// Lines for programs that read tables.
    fn records(&self) -> Records;

    fn result(&self) -> SavedResult;

    /// The result as it is kept on disk, with its answer in a sentence.
    fn saved(&self) -> Saved
    where
        Self: Sized,
    {
        Document::named(self.name(), self).saved()
    }
}

/// Report to be printed. Its view is built once, however many formats print it.
pub struct Document<'a> {
    pub name: &'a str,
    pub report: &'a dyn Report,
    view: OnceCell<View>,
}

impl<'a> From<&'a dyn Report> for Document<'a> {
    fn from(report: &'a dyn Report) -> Document<'a> {
        Document::named(report.name(), report)
    }
}

impl<'a> Document<'a> {
    pub fn named(name: &'a str, report: &'a dyn Report) -> Document<'a> {
        Document { name, report, view: OnceCell::new() }
    }

    /// The page; its title ends in the name.
    pub fn view(&self) -> &View {
        self.view.get_or_init(|| {
            let mut view = self.report.view();
            if !self.name.is_empty() {
                view.title = format!("{}, {}", view.title, self.name);
            }
            view
        })
    }

    /// The result as it is kept on disk, with its answer in a sentence.
    pub fn saved(&self) -> Saved {
        let (name, headline) = (self.name.to_owned(), self.view().headline.clone());
        Saved { format: FORMAT, name, headline, dir: None, result: self.report.result() }
    }

    /// Lines for programs; a name is their first value.
    pub fn records(&self) -> Records {
        let mut records = self.report.records();
        if !self.name.is_empty() {
            records.header.insert(0, "name".to_owned());
            records.lines.iter_mut().for_each(|line| line.insert(0, self.name.into()));
        }
        records
    }
}

/// Content of a page, in the order in which it is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    pub title: String,
    /// Answer in a sentence; empty where there is none.
    pub headline: String,
    /// Sides that were compared; empty where nothing was.
    pub sides: Vec<SideLine>,
    /// Heads of [`SideLine::what`] and [`SideLine::beside`]; empty where nothing is beside.
    pub side_heads: [&'static str; 2],
    /// Measurement in words; empty where it needs none.
    pub how: String,
    /// Programs that measured it, for pages that outlive a release; empty where they do not matter.
    pub measured_by: String,
    /// Words of the command that measures it again; empty where no command does.
    pub again: Vec<String>,
    /// Sections: the answer first, then what is behind it.
    pub sections: Vec<Section>,
    pub warnings: Vec<Warning>,
    /// Meaning of the numbers and the columns.
    pub legend: Legend,
}

impl View {
    /// Legend; empty where all rows of the tables failed.
    pub fn shown_legend(&self) -> Legend {
        let mut tables = self.sections.iter().filter_map(Section::as_table).peekable();
        match tables.peek().is_none() || tables.any(Table::has_numbers) {
            true => self.legend.clone(),
            false => Legend::default(),
        }
    }
}

/// Legend at the end of a page, for whoever sees such a page for the first time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Legend {
    pub sentences: Vec<String>,
    /// Words of the page, such as the head of a column, with what each means.
    pub terms: Vec<(&'static str, String)>,
}

impl Legend {
    pub fn new<T: Into<String>>(sentences: impl IntoIterator<Item = T>) -> Legend {
        Legend { sentences: sentences.into_iter().map(Into::into).collect(), terms: Vec::new() }
    }

    pub fn with<T: Into<String>>(
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
    pub what: String,
    pub beside: String,
}

/// Part of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Section {
    /// Sentences, a paragraph each.
    Sentences(Vec<String>),
    /// A table below its title, which may be empty, and above notes on it.
    Table {
        title: String,
        table: Table,
        notes: Vec<String>,
    },
    /// The functions that carry a row's delta.
    Functions(Functions),
    /// Metrics that changed beside the headline.
    AlsoChanged {
        title: String,
        changes: Vec<MetricChange>,
    },
    Notes {
        title: String,
        notes: Vec<Note>,
    },
    /// Rows without an answer, by the reason for it.
    Reasons {
        title: String,
        reasons: Vec<FailureReason>,
    },
    Items {
        title: String,
        items: Vec<String>,
    },
    /// Section for formats without pictures, where others draw one.
    InWords(Box<Section>),
    /// A picture, in formats that can draw.
    Picture {
        title: String,
        picture: Picture,
        how: String,
    },
    /// Place of the report's [`Details`], in formats that can fold them away; others have
    /// [`Functions`].
    Rows,
    /// Parts for who looks closer, in formats that can fold them away; others leave them out.
    Folded {
        /// Title that stays visible.
        summary: String,
        sections: Vec<Section>,
    },
    /// A shell's line to be copied as it is.
    Command {
        sentence: String,
        command: String,
    },
    /// A command: each format quotes its words, and breaks the line where it is too wide.
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
    /// The boots that failed: `boot`, `boots`, `12 boots of the change`; empty where it is of none.
    pub boots: String,
    /// The boot's name, or those of `boots`; empty where they are counted.
    pub name: String,
    pub rows: Vec<String>,
    pub why: String,
    /// Next step; empty where that is said already.
    pub next_step: String,
}

/// Details of each row, for readers who look closer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Details {
    pub rows: Vec<RowDetail>,
    /// Explanation of all their pictures.
    pub how: String,
}

/// Details of one row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDetail {
    pub row: String,
    /// Answer in a few words: `+404.00 instructions (+1.22 %)`.
    pub answer: String,
    pub verdict: Cell,
    pub sections: Vec<Section>,
    /// Words of the command that measures this row again; empty where no command does.
    pub again: Vec<String>,
}

impl Section {
    pub fn table(table: Table) -> Section {
        table.titled("")
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

    /// Section that formats without pictures show.
    pub fn in_words(&self) -> &Section {
        if let Section::InWords(section) = self { section } else { self }
    }

    /// Returns the table, if the section is one and has lines.
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

    /// Tells whether a format of words alone has nothing to show of it.
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
        columns.number("base →\nchange", |change| &change.from_to).away(0);
        columns.number("delta", |change| &change.delta);
        columns.number("delta %", |change| &change.percent);
        columns.verdict(|change| change.verdict.clone());
        columns.table()
    }
}

/// The functions that carry a row's delta.
#[derive(Debug, Clone, PartialEq)]
pub struct Functions {
    pub row: String,
    /// Change: `+404.00 instructions (+1.22 %, the same in every layout)`.
    pub effect: String,
    /// Size of the change in percent of the base; infinite where the base is 0.
    pub size_percent: f64,
    /// Description of one operation.
    pub operation: String,
    /// Unit of [`FunctionLine::other`].
    pub other: &'static str,
    /// True if all functions are shown, however many.
    pub is_whole: bool,
    pub lines: Vec<FunctionLine>,
    /// The call paths that carry most, if they are known.
    pub paths: Vec<PathLine>,
}

/// Place in the kernel that carries much of a row's delta.
#[derive(Debug, Clone, PartialEq)]
pub struct PathLine {
    /// The last of the functions that lead there: `vfs_open → do_dentry_open → security_file_open`.
    pub path: String,
    /// Delta per operation, with all that it calls.
    pub delta: f64,
    /// Share of the row's delta, percent.
    pub share_percent: f64,
    /// The feature that the CPU lacks, for which one Side alone goes there; `None` of most places.
    pub lacking: Option<&'static str>,
}

/// Contribution of one function, per operation.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionLine {
    pub function: String,
    /// Change minus base of what the effect counts.
    pub delta: f64,
    /// From what to what: `25.00 → 168.00`.
    pub from_to: String,
    /// Change minus base of what else it counts.
    pub other: f64,
}

/// Share of the largest delta below which a delta is noise beside it.
const NOISE_SHARE: f64 = 0.01;

/// Returns how many functions say something. Each has its delta and what else changed, the largest
/// delta first. Counted is up to the last that is no noise beside the largest of either, and at
/// least one.
pub fn telling_count(functions: &[[f64; 2]]) -> usize {
    let largest =
        [0, 1].map(|kind| functions.iter().map(|deltas| deltas[kind].abs()).fold(0.0, f64::max));
    let is_telling = |deltas: &[f64; 2]| {
        deltas
            .iter()
            .zip(largest)
            .any(|(delta, most)| *delta != 0.0 && delta.abs() >= most * NOISE_SHARE)
    };
    let last = functions.iter().rposition(is_telling);
    last.map_or(functions.len().min(1), |last| last + 1)
}

impl Functions {
    /// Returns the delta, the function, from what to what, and what else changed. There are at most
    /// `most` lines, none of a function that carries next to nothing, and one for all others
    /// together; all functions where `is_whole`.
    pub fn largest(&self, most: usize) -> Vec<[String; 4]> {
        let deltas: Vec<[f64; 2]> =
            self.lines.iter().map(|line| [line.delta, line.other]).collect();
        let most = if self.is_whole { usize::MAX } else { most.min(telling_count(&deltas)) };
        let (shown, others) = self.lines.split_at(self.lines.len().min(most));
        let line = |line: &FunctionLine| {
            let (delta, other) = (number::delta(line.delta), self.other(line.other));
            [delta, line.function.clone(), line.from_to.clone(), other]
        };
        let sum = |value: fn(&FunctionLine) -> f64| others.iter().map(value).sum::<f64>();
        let rest = (!others.is_empty()).then(|| {
            let name = format!("… {}", counted(others.len(), "more function"));
            let (delta, other) = (sum(|line| line.delta), sum(|line| line.other));
            [number::delta(delta), name, String::new(), self.other(other)]
        });
        shown.iter().map(line).chain(rest).collect()
    }

    /// `Call paths that carry most: vfs_open → security_file_open +215.00 (30 %)`, or empty.
    pub fn paths_sentence(&self) -> String {
        let described = |line: &PathLine| {
            let (delta, share) = (number::delta(line.delta), number::whole(line.share_percent));
            let why = line.lacking.map(|feature| format!(", as the CPU lacks {feature}"));
            format!("{} {delta} ({share} %{})", line.path, why.unwrap_or_default())
        };
        let texts: Vec<String> = self.paths.iter().map(described).collect();
        match texts.is_empty() {
            true => String::new(),
            false => format!("Call paths that carry most: {}", texts.join(", ")),
        }
    }

    fn other(&self, value: f64) -> String {
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
    Trail(Trail),
    Bars(Vec<Bar>),
    Steps(Steps),
    Levels(Levels),
}

/// Every row of a comparison on one axis, in percent of the base.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    /// The axis is linear up to this, and logarithmic beyond.
    pub threshold_percent: f64,
    pub lines: Vec<ForestLine>,
}

/// One row of a [`Forest`].
#[derive(Debug, Clone, PartialEq)]
pub struct ForestLine {
    pub row: String,
    /// Delta, percent; absent where there is none.
    pub percent: Option<f64>,
    pub range: Option<(f64, f64)>,
    pub detectable: Option<f64>,
    /// Delta, range and MDE as people read them.
    pub shown: [String; 3],
    /// `security_task_alloc 35 %`: the function that carries most; empty if none is known.
    pub carried: String,
    pub verdict: Cell,
}

/// A waterfall whose bars add up.
#[derive(Debug, Clone, PartialEq)]
pub struct Bridge {
    /// Unit of the counts: `instructions`.
    pub unit: &'static str,
    /// Unit of [`BridgeBar::other`].
    pub other: &'static str,
    /// The base first, the change last.
    pub bars: Vec<BridgeBar>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarKind {
    /// The base or the change: a value.
    Side,
    /// A function that both Sides execute: a difference.
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
    /// Begin and end, as differences from the base.
    pub span: (f64, f64),
    /// Value as people read it: those of the functions are the change's less the base's, to the
    /// last digit.
    pub shown: String,
    /// `25.00 → 168.00`; empty where it is no function's.
    pub from_to: String,
    /// Change of the other count; empty where there is none.
    pub other: String,
}

/// Functions below their callers, of both sides: code of one side alone has room, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Flame {
    /// Unit of the counts: `instructions`.
    pub unit: &'static str,
    /// A caller before all that it calls; the first is above all.
    pub bars: Vec<FlameBar>,
}

/// A function of a [`Flame`], where one place calls it.
#[derive(Debug, Clone, PartialEq)]
pub struct FlameBar {
    pub name: String,
    /// Number of functions above it.
    pub depth: usize,
    /// Begin of its place, in percent of the picture.
    pub from: f64,
    /// Width of its place, in percent of the picture.
    pub width: f64,
    /// Count of each side with all that it calls, in percent of its place.
    pub sides: Sides<f64>,
    /// Delta as a share of the largest, from -1 to 1; 0 within the spread of the layouts.
    pub moved: f64,
    /// Numbers as people read them.
    pub numbers: String,
    /// Numbers of its own code, without all that it calls; `None` if it did not move.
    pub own: Option<String>,
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
    /// Parameters at which two curves cross.
    pub crossings: Vec<f64>,
}

/// The cost of one Side.
#[derive(Debug, Clone, PartialEq)]
pub struct SideCurve {
    /// `base` or `change`.
    pub name: &'static str,
    /// The parameter and the cost.
    pub points: Vec<(f64, f64)>,
}

/// Timed pairs in the order in which they were measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Trail {
    pub pairs: Vec<PairRatio>,
    /// Numbers of pairs of the change after which the data were looked at.
    pub looks: Vec<usize>,
    pub ratio: Option<Ratio>,
}

/// A whole and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    pub name: String,
    /// Names and sizes, in the order in which they are drawn.
    pub parts: Vec<(String, u64)>,
}

/// Costs along a chain of elements.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    pub unit: &'static str,
    /// Noun for the elements: `commits`.
    pub elements: &'static str,
    pub last: usize,
    /// Number of elements, and the cost after them.
    pub points: Vec<(usize, f64)>,
    /// The elements after which they could not be measured.
    pub skipped: Vec<usize>,
    /// Number of elements after which the cost steps, and the name of what carries it.
    pub carriers: Vec<(usize, String)>,
}

/// Costs of a row over kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels {
    pub unit: &'static str,
    /// The kernels' names, in their order.
    pub kernels: Vec<String>,
    /// Measurements; those of one level compare with each other, and with no others.
    pub levels: Vec<KernelLevel>,
}

/// Measurements that compare with each other.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelLevel {
    pub points: Vec<KernelPoint>,
}

/// A measurement of a [`KernelLevel`].
#[derive(Debug, Clone, PartialEq)]
pub struct KernelPoint {
    /// Index of the kernel.
    pub place: usize,
    pub cost: f64,
    /// The verdict, where the cost steps.
    pub step: Option<Verdict>,
    /// Kernel and size of the step: `6.1.0-50 +1.22 %`; empty where the cost does not step.
    pub label: String,
    /// The kernel and its numbers, shown where a pointer rests on the point.
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
    fn functions_that_carry_next_to_nothing_are_left_out() {
        assert_eq!(telling_count(&[]), 0);
        assert_eq!(telling_count(&[[0.0, 0.0]]), 1);
        assert_eq!(telling_count(&[[-120.0, 0.0], [45.0, 0.0], [-0.003, 0.0], [0.003, 0.0]]), 2);
        // A line is no noise if its other count changed much.
        assert_eq!(telling_count(&[[-120.0, 0.0], [0.0, 4096.0], [0.003, 1.0]]), 2);
        // A single function is shown, however small it is.
        assert_eq!(telling_count(&[[0.003, 0.0]]), 1);
    }
}
