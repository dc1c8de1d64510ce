//! Paragraphs and tables of a given width. This module decides which columns fit, where names are
//! broken and which columns are left out; comfy-table wraps, aligns and pads the cells.

use std::ops::Range;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, Width};
use unicode_width::UnicodeWidthStr;

use crate::formats::TextOptions;
use crate::view::{Cell, ColumnKind, Table};
use ktax_host::text::{ascii, escape};
use ktax_model::Verdict;

/// Spaces between two columns. One space would look like part of a number: `9 178.25`.
const GAP: usize = 2;

/// Maximum width of a line of a paragraph.
const MAX_PROSE_WIDTH: usize = 100;

/// Page of a given width to which text is fitted.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Columns that a line may have.
    pub width: usize,
    colour: bool,
    ascii: bool,
}

impl Page {
    pub fn new(options: TextOptions) -> Self {
        let width = usize::from(options.width.max(40));
        Page { width, colour: options.colour, ascii: options.ascii }
    }

    /// Escapes text from outside: control characters, and characters that the page cannot show.
    pub fn escape(&self, text: &str) -> String {
        self.spell(&escape(text))
    }

    /// Spells ktax's own text in ASCII if the page can only show ASCII.
    pub fn spell(&self, text: &str) -> String {
        if self.ascii { ascii(text) } else { text.to_owned() }
    }

    /// Returns a page with room for an indentation.
    pub fn narrower(&self, by: usize) -> Self {
        self.with_width(self.width.saturating_sub(by))
    }

    fn with_width(&self, width: usize) -> Self {
        Page { width, ..*self }
    }

    /// Escapes and wraps text.
    pub fn paragraph(&self, text: &str) -> String {
        self.columns(&[[text]])
    }

    /// Writes columns, the last of which wraps. The lines are at most [`MAX_PROSE_WIDTH`] wide,
    /// because longer lines of words are hard to read.
    pub fn columns<T: AsRef<str>>(&self, rows: &[impl AsRef<[T]>]) -> String {
        let cells = |row: &[T]| row.iter().map(|cell| self.escape(cell.as_ref())).collect();
        let mut grid = grid(rows.iter().map(|row| cells(row.as_ref())), &[]);
        let last = grid.column_count().saturating_sub(1);
        self.with_width(self.width.min(MAX_PROSE_WIDTH)).print(grid, last)
    }

    /// Prints a table. If it is too wide, the column `elastic` is made narrower and wraps.
    pub fn print(&self, mut grid: comfy_table::Table, elastic: usize) -> String {
        let mut widths: Vec<usize> =
            grid.column_max_content_widths().into_iter().map(usize::from).collect();
        // Other columns have at most half the page, because names from outside may be very long.
        let others = widths.iter_mut().enumerate().filter(|(index, _)| *index != elastic);
        let fixed: usize = others
            .map(|(_, width)| {
                *width = (*width).min(self.width / 2);
                *width + GAP
            })
            .sum();
        if let Some(width) = widths.get_mut(elastic) {
            *width = (*width).min(self.width.saturating_sub(fixed).max(10));
        }
        for (column, width) in grid.column_iter_mut().zip(widths) {
            let width = u16::try_from(width + GAP).unwrap_or(u16::MAX);
            column.set_padding((0, GAP as u16));
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
        }
        grid.trim_fmt() + "\n"
    }

    /// Prints a table with a header and a line below the header.
    fn print_with_header(
        &self,
        heads: &[&str],
        rows: &[Vec<String>],
        right: &[bool],
        elastic: usize,
    ) -> String {
        let lines = heads.iter().map(|name| name.lines().count()).max().unwrap_or(1);
        let header = heads.iter().map(|head| self.spell(head)).collect();
        let row = |row: &Vec<String>| row.iter().map(|cell| self.escape(cell)).collect();
        let grid = grid([header].into_iter().chain(rows.iter().map(row)), right);
        self.add_rule(&self.print(grid, elastic), lines)
    }

