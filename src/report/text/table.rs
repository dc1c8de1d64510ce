//! The main table.

use comfy_table::{Cell, Table};

use crate::model::{Comparison, Verdict};
use crate::report::view;
use crate::text::escape;

use super::layout::{Page, align_right, folded, natural_width, ruled};

/// What is left out, a column more each time, until the table fits: the change, which is base plus
/// delta; the range, which a changed row says again with its functions; what would have been seen;
/// the base.
const LEFT_OUT: [&[usize]; 5] = [&[], &[2], &[2, 5], &[2, 5, 6], &[1, 2, 5, 6]];

/// One line for each row, in the Plan's order; two where that saves a column.
pub(super) fn rows(comparison: &Comparison, page: &Page) -> String {
    let mut tables = LEFT_OUT
        .iter()
        .flat_map(|left_out| [false, true].map(|fold| build(comparison, page, left_out, fold)));
    let fitting = tables.find(|table| natural_width(table) <= page.width);
    let narrowest = || build(comparison, page, LEFT_OUT[LEFT_OUT.len() - 1], true);
    let mut table = fitting.unwrap_or_else(narrowest);
    let header_lines =
        table.header().map_or(0, |row| row.cell_iter().map(lines).max().unwrap_or(0));
    let text = ruled(&page.finish(&mut table, 0), header_lines);
    let verdicts: Vec<Verdict> = comparison.rows.iter().map(|row| row.verdict).collect();
    page.colour_verdicts(&text, &verdicts)
}

fn lines(cell: &Cell) -> usize {
    cell.content().lines().count()
}

fn build(comparison: &Comparison, page: &Page, left_out: &[usize], fold: bool) -> Table {
    let shown: Vec<usize> = (0..view::HEADER.len()).filter(|i| !left_out.contains(i)).collect();
    let mut table = page.table();
    table.set_header(header(&shown));
    for row in &comparison.rows {
        let name = escape(&row.row);
        let name = if fold { folded(&name) } else { name };
        let cells: Vec<String> = std::iter::once(name).chain(view::cells(row)).collect();
        table.add_row(shown.iter().map(|index| &cells[*index]));
    }
    align_right(&mut table, 1..shown.len() - 1);
    table
}

/// Of two lines where a name has two words, the others at the bottom.
fn header(shown: &[usize]) -> Vec<String> {
    let names = shown.iter().map(|index| view::HEADER[*index]);
    let two_lines = names.clone().any(|name| name.contains(' '));
    let line = |name: &str| match name.split_once(' ') {
        Some((above, below)) => format!("{above}\n{below}"),
        None if two_lines => format!("\n{name}"),
        None => name.to_owned(),
    };
    names.map(line).collect()
}
