//! What is behind the table, below it.

use comfy_table::Table;

use crate::model::{Comparison, Effect, Row, Verdict, Warning};
use crate::report::{number, view};
use crate::text::escape;

use super::layout::{Page, align_right, folded, indented, natural_width};

const INDENT: u16 = 2;
const FUNCTIONS: usize = 5;

/// How costs grow, a line for each family and Side.
pub(super) fn growth(comparison: &Comparison, page: &Page) -> String {
    comparison.growth.iter().map(|growth| page.paragraph(&escape(&view::growth(growth)))).collect()
}

/// For every changed row the functions that carry the difference.
pub(super) fn functions(comparison: &Comparison, page: &Page) -> String {
    let changed = comparison.rows.iter().filter_map(|row| Some((row, row.deciding()?)));
    let carried = changed.filter(|(_, effect)| !effect.functions.is_empty());
    let sections: Vec<String> =
        carried.map(|(row, effect)| functions_of(row, effect, page)).collect();
    sections.join("\n")
}

fn functions_of(row: &Row, effect: &Effect, page: &Page) -> String {
    let mut text = page.paragraph(&format!(
        "{}: {} per operation ({})",
        escape(&row.row),
        view::headline(effect),
        escape(&row.operation),
    ));
    let (largest, rest) = view::largest(effect, FUNCTIONS);
    let inner = page.narrower(INDENT);
    let mut table = inner.table();
    for function in largest {
        let [delta, from_to, other] = view::carried(effect, function, row.ops);
        table.add_row([delta, escape(&function.function), from_to, other]);
    }
    if let Some((count, delta, rep)) = rest {
        let [delta, other] = view::both(effect, delta, rep);
        table.add_row([delta, view::more(count), String::new(), other]);
    }
    align_right(&mut table, 0..1);
    text.push_str(&indented(&inner.finish(&mut table, 1), INDENT));
    text
}

/// The other Metrics that changed, one line each.
pub(super) fn also_changed(comparison: &Comparison, page: &Page) -> String {
    let changed = view::also_changed(comparison);
    if changed.is_empty() {
        return String::new();
    }
    let inner = page.narrower(INDENT);
    let fits = |table: &Table| natural_width(table) <= inner.width;
    let mut table = [(true, false), (true, true), (false, false)]
        .into_iter()
        .map(|(values, fold)| secondary(&changed, &inner, values, fold))
        .find(fits)
        .unwrap_or_else(|| secondary(&changed, &inner, false, true));
    let verdicts: Vec<Verdict> = changed.iter().map(|(_, effect)| effect.verdict).collect();
    let text = inner.colour_verdicts(&inner.finish(&mut table, 0), &verdicts);
    page.paragraph(view::ALSO_CHANGED) + &indented(&text, INDENT)
}

fn secondary(changed: &[(&Row, &Effect)], page: &Page, values: bool, fold: bool) -> Table {
    let mut table = page.table();
    for (row, effect) in changed {
        let name = escape(&row.row);
        let mut cells = vec![if fold { folded(&name) } else { name }, escape(&effect.metric)];
        if values {
            let (base, change) = (number::count(effect.base), number::count(effect.change));
            cells.push(format!("{base} → {change}"));
        }
        cells.extend([
            number::delta(effect.delta),
            format!("{} %", number::percent(effect.percent)),
            effect.verdict.text().to_owned(),
        ]);
        table.add_row(cells);
    }
    let columns = table.column_count();
    align_right(&mut table, 2..columns - 1);
    table
}

/// How the work differed.
pub(super) fn different_work(comparison: &Comparison, page: &Page) -> String {
    let inner = page.narrower(INDENT);
    let differing = comparison.rows.iter().filter(|row| !row.different_work.is_empty());
    let lines: Vec<[String; 2]> = differing
        .flat_map(|row| row.different_work.iter().map(|text| [escape(&row.row), escape(text)]))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    page.paragraph("The sides did different work; these numbers do not compare:")
        + &indented(&inner.columns(&lines), INDENT)
}

/// Which Boots have no Sample, why, and what to do.
pub(super) fn failures(comparison: &Comparison, page: &Page) -> String {
    let mut text = String::new();
    let (inner, innermost) = (page.narrower(INDENT), page.narrower(2 * INDENT));
    for (boot, failure, rows) in view::failures(comparison) {
        if text.is_empty() {
            text = page.paragraph("Failed, so not compared:");
        }
        let rows = rows.into_iter().map(escape).collect::<Vec<_>>().join(", ");
        let what = format!("boot {}: {rows}", escape(boot));
        let why = escape(&failure.to_string());
        text.push_str(&indented(&inner.paragraph(&what), INDENT));
        text.push_str(&indented(&innermost.paragraph(&why), 2 * INDENT));
        let next = innermost.columns(&[["→", failure.next_step()]]);
        text.push_str(&indented(&next, 2 * INDENT));
    }
    text
}

/// Facts to know, each with what to do.
pub(super) fn warnings(warnings: &[Warning], page: &Page) -> String {
    let lines = warnings.iter().flat_map(|warning| {
        [
            ["warning:".to_owned(), escape(&warning.fact)],
            [String::new(), format!("→ {}", escape(&warning.next_step))],
        ]
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { String::new() } else { page.columns(&lines) }
}
