use super::draw::omitted;
use super::page::{GAP, Page, align_right};
use crate::options::TextOptions;

/// A last column narrower than this cannot be read, so that others give way before.
const READABLE: usize = 24;

/// A table that is no result; the last column wraps. Columns of numbers are aligned to the right.
/// Where there is no room the columns `gives_way` are left out, one after the other; the table says
/// which. Its command has all of them with --json.
pub fn plain_table(
    header: &[&str],
    rows: Vec<Vec<String>>,
    gives_way: &[usize],
    options: TextOptions,
) -> String {
    let page = Page::new(options);
    let given = (0..gives_way.len()).find(|given| is_readable(&rows, &gives_way[..*given], &page));
    let given = &gives_way[..given.unwrap_or(gives_way.len())];
    let kept = |at: &usize| !given.contains(at);
    let heads: Vec<&str> = (0..header.len()).filter(kept).map(|at| header[at]).collect();
    let of_row = |row: Vec<String>| {
        let cells = row.into_iter().enumerate().filter(|(at, _)| kept(at));
        cells.map(|(_, cell)| cell).collect()
    };
    let mut text = all_columns(&heads, rows.into_iter().map(of_row).collect(), &page);
    if !given.is_empty() {
        let mut given = given.to_vec();
        given.sort_unstable();
        let names: Vec<&str> = given.into_iter().map(|at| header[at]).collect();
        text += &page.paragraph(&omitted(&names.join(", "), &page));
    }
    text
}

/// Whether the last column has room without the columns that are left out.
fn is_readable(rows: &[Vec<String>], left_out: &[usize], page: &Page) -> bool {
    let widest = |at: usize| {
        let widths = rows.iter().filter_map(|row| Some(page.escape(row.get(at)?).chars().count()));
        widths.max().unwrap_or(0)
    };
    let last = rows.iter().map(Vec::len).max().unwrap_or(1) - 1;
    let before = (0..last).filter(|at| !left_out.contains(at));
    let before: usize = before.map(|at| widest(at) + usize::from(GAP)).sum();
    before + READABLE.min(widest(last)) <= usize::from(page.width)
}

fn all_columns(header: &[&str], rows: Vec<Vec<String>>, page: &Page) -> String {
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

/// A table in the shape of a published one: heads as they are, `numbers` aligned to the right.
/// Where there is no room the first column wraps, or the last if numbers are first.
pub fn numbers(
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
