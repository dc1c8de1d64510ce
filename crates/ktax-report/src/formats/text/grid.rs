//! Paragraphs and tables of a given width: which columns fit, where names break, what is left out.
//! comfy-table wraps, aligns and pads, once for each table.

use std::ops::Range;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, Width};
use unicode_width::UnicodeWidthStr;

use crate::formats::TextOptions;
use crate::view::{Cell, Kind, Table};
use ktax_host::text::{ascii, escape};
use ktax_model::Verdict;

/// Spaces between two columns: one would read as part of `9 178.25`.
const GAP: usize = 2;

/// Maximum width of a line of words.
const PROSE: usize = 100;

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

    /// Escapes text from outside: nothing in it acts, and every character can be shown.
    pub fn escape(&self, text: &str) -> String {
        self.own(&escape(text))
    }

    /// Spells ktax's own text in the characters that can be shown.
    pub fn own(&self, text: &str) -> String {
        if self.ascii { ascii(text) } else { text.to_owned() }
    }

    /// Returns a page with room for an indentation.
    pub fn narrower(&self, by: usize) -> Self {
        self.wide(self.width.saturating_sub(by))
    }

    fn wide(&self, width: usize) -> Self {
        Page { width, ..*self }
    }

    /// Wraps text, whatever is in it.
    pub fn paragraph(&self, text: &str) -> String {
        self.columns(&[[text]])
    }

    /// Writes columns, the last of which wraps. Tables may be as wide as the terminal, but longer
    /// lines of words are hard to read.
    pub fn columns<T: AsRef<str>>(&self, rows: &[impl AsRef<[T]>]) -> String {
        let cells = |row: &[T]| row.iter().map(|cell| self.escape(cell.as_ref())).collect();
        let mut grid = grid(rows.iter().map(|row| cells(row.as_ref())), &[]);
        let last = grid.column_count().saturating_sub(1);
        self.wide(self.width.min(PROSE)).print(grid, last)
    }

    /// Prints a table in which only one column gives way, and that one as far as it must.
    pub fn print(&self, mut grid: comfy_table::Table, elastic: usize) -> String {
        let mut widths: Vec<usize> =
            grid.column_max_content_widths().into_iter().map(usize::from).collect();
        // Numbers are never that wide; names from outside may be.
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

    fn headed(
        &self,
        heads: &[&str],
        rows: &[Vec<String>],
        right: &[bool],
        elastic: usize,
    ) -> String {
        let lines = heads.iter().map(|name| name.lines().count()).max().unwrap_or(1);
        let header = heads.iter().map(|head| self.own(head)).collect();
        let row = |row: &Vec<String>| row.iter().map(|cell| self.escape(cell)).collect();
        let grid = grid([header].into_iter().chain(rows.iter().map(row)), right);
        self.ruled(&self.print(grid, elastic), lines)
    }

    /// Draws a line below the header of a printed table.
    fn ruled(&self, text: &str, header_lines: usize) -> String {
        let width = |line: &str| line.chars().filter(|c| *c != MARK).count();
        let widest = text.lines().map(width).max().unwrap_or(0);
        let mut lines: Vec<&str> = text.lines().collect();
        let rule = self.own("─").repeat(widest);
        lines.insert(header_lines.min(lines.len()), &rule);
        lines.join("\n") + "\n"
    }
}

pub fn indented(text: &str, by: usize) -> String {
    let margin = " ".repeat(by);
    text.lines().map(|line| format!("{margin}{line}\n")).collect()
}

/// Sentence about what a page of this width leaves out.
pub fn omitted(what: &str, page: &Page) -> String {
    format!("Omitted to fit {} columns: {what}; --json has all.", page.width)
}

/// Table of rows, to be printed. Columns are aligned to the right where `right` says so.
pub fn grid(rows: impl Iterator<Item = Vec<String>>, right: &[bool]) -> comfy_table::Table {
    let mut grid = comfy_table::Table::new();
    grid.load_preset(NOTHING).add_rows(rows);
    for (column, _) in grid.column_iter_mut().zip(right).filter(|(_, is_right)| **is_right) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    grid
}

