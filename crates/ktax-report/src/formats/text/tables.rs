//! Tables on a page: which columns fit, where names break, what is left out.

use crate::formats::TextOptions;
use crate::formats::text::page::{Break, GAP, Page, align_right, natural_width};
use crate::view::{Cell, Column, Kind, Line, Table};
use ktax_model::Verdict;

/// A table that is laid out.
struct LaidOut {
    table: comfy_table::Table,
    header_lines: usize,
}

/// Draws a table, or several with the same first column where it may be split.
pub fn draw_all(table: &Table, page: &Page) -> String {
    let parts = if table.splits { split(table, page) } else { vec![table.clone()] };
    parts.iter().map(|part| draw(part, page)).collect::<Vec<String>>().join("\n")
}

/// Splits a table: as many columns in each as fit beside the first.
fn split(table: &Table, page: &Page) -> Vec<Table> {
    let only = |shown: &[usize]| {
        let is_left_out = |column: &usize| *column > 0 && !shown.contains(column);
        table.without(&(0..table.columns.len()).filter(is_left_out).collect::<Vec<usize>>())
    };
    let fits = |shown: &[usize]| {
        natural_width(&lay_out(&only(shown), page, Break::Nowhere).table) <= page.width
    };
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for column in 1..table.columns.len() {
        let wider = parts.last().map(|part| [&part[..], &[column]].concat());
        match (parts.last_mut(), wider.filter(|part| fits(part))) {
            (Some(last), Some(wider)) => *last = wider,
            _ => parts.push(vec![column]),
        }
    }
    parts.iter().map(|part| only(part)).collect()
}

/// Draws a table: with all columns where there is room for them, else with row names on several
/// lines, else without the columns that give way.
pub fn draw(table: &Table, page: &Page) -> String {
    let fitting = find_fit(table, page);
    let (given, names) = fitting.unwrap_or((table.gives_way.len(), Break::Colon));
    let shown = narrowed(table, given);
    let mut drawn = lay_out(&shown, page, names);
    let page = match (fitting, shown.columns.first()) {
        // A name that is searched for stays whole: the table is wider than it should be.
        (None, Some(Column { kind: Kind::Name, .. })) => {
            let most = page.width.saturating_mul(2);
            &page.wide(natural_width(&drawn.table).clamp(page.width, most))
        }
        _ => page,
    };
    let mut text = page.finish(&mut drawn.table, shown.wraps);
    if shown.has_header() {
        text = page.ruled(&text, drawn.header_lines);
    }
    let verdicts: Vec<Verdict> =
        table.lines.iter().flat_map(|line| &line.cells).filter_map(|cell| cell.verdict).collect();
    page.colour_verdicts(&text, &verdicts)
}

/// Finds how many groups of columns give way, and where names are broken; `None` where nothing
/// fits.
fn find_fit(table: &Table, page: &Page) -> Option<(usize, Break)> {
    let groups = 0..=table.gives_way.len();
    let mut ways = groups.flat_map(|given| Break::ALL.map(|names| (given, names)));
    ways.find(|(given, names)| {
        natural_width(&lay_out(&narrowed(table, *given), page, *names).table) <= page.width
    })
}

/// Says which columns a page of this width leaves out; `None` where all are shown.
pub fn left_out(table: &Table, page: &Page) -> Option<String> {
    let heads = heads_left_out(table, page);
    (!heads.is_empty()).then(|| omitted(&heads.join(", "), page))
}

/// Heads of the columns that are left out, each on one line.
pub fn heads_left_out(table: &Table, page: &Page) -> Vec<String> {
    if table.gives_way.is_empty() {
        return Vec::new();
    }
    let given = find_fit(table, page).map_or(table.gives_way.len(), |(given, _)| given);
    let mut columns: Vec<usize> = table.gives_way[..given].concat();
    columns.sort_unstable();
    columns.retain(|column| !table.is_extra(*column));
    columns.iter().map(|column| table.columns[*column].head_line()).collect()
}

/// Says what a page of this width leaves out.
pub fn omitted(what: &str, page: &Page) -> String {
    format!("Omitted to fit {} columns: {what}; --json has all.", page.width)
}

/// Returns the table after `given` groups of columns have given way.
fn narrowed(table: &Table, given: usize) -> Table {
    table.without(&table.gives_way[..given].concat())
}

