//! For a terminal.

mod details;
mod layout;
mod table;

use std::ops::Range;

use crate::model::{Comparison, Side, Verdict, Warning};
use crate::text::escape;

use super::{TextOptions, view};
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
        details::warnings(&comparison.warnings, &page),
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

/// A table of names and numbers whose names stand on one line, so that they can be searched for:
/// `dispensable` columns are left out, a group more each time, until it fits, and are named below
/// it. Where that is not enough it is wider than it should; only a name wider than the page wraps.
pub(super) fn fitting_table(
    header: &[&str],
    rows: &[Vec<String>],
    dispensable: &[&[usize]],
    options: TextOptions,
) -> String {
    let build = |left_out: &[usize]| {
        let is_shown = |index: &usize| !left_out.contains(index);
        let shown: Vec<usize> = (0..header.len()).filter(is_shown).collect();
        let names: Vec<&str> = shown.iter().map(|index| header[*index]).collect();
        let cells = |row: &Vec<String>| shown.iter().map(|index| row[*index].clone()).collect();
        let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
        (names, rows)
    };
    let width = |(names, rows): &(Vec<&str>, Vec<Vec<String>>)| {
        let mut table = Page::new(options).table();
        table.set_header(names);
        table.add_rows(rows.iter().map(|row| row.iter().map(|cell| escape(cell))));
        layout::natural_width(&table)
    };
    let mut left_out = Vec::new();
    let mut shown = build(&left_out);
    for group in dispensable {
        if width(&shown) <= options.width {
            break;
        }
        left_out.extend_from_slice(group);
        shown = build(&left_out);
    }
    let most = options.width.saturating_mul(2);
    let wide = TextOptions { width: width(&shown).clamp(options.width, most), ..options };
    let (names, rows) = shown;
    let mut text = table_of_numbers(&names, rows, 1..names.len(), wide);
    if !left_out.is_empty() {
        left_out.sort_unstable();
        let left_out: Vec<String> =
            left_out.iter().map(|index| header[*index].replace('\n', " ")).collect();
        let left_out = left_out.join(", ");
        let note =
            format!("Left out to fit {} columns: {left_out}; --json has all.", options.width);
        text += &paragraph(&note, options);
    }
    text
}

/// Columns to the left, the last of which wraps.
pub(super) fn columns<const N: usize>(rows: &[[String; N]], options: TextOptions) -> String {
    Page::new(options).columns(rows)
}

/// A table whose last column is of Verdicts, these words coloured if that is asked for.
pub(super) fn coloured(table: &str, options: TextOptions) -> String {
    let words = [Verdict::Slower, Verdict::Faster, Verdict::DifferentWork, Verdict::Failed];
    Page::new(options).colour_verdicts(table, &words)
}

/// Facts that travel with a result, each with what to do about it.
pub(super) fn warnings(warnings: &[Warning], options: TextOptions) -> String {
    details::warnings(warnings, &Page::new(options))
}

/// Wrapped text.
pub fn paragraph(text: &str, options: TextOptions) -> String {
    Page::new(options).paragraph(text)
}
