use crate::formats::{Page, numbers};
use crate::options::TextOptions;
use crate::{number, words};
use ktax_model::{Comparison, Effect, Row, family};

/// For each family of rows that differ in `pages` alone: the overhead, and what is above it.
pub fn render(comparison: &Comparison, options: TextOptions) -> String {
    let overheads = comparison.rows.iter().filter(|row| row.params.get("pages") == Some(&0));
    let page = Page::new(options);
    let mut text = page.paragraph(&comparison.title);
    if overheads.clone().next().is_none() {
        let missing = "No row has pages=0, what a process costs without extra pages: compare \
                       with `-w fork-pages`, or with `-w fork-pages:pages=0` and other sizes.";
        return text + "\n" + &page.paragraph(missing);
    }
    for overhead in overheads {
        text += &table(comparison, overhead, options);
    }
    text
}

/// Whether a row is in one of the tables: with pages beside a row without, both measured.
pub fn has(comparison: &Comparison, row: &Row) -> bool {
    let title = family(&row.row, "pages");
    let is_overhead = |row: &&Row| row.params.get("pages") == Some(&0);
    let overheads = comparison.rows.iter().filter(is_overhead);
    let none = overheads.filter(|one| family(&one.row, "pages") == title);
    let is_shown = |none: &Row| {
        let effect = none.effects().first();
        effect.is_some_and(|none| row.params.get("pages") == Some(&0) || cells(row, none).is_some())
    };
    none.into_iter().any(is_shown)
}

fn table(comparison: &Comparison, overhead: &Row, options: TextOptions) -> String {
    let Some(none) = overhead.effects().first() else { return String::new() };
    let (base, change) = (number::count(none.base), number::count(none.change));
    let title = family(&overhead.row, "pages");
    let mut text = format!(
        "\n{}: overhead for creating one process: {base} instructions in base, \
         {change} in change\n\n",
        Page::new(options).escape(&title)
    );
    let sized = comparison.rows.iter().filter(|row| family(&row.row, "pages") == title);
    let rows = sized.filter_map(|row| cells(row, none));
    let header =
        ["pages", "base\nabove overhead", "per page", "change\nabove overhead", "per page"];
    text += &numbers(&header, rows.collect(), 0..header.len(), options);
    let growth = comparison.counts().map(|counts| &counts.growth);
    for growth in growth.into_iter().flatten().filter(|growth| growth.family == title) {
        text += &format!("\n{}", Page::new(options).paragraph(&words::growth(growth)));
    }
    text
}

fn cells(row: &Row, none: &Effect) -> Option<Vec<String>> {
    let effect = row.effects().first()?;
    let pages = *row.params.get("pages").filter(|pages| **pages > 0)? as f64;
    let mut cells = vec![number::count(pages)];
    for above in [effect.base - none.base, effect.change - none.change] {
        cells.extend([number::delta(above), number::delta(above / pages)]);
    }
    Some(cells)
}
