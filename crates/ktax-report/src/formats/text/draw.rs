use super::page::{Break, Page, align_right, natural_width};
use crate::view::{Cell, Column, Kind, Line, Table};
use ktax_model::Verdict;

/// How a table is laid out.
struct Drawn {
    table: comfy_table::Table,
    header_lines: usize,
}

/// A table on a page, or several with the same first column where it may be split.
pub fn draw_all(table: &Table, page: &Page) -> String {
    let parts = if table.splits { split(table, page) } else { vec![table.clone()] };
    parts.iter().map(|part| draw(part, page)).collect::<Vec<String>>().join("\n")
}

/// As many columns in each as fit beside the first.
fn split(table: &Table, page: &Page) -> Vec<Table> {
    let only = |shown: &[usize]| {
        let is_left_out = |at: &usize| *at > 0 && !shown.contains(at);
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

/// A table on a page: with all columns where there is room for them, else with row names on several
/// lines, else without the columns that give way.
pub fn draw(table: &Table, page: &Page) -> String {
    let fitting = way(table, page);
    let (given, names) = fitting.unwrap_or((table.gives_way.len(), Break::Colon));
    let shown = left(table, given);
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

/// How many groups of columns give way, and where names are broken; nothing where no way fits.
fn way(table: &Table, page: &Page) -> Option<(usize, Break)> {
    let groups = 0..=table.gives_way.len();
    let mut ways = groups.flat_map(|given| Break::ALL.map(|names| (given, names)));
    ways.find(|(given, names)| {
        natural_width(&lay_out(&left(table, *given), page, *names).table) <= page.width
    })
}

/// The columns that a page of this width leaves out, in words; nothing where all are shown.
pub fn left_out(table: &Table, page: &Page) -> Option<String> {
    let heads = heads_left_out(table, page);
    (!heads.is_empty()).then(|| omitted(&heads.join(", "), page))
}

/// The heads of these columns, each on one line.
pub fn heads_left_out(table: &Table, page: &Page) -> Vec<String> {
    if table.gives_way.is_empty() {
        return Vec::new();
    }
    let given = way(table, page).map_or(table.gives_way.len(), |(given, _)| given);
    let mut columns: Vec<usize> = table.gives_way[..given].concat();
    columns.sort_unstable();
    columns.retain(|column| !table.is_extra(*column));
    columns.iter().map(|column| table.columns[*column].head_line()).collect()
}

/// Says what a page of this width leaves out.
pub fn omitted(what: &str, page: &Page) -> String {
    format!("Omitted to fit {} columns: {what}; --json has all.", page.width)
}

/// The table after so many groups have given way.
fn left(table: &Table, given: usize) -> Table {
    table.without(&table.gives_way[..given].concat())
}

fn lay_out(shown: &Table, page: &Page, names: Break) -> Drawn {
    let mut table = page.table();
    let heads: Vec<String> = heads(&shown.columns).iter().map(|it| page.own(it)).collect();
    let header_lines = heads.iter().map(|head| head.lines().count()).max().unwrap_or(0);
    if shown.has_header() {
        table.set_header(heads);
    }
    for line in &shown.lines {
        table.add_row(cells(line, &shown.columns, page, names));
    }
    for (index, column) in shown.columns.iter().enumerate() {
        if column.kind == Kind::Number {
            align_right(&mut table, index..index + 1);
        }
    }
    Drawn { table, header_lines }
}

/// What belongs to the lines above stands a little to the right of them.
fn cells(line: &Line, columns: &[Column], page: &Page, names: Break) -> Vec<String> {
    let named = columns.iter().position(|column| column.kind != Kind::Number);
    let cell = |(index, cell): (usize, &Cell)| {
        let margin = if line.is_part && Some(index) == named { "  " } else { "" };
        let text = format!("{margin}{}", page.escape(&cell.text));
        match columns.get(index).map(|column| column.kind) {
            Some(Kind::Row) => names.of(&text),
            _ => text,
        }
    };
    line.cells.iter().enumerate().map(cell).collect()
}

/// Of two lines where a name has two words, the others at the bottom.
fn heads(columns: &[Column]) -> Vec<String> {
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
