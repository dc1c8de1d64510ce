//! Tables and paragraphs of a given width; comfy-table measures, wraps and aligns.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use crate::formats::TextOptions;
use ktax_host::text::{ascii, escape};
use ktax_model::Verdict;

/// Spaces between two columns: one would read as part of `9 178.25`.
pub const GAP: u16 = 2;

/// Maximum width of a line of words.
const PROSE: u16 = 100;

/// Page of a given width to which text is fitted.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Columns that a line may have.
    pub width: u16,
    colour: bool,
    ascii: bool,
}

impl Page {
    /// Returns a page for a terminal.
    pub fn new(options: TextOptions) -> Self {
        Page { width: options.width.max(40), colour: options.colour, ascii: options.ascii }
    }

    /// Escapes text from outside: nothing in it acts, and every character can be shown.
    pub fn escape(&self, text: &str) -> String {
        self.own(&escape(text))
    }

    /// Spells ktax's own text in the characters that can be shown.
    pub fn own(&self, text: &str) -> String {
        if self.ascii { ascii(text) } else { text.to_owned() }
    }

    /// Returns a page with room for an indentation.
    pub fn narrower(&self, by: u16) -> Self {
        self.wide(self.width.saturating_sub(by))
    }

    /// Wraps text, whatever is in it.
    pub fn paragraph(&self, text: &str) -> String {
        self.columns(&[[text]])
    }

    /// Writes columns, the last of which wraps. Tables may be as wide as the terminal, but longer
    /// lines of words are hard to read.
    pub fn columns<T: AsRef<str>>(&self, rows: &[impl AsRef<[T]>]) -> String {
        let page = self.wide(self.width.min(PROSE));
        let mut table = page.table();
        let escaped = |row: &[T]| -> Vec<String> {
            row.iter().map(|cell| self.escape(cell.as_ref())).collect()
        };
        table.add_rows(rows.iter().map(|row| escaped(row.as_ref())));
        let last = table.column_count().saturating_sub(1);
        page.finish(&mut table, last)
    }

    /// Returns a page of another width.
    pub fn wide(&self, width: u16) -> Self {
        Page { width, ..*self }
    }

    /// Returns an empty table.
    pub fn table(&self) -> Table {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(self.width);
        table
    }

    /// Prints a table in which only one column gives way, and that one as far as it must.
    pub fn finish(&self, table: &mut Table, elastic: usize) -> String {
        let last = table.column_count().saturating_sub(1);
        let widths = table.column_max_content_widths();
        // Numbers are never that wide; names from outside may be.
        let capped = |index: usize| widths[index].min(self.width / 2);
        let fixed: u16 = (0..widths.len())
            .filter(|index| *index != elastic)
            .map(|index| capped(index).saturating_add(GAP))
            .fold(0, u16::saturating_add);
        let room = self.width.saturating_sub(fixed).max(10);
        for (index, column) in table.column_iter_mut().enumerate() {
            let padding = if index == last { 0 } else { GAP };
            let width = if index == elastic { widths[index].min(room) } else { capped(index) };
            let width = Width::Fixed(width.saturating_add(padding));
            column.set_padding((0, padding)).set_constraint(ColumnConstraint::Absolute(width));
        }
        table.trim_fmt() + "\n"
    }

    /// Draws a line below the header of a printed table. Drawn here, because releases of
    /// comfy-table disagree on how such a line crosses the gaps between columns.
    pub fn ruled(&self, text: &str, header_lines: usize) -> String {
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let mut lines: Vec<&str> = text.lines().collect();
        let rule = self.own("─").repeat(widest);
        lines.insert(header_lines.min(lines.len()), &rule);
        lines.join("\n") + "\n"
    }

    /// Returns the word in its colour; `None` without colours.
    fn coloured(&self, verdict: Verdict) -> Option<String> {
        let code = match verdict {
            Verdict::Slower => 31,
            Verdict::Faster => 32,
            Verdict::NoDetectedChange | Verdict::BelowThreshold | Verdict::OneSide => return None,
            Verdict::TooFewBoots
            | Verdict::Inconclusive
            | Verdict::DifferentWork
            | Verdict::Failed => 33,
        };
        self.colour.then(|| format!("\x1b[{code}m{}\x1b[0m", verdict.text()))
    }

    /// Colours the verdicts of a printed table whose last column begins with them. Afterwards,
    /// because comfy-table would count the escapes as columns; and only after a gap, so that no
    /// workload that is called `slower` is taken for one. What follows the verdict stays as it is.
    pub fn colour_verdicts(&self, text: &str, verdicts: &[Verdict]) -> String {
        let mut coloured = String::with_capacity(text.len());
        for line in text.lines() {
            let (cells, cell) = line.rsplit_once("  ").unwrap_or((line, ""));
            let found = verdicts.iter().find_map(|verdict| {
                let rest = cell.strip_prefix(verdict.text())?;
                let whole = rest.is_empty() || rest.starts_with([' ', ',']);
                (whole && !cells.trim().is_empty()).then_some((self.coloured(*verdict)?, rest))
            });
            match found {
                Some((word, rest)) => coloured.extend([cells, "  ", &word, rest, "\n"]),
                None => coloured.extend([line, "\n"]),
            }
        }
        coloured
    }
}

/// Moves every line to the right.
pub fn indented(text: &str, by: u16) -> String {
    let margin = " ".repeat(usize::from(by));
    text.lines().map(|line| format!("{margin}{line}\n")).collect()
}

/// Width of a table in which nothing gives way.
pub fn natural_width(table: &Table) -> u16 {
    let cells = table.column_max_content_widths().into_iter();
    cells.map(|width| width.saturating_add(GAP)).fold(0, u16::saturating_add).saturating_sub(GAP)
}

/// Position at which a row's name is broken; the parameters follow below.
#[derive(Debug, Clone, Copy)]
pub enum Break {
    Nowhere,
    Colon,
    Commas,
}

impl Break {
    pub const ALL: [Break; 3] = [Break::Nowhere, Break::Colon, Break::Commas];

    /// Breaks a name into lines.
    pub fn apply(self, name: &str) -> String {
        match self {
            Break::Nowhere => name.to_owned(),
            Break::Colon => name.replacen(':', ":\n  ", 1),
            Break::Commas => match name.split_once(':') {
                Some((workload, params)) => format!("{workload}:{}", pack_parameters(params)),
                None => name.to_owned(),
            },
        }
    }
}

/// Columns of a line of parameters, unless one parameter is longer.
const PARAMS: usize = 24;

fn pack_parameters(params: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for param in params.split_inclusive(',') {
        match lines.last_mut().filter(|line| line.len() + param.len() <= PARAMS) {
            Some(line) => line.push_str(param),
            None => lines.push(param.to_owned()),
        }
    }
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// Right-aligns numbers.
pub fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in table.column_iter_mut() {
        if columns.contains(&column.index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}
