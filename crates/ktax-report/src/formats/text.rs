//! Text for a terminal: the page as a whole, and each kind of section.

mod page;
mod tables;

pub use page::Page;
pub use tables::{plain_table, published_table};

use crate::formats::text::page::{align_right, indented, natural_width};
use crate::formats::text::tables::{draw, draw_all, heads_left_out, left_out, omitted};
use crate::formats::{Format, each};
use crate::view::{
    Column, FailureReason, Functions, Legend, MetricChange, Note, Section, SideLine, View,
};
use ktax_host::text::shell_word;
use ktax_model::Warning;

/// Text fitted to the terminal's width.
pub const TEXT: Format = Format {
    name: "text",
    file: Some("report.txt"),
    write: |report, options| Ok(write_page(&report.view(), &Page::new(options))),
    several: |all, options| Ok(each(all, TEXT, options)?.join("\n")),
};

/// Writes the answer, what was compared, what is behind it, what the numbers are.
fn write_page(view: &View, page: &Page) -> String {
    let mut blocks = vec![page.paragraph(&view.title), headline(view, page)];
    blocks.push(header(view, page));
    blocks.extend(
        view.sections.iter().filter(|part| !part.is_wordless()).map(|part| section(part, page)),
    );
    blocks.push(warnings(&view.warnings, page));
    blocks.push(legend(&shown_terms(view.shown_legend(), &view.sections, page), page));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

/// Removes terms of columns that no table of the page has room for.
pub fn shown_terms(mut legend: Legend, sections: &[Section], page: &Page) -> Legend {
    let tables = sections.iter().filter_map(Section::as_table);
    let (mut shown, mut left_out) = (Vec::new(), Vec::new());
    for table in tables {
        let without = heads_left_out(table, page);
        let heads = table.columns.iter().map(Column::head_line);
        shown.extend(heads.filter(|head| !without.contains(head)));
        left_out.extend(without);
    }
    let is_of = |heads: &[String], term: &str| heads.iter().any(|head| head == term);
    legend.terms.retain(|(term, _)| !is_of(&left_out, term) || is_of(&shown, term));
    legend
}

fn headline(view: &View, page: &Page) -> String {
    match view.headline.as_str() {
        "" => String::new(),
        headline => page.paragraph(headline),
    }
}

/// Writes the legend.
pub fn legend(legend: &Legend, page: &Page) -> String {
    let mut text = match legend.sentences.as_slice() {
        [] => String::new(),
        sentences => page.paragraph(&sentences.join(" ")),
    };
    let terms = legend.terms.iter().map(|(term, meaning)| [*term, meaning.as_str()]);
    let terms: Vec<[&str; 2]> = terms.collect();
    if !terms.is_empty() {
        text += &page.columns(&terms);
    }
    text
}

/// Writes what was compared, and how it was measured.
pub fn header(view: &View, page: &Page) -> String {
    // The last column may wrap.
    let shown = if view.side_heads[1].is_empty() { 2 } else { 3 };
    let side = |side: &SideLine| {
        let all = [side.side.to_owned(), side.what.clone(), side.beside.clone()];
        all.into_iter().take(shown).collect::<Vec<String>>()
    };
    let mut text = match view.sides.as_slice() {
        [] => String::new(),
        sides => page.columns(&sides.iter().map(side).collect::<Vec<_>>()),
    };
    if !view.how.is_empty() {
        text += &page.paragraph(&view.how);
    }
    text
}

const INDENT: u16 = 2;
const FUNCTIONS: usize = 5;

/// Writes a part of a page, ending in a newline.
pub fn section(part: &Section, page: &Page) -> String {
    match part {
        Section::Sentences(sentences) => paragraphs(sentences, page),
        Section::Table { title, table, notes } => {
            let title = if title.is_empty() { String::new() } else { page.paragraph(title) + "\n" };
            let text = title + &draw_all(table, page) + &paragraphs(notes, page);
            let left_out = left_out(table, page).map(|note| page.paragraph(&note));
            text + &left_out.unwrap_or_default()
        }
        Section::Functions(carried) => functions_section(carried, page),
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
            let reasons = reasons.iter().map(|reason| reason_lines(reason, page));
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

/// Writes a paragraph behind a dash.
fn bullet(text: &str, page: &Page) -> String {
    let text = indented(&page.narrower(INDENT).paragraph(&page.escape(text)), INDENT);
    format!("-{}", text.get(1..).unwrap_or_default())
}

/// Writes the functions that carry a row's delta. A symbol is searched for and stays whole: a
/// narrow page leaves out what stands beside it.
fn functions_section(carried: &Functions, page: &Page) -> String {
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
    let paths = match carried.paths_sentence() {
        sentence if sentence.is_empty() => sentence,
        sentence => inner.paragraph(&sentence),
    };
    page.paragraph(&text) + &indented(&(table + &paths), INDENT)
}

/// Writes which boots and rows failed, why, and what to do.
fn reason_lines(reason: &FailureReason, page: &Page) -> String {
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

/// Writes facts to know, each with what to do.
fn warnings(warnings: &[Warning], page: &Page) -> String {
    let lines = warnings.iter().flat_map(|warning| {
        [
            ["warning:".to_owned(), warning.fact.clone()],
            [String::new(), format!("→ {}", warning.next_step)],
        ]
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { String::new() } else { page.columns(&lines) }
}

/// Writes a command quoted for a shell, in lines that end in a backslash where one line is too
/// wide. A value stays beside its option.
pub fn command_lines(words: &[String], page: &Page) -> String {
    let mut parts: Vec<String> = Vec::new();
    for word in words {
        let quoted = page.own(&shell_word(word));
        match parts.last_mut().filter(|last| last.starts_with('-') && !word.starts_with('-')) {
            // Room for the margin, the blank and the backslash at the end.
            Some(option)
                if !option.contains(' ')
                    && option.len() + quoted.len() + 7 <= usize::from(page.width) =>
            {
                *option += &format!(" {quoted}");
            }
            _ => parts.push(quoted),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        // Two columns are for the blank and the backslash at the end.
        let fits = |line: &&mut String| line.len() + part.len() + 3 <= usize::from(page.width);
        match lines.last_mut().filter(fits) {
            Some(line) => *line += &format!(" {part}"),
            None => lines.push(format!("  {}{part}", if lines.is_empty() { "" } else { "  " })),
        }
    }
    lines.join(" \\\n") + "\n"
}
