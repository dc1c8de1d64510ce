//! The content of a page, whatever its format: plain data that says what each part is.
//!
//! Text is as it came. Each format escapes it in its own way.

mod picture;
mod table;

pub use picture::{
    Bar, BarKind, Bridge, BridgeBar, Curves, Dots, Flame, FlameBar, Forest, ForestLine,
    KernelLevel, KernelPoint, Levels, Picture, SideCurve, Steps, Trail,
};
pub use table::{Cell, Column, Kind, Line, Table};

use crate::number;
use ktax_host::text::counted;
use ktax_model::{FORMAT, Saved, SavedResult, Warning};

/// Content of a page, in the order in which it is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    /// Title in one line.
    pub title: String,
    /// Answer in a sentence; empty where there is none.
    pub headline: String,
    /// Sides that were compared; empty where nothing was.
    pub sides: Vec<SideLine>,
    /// Heads of [`SideLine::what`] and [`SideLine::beside`]: `kernel`, `boot line`. The second is
    /// empty where there is nothing beside.
    pub side_heads: [&'static str; 2],
    /// Measurement in words; empty where it needs none.
    pub how: String,
    /// Programs that measured it, for pages that outlive a release; empty where they do not matter.
    pub measured_by: String,
    /// Words of the command that measures it again; empty where no command does.
    pub again: Vec<String>,
    /// Sections: the answer first, then what is behind it.
    pub sections: Vec<Section>,
    /// Facts to know, with what to do.
    pub warnings: Vec<Warning>,
    /// Meaning of the numbers and the columns.
    pub legend: Legend,
}

impl View {
    /// Returns the legend of a page that has something to explain: not of a table whose rows all
    /// failed.
    pub fn shown_legend(&self) -> Legend {
        let tables = || self.sections.iter().filter_map(Section::as_table);
        match tables().next().is_none() || tables().any(Table::has_numbers) {
            true => self.legend.clone(),
            false => Legend::default(),
        }
    }
}

/// Legend at the end of a page, for whoever sees such a page for the first time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Legend {
    /// Sentences about all numbers.
    pub sentences: Vec<String>,
    /// Words of the page, such as the head of a column, with what each means.
    pub terms: Vec<(&'static str, String)>,
}

impl Legend {
    /// Returns a legend of sentences alone.
    pub fn new<T: Into<String>>(sentences: impl IntoIterator<Item = T>) -> Legend {
        Legend { sentences: sentences.into_iter().map(Into::into).collect(), terms: Vec::new() }
    }

    /// Adds terms.
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
    /// Kernel or command.
    pub what: String,
    /// Settings beside that.
    pub beside: String,
}

/// Result that can be shown in every format.
pub trait Report {
    /// Returns the page for people.
    fn view(&self) -> View;

    /// Returns the lines for programs that read tables.
    fn records(&self) -> Records;

    /// Returns the whole result.
    fn result(&self) -> SavedResult;

    /// Returns the result as it is kept on disk, with its answer in a sentence.
    fn saved(&self) -> Saved {
        let headline = self.view().headline;
        Saved { format: FORMAT, name: String::new(), headline, dir: None, result: self.result() }
    }
}

/// Unrounded lines for programs that read tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// Names of the columns.
    pub header: Vec<String>,
    /// Lines, with one value for each column.
    pub lines: Vec<Vec<Value>>,
}

/// Value in a column of [`Records`].
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Nothing,
    /// Text, which may be from outside.
    Text(String),
    /// Count.
    Count(u64),
    /// Number.
    Number(f64),
    /// Truth value.
    Flag(bool),
}

impl Records {
    /// Returns records without lines.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Records {
        Records { header: header.into_iter().map(Into::into).collect(), lines: Vec::new() }
    }

    /// Adds a line; missing values at its end are empty.
    pub fn push(&mut self, line: impl IntoIterator<Item = Value>) {
        let mut line: Vec<Value> = line.into_iter().collect();
        line.resize(self.header.len(), Value::Nothing);
        self.lines.push(line);
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Value {
        Value::Count(count as u64)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Nothing, Into::into)
    }
}

/// Part of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Section {
    /// Sentences, a paragraph each.
    Sentences(Vec<String>),
    /// A table below its title, which may be empty, and above notes on it.
    Table {
        /// Title.
        title: String,
        /// The table.
        table: Table,
        /// Sentences on it.
        notes: Vec<String>,
    },
    /// The functions that carry a row's delta.
    Functions(Functions),
    /// Metrics that changed beside the headline.
    AlsoChanged {
        /// Title.
        title: String,
        /// One for each row and Metric.
        changes: Vec<MetricChange>,
    },
    /// Notes on single rows.
    Notes {
        /// Title.
        title: String,
        /// One for each.
        notes: Vec<Note>,
    },
    /// Rows without an answer, by the reason for it.
    Reasons {
        /// Title.
        title: String,
        /// One for each reason.
        reasons: Vec<FailureReason>,
    },
    /// A list.
    Items {
        /// Title.
        title: String,
        /// One for each.
        items: Vec<String>,
    },
    /// Section for formats without pictures, where others draw one.
    InWords(Box<Section>),
    /// A picture, in formats that can draw.
    Picture {
        /// Title.
        title: String,
        /// The picture.
        picture: Picture,
        /// Explanation below the picture.
        how: String,
    },
    /// Details of each row, in formats that can fold them away; others have [`Functions`].
    Rows {
        /// One for each.
        rows: Vec<RowDetail>,
        /// Explanation of all their pictures.
        how: String,
    },
    /// Parts for who looks closer, in formats that can fold them away; others leave them out.
    Folded {
        /// Title that stays visible.
        summary: String,
        /// The parts.
        sections: Vec<Section>,
    },
    /// A shell's line to be copied as it is.
    Command {
        /// Sentence that says what the command does.
        sentence: String,
        /// The line.
        command: String,
    },
    /// A command that measures or shows more: each format quotes its words, and breaks the line
    /// where it is too wide.
    Again {
        /// Sentence that says what the command does.
        sentence: String,
        /// The words.
        words: Vec<String>,
    },
}

