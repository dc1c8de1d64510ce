use super::super::text::{paragraph, table_of_numbers};
use super::super::{TextOptions, escape, number, view};
use crate::model::{Comparison, Effect, Row};

/// For each family of rows that differ in `pages` alone: the overhead, and what is above it.
pub(super) fn render(comparison: &Comparison, options: TextOptions) -> String {
    let overheads = comparison.rows.iter().filter(|row| row.params.get("pages") == Some(&0));
    let mut text = paragraph(&escape(&comparison.title), options);
    for overhead in overheads {
        text += &family(comparison, overhead, options);
    }
    text
}

fn family(comparison: &Comparison, overhead: &Row, options: TextOptions) -> String {
    let Some(none) = overhead.effects.first() else { return String::new() };
    let (base, change) = (number::count(none.base), number::count(none.change));
    let title = overhead.row.split(':').next().unwrap_or_default();
    let mut text = format!(
        "\n{}: overhead for creating one process: {base} instructions in base, \
         {change} in change\n\n",
        escape(title)
    );
    let sized = comparison.rows.iter().filter(|row| is_like(row, overhead));
    let rows = sized.filter_map(|row| cells(row, none));
    let header =
        ["pages", "base\nabove overhead", "per page", "change\nabove overhead", "per page"];
    text += &table_of_numbers(&header, rows.collect(), 0..header.len(), options);
    let of_family =
        comparison.growth.iter().filter(|growth| growth.family.split(':').next() == Some(title));
    for growth in of_family {
        text += &format!("\n{}", paragraph(&escape(&view::growth(growth)), options));
    }
    text
}

/// Whether two rows differ in `pages` alone.
fn is_like(row: &Row, overhead: &Row) -> bool {
    let others = |row: &Row| {
        let mut params = row.params.clone();
        params.remove("pages");
        (row.row.split(':').next().unwrap_or_default().to_owned(), params)
    };
    others(row) == others(overhead) && row.params.get("pages") > Some(&0)
}

fn cells(row: &Row, none: &Effect) -> Option<Vec<String>> {
    let effect = row.effects.first()?;
    let pages = *row.params.get("pages")? as f64;
    let mut cells = vec![number::count(pages)];
    for above in [effect.base - none.base, effect.change - none.change] {
        cells.extend([number::delta(above), number::delta(above / pages)]);
    }
    Some(cells)
}
