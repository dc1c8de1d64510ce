use super::page::{Page, align_right};
use crate::report::options::TextOptions;

/// A table that is no result; the last column wraps. Columns of numbers are aligned to the right.
pub fn plain_table(header: &[&str], rows: Vec<Vec<String>>, options: TextOptions) -> String {
    let is_number =
        |cell: &String| !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit() || b == b' ');
    let page = Page::new(options);
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
