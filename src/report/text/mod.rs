//! For a terminal.

mod details;
mod layout;
mod table;

use std::ops::Range;

use crate::model::{Comparison, Side};

use super::{TextOptions, escape, view};
use layout::Page;

/// The whole report: what was compared, the table, what is behind it, what the numbers are.
pub(super) fn render(comparison: &Comparison, options: TextOptions) -> String {
    let page = Page::new(options);
    let sections = [
        header(comparison, &page),
        table::rows(comparison, &page),
        details::growth(comparison, &page),
        details::functions(comparison, &page),
        details::also_changed(comparison, &page),
        details::different_work(comparison, &page),
        details::failures(comparison, &page),
        details::warnings(comparison, &page),
        page.paragraph(&view::legend(comparison)),
    ];
    let sections: Vec<String> = sections.into_iter().filter(|text| !text.is_empty()).collect();
    sections.join("\n")
}

fn header(comparison: &Comparison, page: &Page) -> String {
    let subject = |side: Side| {
        let beside = comparison.subjects.get(side).subject.beside_kernel();
        [side.name().to_owned(), escape(&view::kernel(comparison, side)), escape(&beside)]
    };
    let mut text = page.paragraph(&escape(&comparison.title));
    text.push('\n');
    text.push_str(&page.columns(&Side::BOTH.map(subject)));
    text.push_str(&page.paragraph(&escape(&view::key(comparison))));
    text
}

/// A table that is no Comparison, at most 80 columns wide; the last column wraps. Columns of
/// numbers are aligned to the right.
pub fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let is_number = |cell: &String| !cell.is_empty() && cell.bytes().all(|b| b.is_ascii_digit());
    let page = Page::new(TextOptions { width: 80, colour: false });
    let mut table = page.table();
    table.set_header(header);
    for column in 0..header.len() {
        if rows.iter().all(|row| row.get(column).is_some_and(is_number)) {
            layout::align_right(&mut table, column..column + 1);
        }
    }
    for row in rows {
        table.add_row(row.iter().map(|cell| escape(cell)).collect::<Vec<_>>());
    }
    layout::ruled(&page.finish(&mut table, header.len().saturating_sub(1)), 1)
}

/// A table; `numbers` are the columns to align to the right. Where there is no room the first
/// column gives way, or the last if numbers are first.
pub(super) fn table_of_numbers(
    header: &[&str],
    rows: Vec<Vec<String>>,
    numbers: Range<usize>,
    options: TextOptions,
) -> String {
    let page = Page::new(options);
    let mut table = page.table();
    table.set_header(header);
    let elastic = if numbers.start == 0 { header.len() - 1 } else { 0 };
    layout::align_right(&mut table, numbers);
    for row in rows {
        table.add_row(row.iter().map(|cell| escape(cell)).collect::<Vec<_>>());
    }
    let lines = header.iter().map(|name| name.lines().count()).max().unwrap_or(1);
    layout::ruled(&page.finish(&mut table, elastic), lines)
}

/// Wrapped text.
pub fn paragraph(text: &str, options: TextOptions) -> String {
    Page::new(options).paragraph(text)
}