/// Change of a Metric of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricChange {
    /// The row.
    pub row: String,
    /// The Metric.
    pub metric: String,
    /// From what to what.
    pub from_to: String,
    /// By how much.
    pub delta: String,
    /// By how much in percent.
    pub percent: String,
    /// The Metric's Verdict.
    pub verdict: Cell,
}

/// Note on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The row.
    pub row: String,
    /// The sentence.
    pub text: String,
}

/// Reason for which rows have no answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureReason {
    /// The boots that failed: `boot`, `boots`, `12 boots of the change`; empty where it is of none.
    pub boots: String,
    /// The boot's name, or those of `boots`; empty where they are counted.
    pub name: String,
    /// The rows.
    pub rows: Vec<String>,
    /// Reason.
    pub why: String,
    /// Next step; empty where that is said already.
    pub next_step: String,
}

/// Details of one row, for readers who look closer.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDetail {
    /// The row.
    pub row: String,
    /// Answer in a few words: `+404.00 instructions (+1.22 %)`.
    pub answer: String,
    /// Verdict.
    pub verdict: Cell,
    /// Sections behind the answer.
    pub sections: Vec<Section>,
    /// Words of the command that measures this row again; empty where no command does.
    pub again: Vec<String>,
}

impl Section {
    /// Returns a section of a table without title and notes.
    pub fn table(table: Table) -> Section {
        Section::Table { title: String::new(), table, notes: Vec::new() }
    }

    /// Returns the table, if the section is one and has lines.
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Section::Table { table, .. } if !table.lines.is_empty() => Some(table),
            Section::InWords(section) => section.as_table(),
            _ => None,
        }
    }

    /// Tells whether there is nothing to show.
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
            Section::Rows { rows, .. } => rows.is_empty(),
            Section::Folded { sections, .. } => sections.iter().all(Section::is_empty),
            Section::Command { command, .. } => command.is_empty(),
            Section::Again { words, .. } => words.is_empty(),
        }
    }

    /// Tells whether a format of words alone has nothing to show of it.
    pub fn is_wordless(&self) -> bool {
        let is_for_pages =
            matches!(self, Section::Picture { .. } | Section::Rows { .. } | Section::Folded { .. });
        self.is_empty() || is_for_pages
    }
}

impl MetricChange {
    /// Returns all changes as a table.
    pub fn table(changes: &[MetricChange]) -> Table {
        const COLUMNS: [(&str, Kind); 6] = [
            ("workload", Kind::Row),
            ("metric", Kind::Words),
            ("base →\nchange", Kind::Number),
            ("delta", Kind::Number),
            ("delta %", Kind::Number),
            ("verdict", Kind::Verdict),
        ];
        let lines = changes.iter().map(|change| {
            let words =
                [&change.row, &change.metric, &change.from_to, &change.delta, &change.percent];
            Line::new(words.map(String::as_str)).and(change.verdict.clone())
        });
        Table { gives_way: vec![vec![2]], ..Table::new(COLUMNS) }.with(lines)
    }
}

/// The functions that carry a row's delta.
#[derive(Debug, Clone, PartialEq)]
pub struct Functions {
    /// The row.
    pub row: String,
    /// Change: `+404.00 instructions (+1.22 %, the same in every layout)`.
    pub effect: String,
    /// Size of the change in percent of the base; infinite where the base is 0.
    pub size_percent: f64,
    /// Description of one operation.
    pub operation: String,
    /// Unit of [`FunctionLine::other`].
    pub other: &'static str,
    /// Whether all functions are shown, however many.
    pub is_whole: bool,
    /// The largest first.
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
    /// Symbol of the function.
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

    /// Sentence about the call paths: `Call paths that carry most: vfs_open → security_file_open
    /// +215.00 (30 %)`; empty where none carries much.
    pub fn paths_sentence(&self) -> String {
        let one = |line: &PathLine| {
            let (delta, share) = (number::delta(line.delta), number::whole(line.share_percent));
            let why = line.lacking.map(|feature| format!(", as the CPU lacks {feature}"));
            format!("{} {delta} ({share} %{})", line.path, why.unwrap_or_default())
        };
        let all: Vec<String> = self.paths.iter().map(one).collect();
        match all.is_empty() {
            true => String::new(),
            false => format!("Call paths that carry most: {}", all.join(", ")),
        }
    }

    fn other(&self, value: f64) -> String {
        match value {
            0.0 => String::new(),
            value => format!("{} {}", self.other, number::delta(value)),
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
        // What else changed much is no noise.
        assert_eq!(telling_count(&[[-120.0, 0.0], [0.0, 4096.0], [0.003, 1.0]]), 2);
        // A single function is shown, however small it is.
        assert_eq!(telling_count(&[[0.003, 0.0]]), 1);
    }
}
