//! Text for a terminal, and mail about a patch. A mail is ASCII with lines that mailers do not
//! break.

mod grid;

pub use grid::{Page, plain_table, published_table};

use crate::formats::text::grid::{draw, grid, grid_width, indented, omitted};
use crate::formats::{Format, TextOptions, joined_by_line};
use crate::view::{
    Column, FailureReason, Legend, Line, MetricChange, Note, RowFunctions, Section, SideLine,
    Table, View,
};
use ktax_host::text::shell_word;
use ktax_model::Warning;

/// Text fitted to the terminal's width.
pub const TEXT: Format = Format {
    name: "text",
    file: Some("report.txt"),
    write: |documents, options| {
        joined_by_line(documents, |document| write_page(document.view(), options))
    },
};

/// Writes a page: the answer, what was compared, the sections, warnings and the legend.
fn write_page(view: &View, options: TextOptions) -> String {
    let page = &Page::new(options);
    let mut blocks = vec![page.paragraph(&view.title), optional_paragraph(&view.headline, page)];
    blocks.push(header(view, page));
    let (sections, legend) = sections(&view.sections, view.shown_legend(), page);
    blocks.extend(sections);
    blocks.extend([warnings(&view.warnings, page), legend]);
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

/// Wraps text; empty text is no paragraph.
fn optional_paragraph(text: &str, page: &Page) -> String {
    if text.is_empty() { String::new() } else { page.paragraph(text) }
}

/// Writes the sections, and the legend without terms of columns that are left out for lack of room.
pub fn sections(parts: &[Section], mut legend: Legend, page: &Page) -> (Vec<String>, String) {
    let (mut shown, mut left_out) = (Vec::new(), Vec::new());
    let mut write = |part: &Section| {
        let (text, omitted) = section(part, page);
        if let Some(table) = part.as_table() {
            let heads = table.columns.iter().map(Column::head_line);
            shown.extend(heads.filter(|head| !omitted.contains(head)));
            left_out.extend(omitted);
        }
        text
    };
    let texts = parts.iter().filter(|part| !part.is_wordless()).map(&mut write).collect();
    let contains_head = |heads: &[String], term: &str| heads.iter().any(|head| head == term);
    legend.terms.retain(|(term, _)| !contains_head(&left_out, term) || contains_head(&shown, term));
    (texts, legend_text(&legend, page))
}

fn legend_text(legend: &Legend, page: &Page) -> String {
    let mut text = optional_paragraph(&legend.sentences.join(" "), page);
    let terms = legend.terms.iter().map(|(term, meaning)| [*term, meaning.as_str()]);
    let terms: Vec<[&str; 2]> = terms.collect();
    if !terms.is_empty() {
        text += &page.columns(&terms);
    }
    text
}

/// Writes what was compared, and how it was measured.
pub fn header(view: &View, page: &Page) -> String {
    let columns = if view.side_heads[1].is_empty() { 2 } else { 3 };
    let side = |side: &SideLine| {
        let cells = [side.side.to_owned(), side.name.clone(), side.settings.clone()];
        cells.into_iter().take(columns).collect::<Vec<String>>()
    };
    let mut text = match view.sides.as_slice() {
        [] => String::new(),
        sides => page.columns(&sides.iter().map(side).collect::<Vec<_>>()),
    };
    text += &optional_paragraph(&view.how, page);
    text
}

const INDENT: usize = 2;
/// Maximum number of functions that are shown for a row.
const MAX_FUNCTIONS: usize = 5;

/// Writes a section, ending in a newline. Also returns the heads of the columns that were left out.
fn section(part: &Section, page: &Page) -> (String, Vec<String>) {
    let inner = page.narrower(INDENT);
    let below_title = |title: &str, text: &str| page.paragraph(title) + &indented(text, INDENT);
    let text = match part {
        Section::Table { title, table, notes } => {
            let title = if title.is_empty() { String::new() } else { page.paragraph(title) + "\n" };
            let table_text = draw(table, page);
            let left_out = table_text.left_out.clone();
            let notes = paragraphs(notes, page);
            return (title + &table_text.text + &notes + &table_text.note(page), left_out);
        }
        Section::InWords(inner) => return section(inner, page),
        Section::Sentences(sentences) => paragraphs(sentences, page),
        Section::Functions(carried) => functions_section(carried, page),
        Section::AlsoChanged { title, changes } => {
            let table_text = draw(&MetricChange::table(changes), &inner);
            below_title(title, &(table_text.text.clone() + &table_text.note(&inner)))
        }
        Section::Notes { title, notes } => {
            let lines = notes.iter().map(|Note { row, text }| [row, text]);
            below_title(title, &inner.columns(&lines.collect::<Vec<[&String; 2]>>()))
        }
        Section::Reasons { title, reasons } => {
            let reasons = reasons.iter().map(|reason| reason_lines(reason, page));
            page.paragraph(title) + &reasons.collect::<String>()
        }
        Section::Items { title, items } => {
            let items = items.iter().map(|item| bullet(item, page));
            page.paragraph(title) + &items.collect::<String>()
        }
        // The line is not broken, so that it can be copied.
        Section::Command { sentence, command } => {
            format!("{}  {}\n", page.paragraph(sentence), page.escape(command))
        }
        Section::Again { sentence, words } => {
            page.paragraph(sentence) + &command_lines(words, page)
        }
        Section::Picture { .. } | Section::Rows | Section::Folded { .. } => String::new(),
    };
    (text, Vec::new())
}

fn paragraphs(sentences: &[String], page: &Page) -> String {
    sentences.iter().map(|sentence| page.paragraph(sentence)).collect()
}

/// Writes an item of a list.
fn bullet(text: &str, page: &Page) -> String {
    let text = indented(&page.narrower(INDENT).paragraph(&page.escape(text)), INDENT);
    format!("-{}", text.get(1..).unwrap_or_default())
}

/// Writes the functions that carry a row's delta. Names of functions are not broken, because
/// readers search for them. A narrow page leaves out the columns after the name instead.
fn functions_section(carried: &RowFunctions, page: &Page) -> String {
    let RowFunctions { row, effect, operation, other, .. } = carried;
    let text = format!("{row}: {effect} per operation ({operation})");
    let inner = page.narrower(INDENT);
    let lines = carried.largest(MAX_FUNCTIONS);
    // Grid of the delta, the function and up to two further columns.
    let grid_with = |further: usize| {
        let cells = |line: &[String; 4]| {
            line.iter().take(2 + further).map(|cell| page.escape(cell)).collect()
        };
        grid(lines.iter().map(cells), &[true])
    };
    let fits = |further: &usize| grid_width(&grid_with(*further)) <= inner.width;
    let further = (0..=2).rev().find(fits).unwrap_or(0);
    let mut table = inner.print(grid_with(further), 1);
    if further < 2 {
        let left_out = ["base → change", other][further..].join(", ");
        table += &inner.paragraph(&omitted(&left_out, &inner));
    }
    let paths = optional_paragraph(&carried.paths_sentence(), &inner);
    page.paragraph(&text) + &indented(&(table + &paths), INDENT)
}

/// Writes which boots and rows failed, why, and the next step.
fn reason_lines(reason: &FailureReason, page: &Page) -> String {
    let (inner, innermost) = (page.narrower(INDENT), page.narrower(2 * INDENT));
    let boots = format!("{} {}", reason.boots, reason.name);
    let failed = match boots.trim_end() {
        "" => reason.rows.join(", "),
        boots => format!("{boots}: {}", reason.rows.join(", ")),
    };
    let next_step = match reason.next_step.as_str() {
        "" => String::new(),
        next_step => innermost.columns(&[["→", next_step]]),
    };
    [
        indented(&inner.paragraph(&failed), INDENT),
        indented(&innermost.paragraph(&reason.why), 2 * INDENT),
        indented(&next_step, 2 * INDENT),
    ]
    .concat()
}

fn warnings(warnings: &[Warning], page: &Page) -> String {
    let lines = warnings.iter().flat_map(|Warning { fact, next_step }| {
        [["warning:", fact].map(str::to_owned), [String::new(), format!("→ {next_step}")]]
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { String::new() } else { page.columns(&lines) }
}

/// Writes a command in lines that end in a backslash; an option and its value stay on one line.
pub fn command_lines(words: &[String], page: &Page) -> String {
    let mut parts: Vec<String> = Vec::new();
    for word in words {
        let quoted = page.spell(&shell_word(word));
        match parts.last_mut().filter(|last| last.starts_with('-') && !word.starts_with('-')) {
            // 7 columns: a margin of 4, the space before the value, the space and backslash at the
            // end.
            Some(option)
                if !option.contains(' ') && option.len() + quoted.len() + 7 <= page.width =>
            {
                *option += &format!(" {quoted}");
            }
            _ => parts.push(quoted),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        // 3 columns: the space before the part, the space and the backslash at the end.
        let fits = |line: &&mut String| line.len() + part.len() + 3 <= page.width;
        match lines.last_mut().filter(fits) {
            Some(line) => *line += &format!(" {part}"),
            None => lines.push(format!("  {}{part}", if lines.is_empty() { "" } else { "  " })),
        }
    }
    lines.join(" \\\n") + "\n"
}

/// Width of a mail: mailers and quotations may break longer lines.
const MAIL_WIDTH: u16 = 72;

/// Maximum number of rows whose functions are in a mail: the rows that changed most.
const MAX_ROWS_WITH_FUNCTIONS: usize = 4;

/// Mail for readers of a patch: the answer, the sides, the rows that changed or failed, the
/// functions that carry most, and the command that repeats the measurement.
pub const MAIL: Format = Format {
    name: "mail",
    file: None,
    write: |documents, _| joined_by_line(documents, |document| write_mail(document.view())),
};

fn write_mail(view: &View) -> String {
    let page = Page::new(TextOptions { width: MAIL_WIDTH, colour: false, ascii: true });
    let paragraph = |text: &str| page.paragraph(text);
    let mut blocks = vec![paragraph(&view.title), paragraph(&view.headline)];
    blocks.push(header(view, &page) + concat!("ktax ", env!("CARGO_PKG_VERSION"), "\n"));
    let (sections, legend) = sections(&mail_sections(view), mail_legend(view), &page);
    blocks.extend(sections);
    let warnings =
        view.warnings.iter().map(|warning| paragraph(&format!("Warning: {}", warning.fact)));
    blocks.extend([warnings.collect(), legend]);
    if !view.again.is_empty() {
        blocks.push(format!("To measure it again:\n{}", command_lines(&view.again, &page)));
    }
    blocks.retain(|block| !block.trim().is_empty());
    blocks.join("\n")
}

/// Returns the sections of a mail: each table with the rows that changed or have no answer, and the
/// functions and call paths of the rows that changed most.
fn mail_sections(view: &View) -> Vec<Section> {
    let functions = view.sections.iter().filter_map(|section| match section {
        Section::Functions(functions) => Some(functions.size_percent),
        _ => None,
    });
    let mut sizes: Vec<f64> = functions.collect();
    sizes.sort_by(|one, other| other.total_cmp(one));
    let min_size = sizes.get(MAX_ROWS_WITH_FUNCTIONS - 1).copied().unwrap_or(0.0);
    let is_kept = |section: &&Section| match section {
        Section::Functions(functions) => functions.size_percent >= min_size,
        // The background has no verdicts and is left out.
        Section::AlsoChanged { changes, .. } => {
            changes.iter().any(|change| change.verdict.verdict.is_some())
        }
        _ => !section.is_wordless(),
    };
    view.sections.iter().filter(is_kept).map(mail_section).collect()
}

/// Legend of a mail: the first sentence, and the terms that readers cannot guess.
fn mail_legend(view: &View) -> Legend {
    let Legend { mut sentences, mut terms } = view.shown_legend();
    sentences.truncate(1);
    terms.retain(|(term, _)| matches!(*term, "MDE %" | "(REP)"));
    Legend { sentences, terms }
}

/// Returns the section in words; a table of verdicts only has the rows that changed or have no
/// answer.
fn mail_section(section: &Section) -> Section {
    let Section::Table { title, table, notes } = section.in_words() else { return section.clone() };
    let verdict = |line: &&Line| line.cells.iter().find_map(|cell| cell.verdict);
    if !table.lines.iter().any(|line| verdict(&line).is_some()) {
        return section.in_words().clone();
    }
    let is_kept = |line: &&Line| {
        verdict(line).is_none_or(|verdict| verdict.is_change() || !verdict.is_answer())
    };
    let lines = table.lines.iter().filter(is_kept).cloned().collect();
    let (title, notes) = (title.clone(), notes.clone());
    Section::Table { title, table: Table { lines, ..table.clone() }, notes }
}