/// Width of a table in which nothing wraps.
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

/// Position at which a row's name is broken; the parameters follow below.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Break {
    Nowhere,
    Colon,
    Commas,
}

impl Break {
    const ALL: [Break; 3] = [Break::Nowhere, Break::Colon, Break::Commas];

    /// Breaks a name into lines.
    fn apply(self, name: &str) -> String {
        match (self, name.split_once(':')) {
            (Break::Colon, Some((workload, params))) => format!("{workload}:\n  {params}"),
            (Break::Commas, Some((workload, params))) => {
                format!("{workload}:{}", pack_parameters(params))
            }
            _ => name.to_owned(),
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

/// Drawn table, and the heads of the columns that a page of its width leaves out.
pub struct Drawn {
    pub text: String,
    pub left_out: Vec<String>,
}

impl Drawn {
    /// Sentence that names what is left out; empty if nothing is.
    pub fn note(&self, page: &Page) -> String {
        match self.left_out.is_empty() {
            true => String::new(),
            false => page.paragraph(&omitted(&self.left_out.join(", "), page)),
        }
    }
}

/// Draws a table: with all columns where there is room for them, else with row names on several
/// lines, else without the columns that give way. One that may be split becomes several tables with
/// the same first column.
pub fn draw(table: &Table, page: &Page) -> Drawn {
    let fitting = Fitting::new(table, page);
    let all = 0..table.columns.len();
    if table.splits {
        let parts = fitting.parts();
        let texts: Vec<String> =
            parts.iter().map(|part| fitting.draw(std::slice::from_ref(part)).0).collect();
        return Drawn { text: texts.join("\n"), left_out: Vec::new() };
    }
    let groups = 0..=table.gives_way.len();
    let choices: Vec<Vec<usize>> = groups
        .map(|given| {
            let gone = table.gives_way[..given].concat();
            all.clone().filter(|column| !gone.contains(column)).collect()
        })
        .collect();
    let (text, given) = fitting.draw(&choices);
    let mut gone = table.gives_way[..given].concat();
    gone.sort_unstable();
    gone.retain(|column| !table.extra.contains(column));
    Drawn { text, left_out: gone.iter().map(|column| table.columns[*column].head_line()).collect() }
}

/// Table with what each of its columns needs.
struct Fitting<'a> {
    table: &'a Table,
    page: &'a Page,
    heads: Vec<String>,
    /// Texts that can be shown, by line and column.
    cells: Vec<Vec<String>>,
    /// By column and [`Break`]: the width, and that with the margin of parts of a whole.
    widths: Vec<[[usize; 2]; 3]>,
}

/// Margin before a part of the lines above it.
const MARGIN: &str = "  ";

impl<'a> Fitting<'a> {
    fn new(table: &'a Table, page: &'a Page) -> Fitting<'a> {
        // Heads have two lines where a name has two words.
        let broken = |head: &str| match head.split_once('\n').or_else(|| head.split_once(' ')) {
            Some((above, below)) => format!("{above}\n{below}"),
            None => head.to_owned(),
        };
        let heads: Vec<String> =
            table.columns.iter().map(|column| page.own(&broken(&column.head))).collect();
        let cells = |cells: &[Cell]| cells.iter().map(|cell| page.escape(&cell.text)).collect();
        let cells: Vec<Vec<String>> = table.lines.iter().map(|line| cells(&line.cells)).collect();
        let mut fitting = Fitting { table, page, heads, cells, widths: Vec::new() };
        fitting.widths =
            (0..table.columns.len()).map(|column| fitting.column_widths(column)).collect();
        fitting
    }

    fn column_widths(&self, column: usize) -> [[usize; 2]; 3] {
        let is_row = self.table.columns[column].kind == Kind::Row;
        let head = if self.table.has_header() { natural_width(&self.heads[column]) } else { 1 };
        let mut widths = [[head.max(1); 2]; 3];
        for (line, cells) in self.table.lines.iter().zip(&self.cells) {
            let Some(text) = cells.get(column) else { continue };
            for (names, most) in Break::ALL.into_iter().zip(&mut widths) {
                let broken = is_row.then(|| names.apply(text));
                let text = broken.as_ref().unwrap_or(text);
                let margin = if line.is_part { MARGIN.len() } else { 0 };
                let first = text.split('\n').next().map_or(0, natural_width);
                most[0] = most[0].max(natural_width(text));
                most[1] = most[1].max(natural_width(text)).max(first + margin);
            }
        }
        widths
    }

    /// Position in `shown` of the column that has the margin of parts.
    fn named(&self, shown: &[usize]) -> Option<usize> {
        shown.iter().position(|column| self.table.columns[*column].kind != Kind::Number)
    }

    fn width(&self, shown: &[usize], names: Break) -> usize {
        let named = self.named(shown);
        let width = |(position, column): (usize, &usize)| {
            self.widths[*column][names as usize][usize::from(Some(position) == named)] + GAP
        };
        shown.iter().enumerate().map(width).sum::<usize>().saturating_sub(GAP)
    }

    /// Splits the columns: as many in each part as fit beside the first.
    fn parts(&self) -> Vec<Vec<usize>> {
        let mut parts: Vec<Vec<usize>> = Vec::new();
        for column in 1..self.table.columns.len() {
            let wider = parts.last().map(|part| [&part[..], &[column]].concat());
            let fits = |part: &Vec<usize>| self.width(part, Break::Nowhere) <= self.page.width;
            match (parts.last_mut(), wider.filter(fits)) {
                (Some(last), Some(wider)) => *last = wider,
                _ => parts.push(vec![0, column]),
            }
        }
        parts
    }

    /// Draws the first choice of columns that fits, else the last. Returns its index, too.
    fn draw(&self, choices: &[Vec<usize>]) -> (String, usize) {
        let ways = (0..choices.len()).flat_map(|given| Break::ALL.map(|names| (given, names)));
        let fits = |(given, names): &(usize, Break)| {
            self.width(&choices[*given], *names) <= self.page.width
        };
        let fitting = ways.clone().find(fits);
        let (given, names) = fitting.unwrap_or((choices.len() - 1, Break::Colon));
        let shown = &choices[given];
        let kind = shown.first().map(|first| self.table.columns[*first].kind);
        let page = match (fitting, kind) {
            // A name that is searched for stays whole: the table is wider than it should be.
            (None, Some(Kind::Name)) => {
                let most = self.page.width * 2;
                self.page.wide(self.width(shown, names).clamp(self.page.width, most))
            }
            _ => *self.page,
        };
        (self.print(shown, names, &page), given)
    }

    fn print(&self, shown: &[usize], names: Break, page: &Page) -> String {
        let (grid, header_lines) = self.grid(shown, names);
        let wraps = shown.iter().position(|column| *column == self.table.wraps).unwrap_or(0);
        let text = page.print(grid, wraps);
        let text = if header_lines > 0 { page.ruled(&text, header_lines) } else { text };
        if page.colour { coloured(text) } else { text }
    }

    /// The shown cells, and the number of lines of the header.
    fn grid(&self, shown: &[usize], names: Break) -> (comfy_table::Table, usize) {
        let heads = shown.iter().map(|column| self.heads[*column].as_str());
        let height = heads.clone().map(|head| head.split('\n').count()).max().unwrap_or(0);
        // A head of one line is at the bottom.
        let at_bottom = |head: &str| match height > 1 && !head.contains('\n') {
            true => format!("\n{head}"),
            false => head.to_owned(),
        };
        let has_header = heads.clone().any(|head| !head.is_empty());
        let header = has_header.then(|| heads.map(at_bottom).collect::<Vec<String>>());
        let named = self.named(shown);
        let lines = self.table.lines.iter().zip(&self.cells).map(|(line, texts)| {
            let cell = |(position, column): (usize, &usize)| {
                let text = texts.get(*column).map_or("", String::as_str);
                let margin = if line.is_part && Some(position) == named { MARGIN } else { "" };
                let text = format!("{margin}{text}");
                let verdict = line.cells.get(*column).and_then(|cell| cell.verdict);
                match (self.table.columns[*column].kind, verdict) {
                    (Kind::Row, _) => names.apply(&text),
                    (_, Some(verdict)) if self.page.colour => marked(text, verdict),
                    _ => text,
                }
            };
            shown.iter().enumerate().map(cell).collect()
        });
        let is_number = |column: &usize| self.table.columns[*column].kind == Kind::Number;
        let right: Vec<bool> = shown.iter().map(is_number).collect();
        let rows = header.into_iter().chain(lines);
        (grid(rows, &right), if has_header { height } else { 0 })
    }
}

/// Stands before and after a verdict that a cell begins with. It has no width: comfy-table would
/// count the escapes of a colour as columns. Text from outside has none, because it is escaped.
const MARK: char = '\u{2060}';

/// Verdicts that have a colour, and its number.
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

/// Colours the marked verdicts that are not broken into lines.
fn coloured(printed: String) -> String {
    let colour = |printed: String, (verdict, code): (Verdict, u8)| {
        let word = verdict.text();
        printed.replace(&format!("{MARK}{word}{MARK}"), &format!("\x1b[{code}m{word}\x1b[0m"))
    };
    COLOURS.into_iter().fold(printed, colour).replace(MARK, "")
}

/// Width below which a last column cannot be read, so that others give way before.
const READABLE: usize = 24;

/// Draws a table that is no result; the last column wraps. Columns of numbers are aligned to the
/// right. Without room the columns `gives_way` are left out, one after the other, and the table
/// names them. Its command has all of them with --json.
pub fn plain_table(
    header: &[&str],
    rows: Vec<Vec<String>>,
    gives_way: &[usize],
    options: TextOptions,
) -> String {
    let page = Page::new(options);
    let given = (0..gives_way.len()).find(|given| is_readable(&rows, &gives_way[..*given], &page));
    let mut given = gives_way[..given.unwrap_or(gives_way.len())].to_vec();
    given.sort_unstable();
    let is_kept = |column: &usize| !given.contains(column);
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
    let text = page.headed(&heads, &rows, &right, heads.len().saturating_sub(1));
    let left_out = given.into_iter().map(|column| header[column].to_owned()).collect();
    let note = Drawn { text: String::new(), left_out }.note(&page);
    text + &note
}

/// Tells whether the last column has room if these columns are left out.
fn is_readable(rows: &[Vec<String>], left_out: &[usize], page: &Page) -> bool {
    let widest = |column: usize| {
        let widths =
            rows.iter().filter_map(|row| Some(page.escape(row.get(column)?).chars().count()));
        widths.max().unwrap_or(0)
    };
    let last = rows.iter().map(Vec::len).max().unwrap_or(1) - 1;
    let before = (0..last).filter(|column| !left_out.contains(column));
    let before: usize = before.map(|column| widest(column) + GAP).sum();
    before + READABLE.min(widest(last)) <= page.width
}

/// Draws a table in the shape of a published one: heads as they are, `numbers` aligned to the
/// right. Without room the first column wraps, or the last if numbers are first.
pub fn published_table(
    header: &[&str],
    rows: Vec<Vec<String>>,
    numbers: Range<usize>,
    options: TextOptions,
) -> String {
    let elastic = if numbers.start == 0 { header.len() - 1 } else { 0 };
    let right: Vec<bool> = (0..header.len()).map(|column| numbers.contains(&column)).collect();
    Page::new(options).headed(header, &rows, &right, elastic)
}