    /// Draws a line below the header of a printed table.
    fn add_rule(&self, text: &str, header_lines: usize) -> String {
        let width = |line: &str| line.chars().filter(|c| *c != MARK).count();
        let widest = text.lines().map(width).max().unwrap_or(0);
        let mut lines: Vec<&str> = text.lines().collect();
        let rule = self.spell("─").repeat(widest);
        lines.insert(header_lines.min(lines.len()), &rule);
        lines.join("\n") + "\n"
    }
}

pub fn indented(text: &str, by: usize) -> String {
    let margin = " ".repeat(by);
    text.lines().map(|line| format!("{margin}{line}\n")).collect()
}

/// Sentence about the columns that a page of this width leaves out.
pub fn omitted(heads: &str, page: &Page) -> String {
    format!("Omitted to fit {} columns: {heads}; --json has all.", page.width)
}

/// Grid of rows. Columns for which `right` is true are aligned to the right.
pub fn grid(rows: impl Iterator<Item = Vec<String>>, right: &[bool]) -> comfy_table::Table {
    let mut grid = comfy_table::Table::new();
    grid.load_preset(NOTHING).add_rows(rows);
    for (column, _) in grid.column_iter_mut().zip(right).filter(|(_, is_right)| **is_right) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid
}

/// Width of a grid in which no cell wraps.
pub fn grid_width(grid: &comfy_table::Table) -> usize {
    let widths = grid.column_max_content_widths().into_iter();
    widths.map(|width| usize::from(width) + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Width of the widest line.
fn natural_width(text: &str) -> usize {
    if text.is_ascii() && !text.contains('\n') {
        return text.len();
    }
    text.split('\n').map(UnicodeWidthStr::width).max().unwrap_or(0)
}

/// How the name of a row, `WORKLOAD:PARAMETERS`, is broken into lines.
#[derive(Debug, Clone, Copy, PartialEq)]
enum NameBreak {
    Nowhere,
    /// After the colon: the parameters are on a second line.
    Colon,
    /// After the colon and after commas: the parameters are on several lines.
    Commas,
}

impl NameBreak {
    const ALL: [NameBreak; 3] = [NameBreak::Nowhere, NameBreak::Colon, NameBreak::Commas];

    /// Breaks a name into lines.
    fn apply(self, name: &str) -> String {
        match (self, name.split_once(':')) {
            (NameBreak::Colon, Some((workload, params))) => format!("{workload}:\n  {params}"),
            (NameBreak::Commas, Some((workload, params))) => {
                format!("{workload}:{}", pack_parameters(params))
            }
            _ => name.to_owned(),
        }
    }
}

/// Maximum width of a line of parameters, unless a single parameter is longer.
const MAX_PARAMETERS_WIDTH: usize = 24;

fn pack_parameters(params: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for param in params.split_inclusive(',') {
        match lines.last_mut().filter(|line| line.len() + param.len() <= MAX_PARAMETERS_WIDTH) {
            Some(line) => line.push_str(param),
            None => lines.push(param.to_owned()),
        }
    }
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

/// Text of a table, and the heads of the columns that were left out for lack of room.
pub struct TableText {
    pub text: String,
    pub left_out: Vec<String>,
}

impl TableText {
    /// Returns a sentence with the omitted columns; empty if the table has all.
    pub fn note(&self, page: &Page) -> String {
        match self.left_out.is_empty() {
            true => String::new(),
            false => page.paragraph(&omitted(&self.left_out.join(", "), page)),
        }
    }
}

/// Draws a table with all columns if there is room, else with row names on several lines, else
/// without some of the columns that may be left out. A table that can be split becomes several
/// tables with the same first column instead.
pub fn draw(table: &Table, page: &Page) -> TableText {
    let fitting = Fitting::new(table, page);
    let all = 0..table.columns.len();
    if table.can_split {
        let parts = fitting.parts();
        let texts: Vec<String> =
            parts.iter().map(|part| fitting.draw(std::slice::from_ref(part)).0).collect();
        return TableText { text: texts.join("\n"), left_out: Vec::new() };
    }
    let groups = 0..=table.drop_groups.len();
    let choices: Vec<Vec<usize>> = groups
        .map(|groups| {
            let left_out = table.drop_groups[..groups].concat();
            all.clone().filter(|column| !left_out.contains(column)).collect()
        })
        .collect();
    let (text, groups) = fitting.draw(&choices);
    let mut left_out = table.drop_groups[..groups].concat();
    left_out.sort_unstable();
    left_out.retain(|column| !table.wide_only_columns.contains(column));
    let left_out = left_out.iter().map(|column| table.columns[*column].head_line()).collect();
    TableText { text, left_out }
}

/// Table with the texts and the widths of its columns on a page.
struct Fitting<'a> {
    table: &'a Table,
    page: &'a Page,
    heads: Vec<String>,
    /// Escaped texts, by line and column.
    cells: Vec<Vec<String>>,
    /// Widths by column and [`NameBreak`]: without and with the margin of lines that are a part.
    widths: Vec<[[usize; 2]; 3]>,
}

/// Margin of a line that is a part of the line above.
const MARGIN: &str = "  ";

impl<'a> Fitting<'a> {
    fn new(table: &'a Table, page: &'a Page) -> Fitting<'a> {
        // A head is broken at its line feed, else at its first space.
        let broken = |head: &str| match head.split_once('\n').or_else(|| head.split_once(' ')) {
            Some((above, below)) => format!("{above}\n{below}"),
            None => head.to_owned(),
        };
        let heads: Vec<String> =
            table.columns.iter().map(|column| page.spell(&broken(&column.head))).collect();
        let cells = |cells: &[Cell]| cells.iter().map(|cell| page.escape(&cell.text)).collect();
        let cells: Vec<Vec<String>> = table.lines.iter().map(|line| cells(&line.cells)).collect();
        let mut fitting = Fitting { table, page, heads, cells, widths: Vec::new() };
        fitting.widths =
            (0..table.columns.len()).map(|column| fitting.column_widths(column)).collect();
        fitting
    }

    fn column_widths(&self, column: usize) -> [[usize; 2]; 3] {
        let is_row = self.table.columns[column].kind == ColumnKind::Row;
        let head = if self.table.has_header() { natural_width(&self.heads[column]) } else { 1 };
        let mut widths = [[head.max(1); 2]; 3];
        for (line, cells) in self.table.lines.iter().zip(&self.cells) {
            let Some(text) = cells.get(column) else { continue };
            for (name_break, width) in NameBreak::ALL.into_iter().zip(&mut widths) {
                let broken = is_row.then(|| name_break.apply(text));
                let text = broken.as_ref().unwrap_or(text);
                let margin = if line.is_part { MARGIN.len() } else { 0 };
                let first = text.split('\n').next().map_or(0, natural_width);
                width[0] = width[0].max(natural_width(text));
                width[1] = width[1].max(natural_width(text)).max(first + margin);
            }
        }
        widths
    }

    /// Position in `shown` of the column that has the margin of parts.
    fn margin_position(&self, shown: &[usize]) -> Option<usize> {
        shown.iter().position(|column| self.table.columns[*column].kind != ColumnKind::Number)
    }

    fn width(&self, shown: &[usize], name_break: NameBreak) -> usize {
        let with_margin = self.margin_position(shown);
        let width = |(position, column): (usize, &usize)| {
            let has_margin = Some(position) == with_margin;
            self.widths[*column][name_break as usize][usize::from(has_margin)] + GAP
        };
        shown.iter().enumerate().map(width).sum::<usize>().saturating_sub(GAP)
    }

    /// Splits the columns into parts. Each part has the first column and as many others as fit.
    fn parts(&self) -> Vec<Vec<usize>> {
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for column in 1..self.table.columns.len() {
            let wider = parts.last().map(|part| [&part[..], &[column]].concat());
            let fits = |part: &Vec<usize>| self.width(part, NameBreak::Nowhere) <= self.page.width;
            match (parts.last_mut(), wider.filter(fits)) {
                (Some(last), Some(wider)) => *last = wider,
                _ => parts.push(vec![0, column]),
            }
        }
        parts
    }

    /// Draws the first choice of columns that fits, else the last. Also returns the choice's index.
    fn draw(&self, choices: &[Vec<usize>]) -> (String, usize) {
        let mut layouts = (0..choices.len())
            .flat_map(|choice| NameBreak::ALL.map(|name_break| (choice, name_break)));
        let fits = |(choice, name_break): &(usize, NameBreak)| {
            self.width(&choices[*choice], *name_break) <= self.page.width
        };
        let fitting = layouts.find(fits);
        let (choice, name_break) = fitting.unwrap_or((choices.len() - 1, NameBreak::Colon));
        let shown = &choices[choice];
        let kind = shown.first().map(|first| self.table.columns[*first].kind);
        let page = match (fitting, kind) {
            // Names are not broken, so that readers can search for them; the table exceeds the
            // page.
            (None, Some(ColumnKind::Name)) => {
                let max_width = self.page.width * 2;
                let width = self.width(shown, name_break).clamp(self.page.width, max_width);
                self.page.with_width(width)
            }
            _ => *self.page,
        };
        (self.print(shown, name_break, &page), choice)
    }

    fn print(&self, shown: &[usize], name_break: NameBreak, page: &Page) -> String {
        let (grid, header_lines) = self.grid(shown, name_break);
        let wraps =
            shown.iter().position(|column| *column == self.table.wrapped_column).unwrap_or(0);
        let text = page.print(grid, wraps);
        let text = if header_lines > 0 { page.add_rule(&text, header_lines) } else { text };
        if page.colour { coloured(text) } else { text }
    }

    /// Returns the grid of these columns, and the number of lines of the header.
    fn grid(&self, shown: &[usize], name_break: NameBreak) -> (comfy_table::Table, usize) {
        let heads = shown.iter().map(|column| self.heads[*column].as_str());
        let height = heads.clone().map(|head| head.split('\n').count()).max().unwrap_or(0);
        // A head of one line is at the bottom of a header of two lines.
        let at_bottom = |head: &str| match height > 1 && !head.contains('\n') {
            true => format!("\n{head}"),
            false => head.to_owned(),
        };
        let has_header = heads.clone().any(|head| !head.is_empty());
        let header = has_header.then(|| heads.map(at_bottom).collect::<Vec<String>>());
        let with_margin = self.margin_position(shown);
        let lines = self.table.lines.iter().zip(&self.cells).map(|(line, texts)| {
            let cell = |(position, column): (usize, &usize)| {
                let text = texts.get(*column).map_or("", String::as_str);
                let margin =
                    if line.is_part && Some(position) == with_margin { MARGIN } else { "" };
                let text = format!("{margin}{text}");
                let verdict = line.cells.get(*column).and_then(|cell| cell.verdict);
                match (self.table.columns[*column].kind, verdict) {
                    (ColumnKind::Row, _) => name_break.apply(&text),
                    (_, Some(verdict)) if self.page.colour => marked(text, verdict),
                    _ => text,
                }
            };
            shown.iter().enumerate().map(cell).collect()
        });
        let is_number = |column: &usize| self.table.columns[*column].kind == ColumnKind::Number;
        let right: Vec<bool> = shown.iter().map(is_number).collect();
        let rows = header.into_iter().chain(lines);
        (grid(rows, &right), if has_header { height } else { 0 })
    }
}

/// Mark before and after a verdict that will be coloured. Escape sequences replace the mark after
/// comfy-table has laid out the table, because comfy-table would count them as columns. The mark
/// has no width. Text from outside is escaped and has no such mark.
const MARK: char = '\u{2060}';

/// Verdicts that have a colour, with the SGR code of the colour.
const COLOURS: [(Verdict, u8); 6] = [
    (Verdict::Slower, 31),
    (Verdict::Faster, 32),
    (Verdict::TooFewBoots, 33),
    (Verdict::Inconclusive, 33),
    (Verdict::DifferentWork, 33),
    (Verdict::Failed, 33),
];

fn marked(text: String, verdict: Verdict) -> String {
    match text.strip_prefix(verdict.text()) {
        Some(rest) => format!("{MARK}{}{MARK}{rest}", verdict.text()),
        None => text,
    }
}

/// Replaces marks by colours. A verdict that was broken into lines has no colour.
fn coloured(printed: String) -> String {
    let colour = |printed: String, (verdict, code): (Verdict, u8)| {
        let word = verdict.text();
        printed.replace(&format!("{MARK}{word}{MARK}"), &format!("\x1b[{code}m{word}\x1b[0m"))
    };
    COLOURS.into_iter().fold(printed, colour).replace(MARK, "")
}

/// Width that the last column should have at least; other columns are left out for it.
const MIN_LAST_WIDTH: usize = 24;

/// Draws a table of a command that prints no [`View`](crate::view::View); the last column wraps.
/// Columns of numbers are aligned to the right. If there is no room, the columns `drop_order` are
/// left out in this order, and a note lists them; the command must print all of them with --json.
pub fn plain_table(
    header: &[&str],
    rows: Vec<Vec<String>>,
    drop_order: &[usize],
    options: TextOptions,
) -> String {
    let page = Page::new(options);
    let count =
        (0..drop_order.len()).find(|count| is_readable(&rows, &drop_order[..*count], &page));
    let mut left_out = drop_order[..count.unwrap_or(drop_order.len())].to_vec();
    left_out.sort_unstable();
    let is_kept = |column: &usize| !left_out.contains(column);
    let heads: Vec<&str> = (0..header.len()).filter(is_kept).map(|column| header[column]).collect();
    let row_cells = |row: Vec<String>| -> Vec<String> {
        let cells = row.into_iter().enumerate().filter(|(column, _)| is_kept(column));
        cells.map(|(_, cell)| cell).collect()
    };
    let rows: Vec<Vec<String>> = rows.into_iter().map(row_cells).collect();
    let is_number =
        |cell: &String| !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit() || b == b' ');
    let is_right = |column| rows.iter().all(|row| row.get(column).is_some_and(is_number));
    let right: Vec<bool> = (0..heads.len()).map(is_right).collect();
    let text = page.print_with_header(&heads, &rows, &right, heads.len().saturating_sub(1));
    let left_out = left_out.into_iter().map(|column| header[column].to_owned()).collect();
    let note = TableText { text: String::new(), left_out }.note(&page);
    text + &note
}

/// Tells whether the last column has enough room if these columns are left out.
fn is_readable(rows: &[Vec<String>], left_out: &[usize], page: &Page) -> bool {
    let widest = |column: usize| {
        let widths =
            rows.iter().filter_map(|row| Some(page.escape(row.get(column)?).chars().count()));
        widths.max().unwrap_or(0)
    };
    let last = rows.iter().map(Vec::len).max().unwrap_or(1) - 1;
    let before = (0..last).filter(|column| !left_out.contains(column));
    let before: usize = before.map(|column| widest(column) + GAP).sum();
    before + MIN_LAST_WIDTH.min(widest(last)) <= page.width
}

/// Draws a table in the shape of a published table; the columns `numbers` are aligned to the right.
/// If there is no room, the first column wraps, or the last column if the first has numbers.
pub fn published_table(
    header: &[&str],
    rows: Vec<Vec<String>>,
    numbers: Range<usize>,
    options: TextOptions,
) -> String {
    let elastic = if numbers.start == 0 { header.len() - 1 } else { 0 };
    let right: Vec<bool> = (0..header.len()).map(|column| numbers.contains(&column)).collect();
    Page::new(options).print_with_header(header, &rows, &right, elastic)
}
