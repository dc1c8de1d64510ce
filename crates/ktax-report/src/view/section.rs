use super::functions::Functions;
use super::picture::Picture;
use super::table::{Cell, Kind, Line, Table};

/// A part of a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Section {
    /// Sentences, a paragraph each.
    Sentences(Vec<String>),
    /// A table below its title, which may be empty, and above notes on it.
    Table {
        /// What it is of.
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
        /// What they are.
        title: String,
        /// One for each row and Metric.
        changes: Vec<MetricChange>,
    },
    /// What is to be said of single rows.
    Notes {
        /// What they say.
        title: String,
        /// One for each.
        notes: Vec<Note>,
    },
    /// Rows without an answer, by the reason for it.
    Reasons {
        /// What follows from them.
        title: String,
        /// One for each reason.
        reasons: Vec<FailureReason>,
    },
    /// A list.
    Items {
        /// What it is of.
        title: String,
        /// One for each.
        items: Vec<String>,
    },
    /// What formats without pictures show where others draw one.
    InWords(Box<Section>),
    /// A picture, in formats that can draw.
    Picture {
        /// What it shows.
        title: String,
        /// The picture.
        picture: Picture,
        /// How to read it.
        how: String,
    },
    /// What is known of each row, in formats that can fold it away; others have [`Functions`].
    Rows {
        /// One for each.
        rows: Vec<RowDetail>,
        /// How to read the pictures of them all.
        how: String,
    },
    /// Parts for who looks closer, in formats that can fold them away; others leave them out.
    Folded {
        /// What is folded away.
        summary: String,
        /// The parts.
        sections: Vec<Section>,
    },
    /// A shell's line to be copied as it is.
    Command {
        /// What it does.
        sentence: String,
        /// The line.
        command: String,
    },
    /// A command that measures or shows more: each format quotes its words, and breaks the line
    /// where it is too wide.
    Again {
        /// What it does.
        sentence: String,
        /// The words.
        words: Vec<String>,
    },
}

/// A Metric of a row that changed.
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

/// What is to be said of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The row.
    pub row: String,
    /// The sentence.
    pub text: String,
}

/// Why rows have no answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureReason {
    /// The boots that failed: `boot`, `boots`, `12 boots of the change`; empty where it is of none.
    pub boots: String,
    /// The boot's name, or those of `boots`; empty where they are counted.
    pub name: String,
    /// The rows.
    pub rows: Vec<String>,
    /// Why.
    pub why: String,
    /// What to do; empty where that is said already.
    pub next_step: String,
}

/// What is known of one row, for who looks closer.
#[derive(Debug, Clone, PartialEq)]
pub struct RowDetail {
    /// The row.
    pub row: String,
    /// Its answer in some words: `+404.00 instructions (+1.22 %)`.
    pub answer: String,
    /// What follows.
    pub verdict: Cell,
    /// What is behind it.
    pub sections: Vec<Section>,
    /// The words of the command line that measures this row again; empty where no one does.
    pub again: Vec<String>,
}

impl Section {
    /// A table without title and notes.
    pub fn table(table: Table) -> Section {
        Section::Table { title: String::new(), table, notes: Vec::new() }
    }

    /// The table, if it is one and has lines.
    pub fn as_table(&self) -> Option<&Table> {
        match self {
            Section::Table { table, .. } if !table.lines.is_empty() => Some(table),
            Section::InWords(section) => section.as_table(),
            _ => None,
        }
    }

    /// Whether there is nothing to show.
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

    /// Whether a format of words alone has nothing to show of it.
    pub fn is_wordless(&self) -> bool {
        let is_for_pages =
            matches!(self, Section::Picture { .. } | Section::Rows { .. } | Section::Folded { .. });
        self.is_empty() || is_for_pages
    }
}

impl MetricChange {
    /// All of them as a table.
    pub fn table(changes: &[MetricChange]) -> Table {
        const COLUMNS: [(&str, Kind); 6] = [
            ("workload", Kind::Row),
            ("metric", Kind::Words),
            ("base →\nchange", Kind::Number),
            ("delta", Kind::Number),
            ("delta %", Kind::Number),
            ("verdict", Kind::Verdict),
        ];
        let lines = changes.iter().map(|it| {
            let words = [&it.row, &it.metric, &it.from_to, &it.delta, &it.percent];
            Line::of(words.map(String::as_str)).and(it.verdict.clone())
        });
        Table { gives_way: vec![vec![2]], ..Table::of(COLUMNS) }.with(lines)
    }
}