fn lay_out(shown: &Table, page: &Page, names: Break) -> LaidOut {
    let mut table = page.table();
    let heads: Vec<String> =
        column_heads(&shown.columns).iter().map(|head| page.own(head)).collect();
    let header_lines = heads.iter().map(|head| head.lines().count()).max().unwrap_or(0);
    if shown.has_header() {
        table.set_header(heads);
    }
    for line in &shown.lines {
        table.add_row(line_cells(line, &shown.columns, page, names));
    }
    for (index, column) in shown.columns.iter().enumerate() {
        if column.kind == Kind::Number {
            align_right(&mut table, index..index + 1);
        }
    }
    LaidOut { table, header_lines }
}

/// Cells of a line; a part of the lines above is indented.
fn line_cells(line: &Line, columns: &[Column], page: &Page, names: Break) -> Vec<String> {
    let named = columns.iter().position(|column| column.kind != Kind::Number);
    let cell = |(index, cell): (usize, &Cell)| {
        let margin = if line.is_part && Some(index) == named { "  " } else { "" };
        let text = format!("{margin}{}", page.escape(&cell.text));
        match columns.get(index).map(|column| column.kind) {
            Some(Kind::Row) => names.apply(&text),
            _ => text,
        }
    };
    line.cells.iter().enumerate().map(cell).collect()
}

/// Heads of columns, of two lines where a name has two words; the others are at the bottom.
fn column_heads(columns: &[Column]) -> Vec<String> {
    let broken = |head: &str| match head.split_once('\n').or_else(|| head.split_once(' ')) {
        Some((above, below)) => format!("{above}\n{below}"),
        None => head.to_owned(),
    };
    let heads: Vec<String> = columns.iter().map(|column| broken(&column.head)).collect();
    let has_two_lines = heads.iter().any(|head| head.contains('\n'));
    let at_bottom = |head: String| match has_two_lines && !head.contains('\n') {
        true => format!("\n{head}"),
        false => head,
    };
    heads.into_iter().map(at_bottom).collect()
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
    let given = &gives_way[..given.unwrap_or(gives_way.len())];
    let kept = |column: &usize| !given.contains(column);
    let heads: Vec<&str> = (0..header.len()).filter(kept).map(|column| header[column]).collect();
    let row_cells = |row: Vec<String>| {
        let cells = row.into_iter().enumerate().filter(|(column, _)| kept(column));
        cells.map(|(_, cell)| cell).collect()
    };
    let mut text = draw_plain(&heads, rows.into_iter().map(row_cells).collect(), &page);
    if !given.is_empty() {
        let mut given = given.to_vec();
        given.sort_unstable();
        let names: Vec<&str> = given.into_iter().map(|column| header[column]).collect();
        text += &page.paragraph(&omitted(&names.join(", "), &page));
    }
    text
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
    let before: usize = before.map(|column| widest(column) + usize::from(GAP)).sum();
    before + READABLE.min(widest(last)) <= usize::from(page.width)
}

fn draw_plain(header: &[&str], rows: Vec<Vec<String>>, page: &Page) -> String {
    let is_number =
        |cell: &String| !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit() || b == b' ');
    let mut table = page.table();
    table.set_header(header.iter().map(|head| page.own(head)));
    for column in 0..header.len() {
        if rows.iter().all(|row| row.get(column).is_some_and(is_number)) {
            align_right(&mut table, column..column + 1);
        }
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| page.escape(cell)).collect::<Vec<_>>());
    }
    page.ruled(&page.finish(&mut table, header.len().saturating_sub(1)), 1)
}

/// Draws a table in the shape of a published one: heads as they are, `numbers` aligned to the
/// right. Without room the first column wraps, or the last if numbers are first.
pub fn published_table(
    header: &[&str],
    rows: Vec<Vec<String>>,
    numbers: std::ops::Range<usize>,
    options: TextOptions,
) -> String {
    let page = Page::new(options);
    let mut table = page.table();
    table.set_header(header.iter().map(|head| page.own(head)));
    let elastic = if numbers.start == 0 { header.len() - 1 } else { 0 };
    align_right(&mut table, numbers);
    for row in rows {
        table.add_row(row.iter().map(|cell| page.escape(cell)).collect::<Vec<_>>());
    }
    let lines = header.iter().map(|name| name.lines().count()).max().unwrap_or(1);
    page.ruled(&page.finish(&mut table, elastic), lines)
}
