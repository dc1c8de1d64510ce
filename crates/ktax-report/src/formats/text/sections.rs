use super::command::command_lines;
use super::draw::{draw, draw_all, left_out, omitted};
use super::page::{Page, align_right, indented, natural_width};
use crate::view::{FailureReason, Functions, MetricChange, Note, Section};
use ktax_model::Warning;

const INDENT: u16 = 2;
const FUNCTIONS: usize = 5;

/// A part of a page, ending in a newline.
pub fn section(part: &Section, page: &Page) -> String {
    match part {
        Section::Sentences(sentences) => paragraphs(sentences, page),
        Section::Table { title, table, notes } => {
            let title = if title.is_empty() { String::new() } else { page.paragraph(title) + "\n" };
            let text = title + &draw_all(table, page) + &paragraphs(notes, page);
            let left_out = left_out(table, page).map(|note| page.paragraph(&note));
            text + &left_out.unwrap_or_default()
        }
        Section::Functions(carried) => functions(carried, page),
        Section::AlsoChanged { title, changes } => {
            let inner = page.narrower(INDENT);
            let table = MetricChange::table(changes);
            let left_out = left_out(&table, &inner).map(|note| inner.paragraph(&note));
            let drawn = draw(&table, &inner) + &left_out.unwrap_or_default();
            page.paragraph(title) + &indented(&drawn, INDENT)
        }
        Section::Notes { title, notes } => {
            let lines: Vec<[&String; 2]> =
                notes.iter().map(|Note { row, text }| [row, text]).collect();
            let lines = page.narrower(INDENT).columns(&lines);
            page.paragraph(title) + &indented(&lines, INDENT)
        }
        Section::Reasons { title, reasons } => {
            let reasons = reasons.iter().map(|it| reason(it, page));
            page.paragraph(title) + &reasons.collect::<String>()
        }
        Section::Items { title, items } => {
            let items = items.iter().map(|item| bullet(item, page));
            page.paragraph(title) + &items.collect::<String>()
        }
        Section::InWords(inner) => section(inner, page),
        // In one line, however long it is.
        Section::Command { sentence, command } => {
            format!("{}  {}\n", page.paragraph(sentence), page.escape(command))
        }
        Section::Again { sentence, words } => {
            page.paragraph(sentence) + &command_lines(words, page)
        }
        Section::Picture { .. } | Section::Rows { .. } | Section::Folded { .. } => String::new(),
    }
}

fn paragraphs(sentences: &[String], page: &Page) -> String {
    sentences.iter().map(|sentence| page.paragraph(sentence)).collect()
}

/// A paragraph behind a dash.
fn bullet(text: &str, page: &Page) -> String {
    let text = indented(&page.narrower(INDENT).paragraph(&page.escape(text)), INDENT);
    format!("-{}", text.get(1..).unwrap_or_default())
}

/// The functions that carry a row's delta. A symbol is searched for and stays whole: a narrow page
/// leaves out what stands beside it.
fn functions(carried: &Functions, page: &Page) -> String {
    let Functions { row, effect, operation, other, .. } = carried;
    let text = format!("{row}: {effect} per operation ({operation})");
    let inner = page.narrower(INDENT);
    let lines = carried.largest(FUNCTIONS);
    let with = |shown: usize| {
        let mut table = inner.table();
        for [delta, function, from_to, other] in &lines {
            let cells = [delta, function, from_to, other].into_iter().take(2 + shown);
            table.add_row(cells.map(|cell| page.escape(cell)).collect::<Vec<_>>());
        }
        align_right(&mut table, 0..1);
        table
    };
    let fits = |shown: &usize| natural_width(&with(*shown)) <= inner.width;
    let shown = (0..=2).rev().find(fits).unwrap_or(0);
    let mut table = inner.finish(&mut with(shown), 1);
    if shown < 2 {
        let gone = ["base → change", other][shown..].join(", ");
        table += &inner.paragraph(&omitted(&gone, &inner));
    }
    let paths = match carried.said_paths() {
        said if said.is_empty() => said,
        said => inner.paragraph(&said),
    };
    page.paragraph(&text) + &indented(&(table + &paths), INDENT)
}

/// Which boots and rows, why, and what to do.
fn reason(reason: &FailureReason, page: &Page) -> String {
    let (inner, innermost) = (page.narrower(INDENT), page.narrower(2 * INDENT));
    let boots = format!("{} {}", reason.boots, reason.name);
    let what = match boots.trim_end() {
        "" => reason.rows.join(", "),
        boots => format!("{boots}: {}", reason.rows.join(", ")),
    };
    let next = match reason.next_step.as_str() {
        "" => String::new(),
        next => innermost.columns(&[["→", next]]),
    };
    [
        indented(&inner.paragraph(&what), INDENT),
        indented(&innermost.paragraph(&reason.why), 2 * INDENT),
        indented(&next, 2 * INDENT),
    ]
    .concat()
}

/// Facts to know, each with what to do.
pub fn warnings(warnings: &[Warning], page: &Page) -> String {
    let lines = warnings.iter().flat_map(|warning| {
        [
            ["warning:".to_owned(), warning.fact.clone()],
            [String::new(), format!("→ {}", warning.next_step)],
        ]
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { String::new() } else { page.columns(&lines) }
}
