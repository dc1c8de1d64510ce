//! Text for a terminal, and mail for a patch: plain ASCII, in lines that no mailer breaks.

mod grid;

pub use grid::{Page, plain_table, published_table};

use crate::formats::text::grid::{draw, grid, grid_width, indented, omitted};
use crate::formats::{Format, TextOptions, joined_by_line};
use crate::view::{
    Column, FailureReason, Functions, Legend, Line, MetricChange, Note, Section, SideLine, Table,
    View,
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

/// Writes the answer, what was compared, what is behind it, what the numbers are.
fn write_page(view: &View, options: TextOptions) -> String {
    let page = &Page::new(options);
    let mut blocks = vec![page.paragraph(&view.title), optional(&view.headline, page)];
    blocks.push(header(view, page));
    let (sections, legend) = sections(&view.sections, view.shown_legend(), page);
    blocks.extend(sections);
    blocks.extend([warnings(&view.warnings, page), legend]);
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

fn optional(text: &str, page: &Page) -> String {
    if text.is_empty() { String::new() } else { page.paragraph(text) }
}

/// Sections in words, and the legend without terms of columns that have no room.
pub fn sections(parts: &[Section], mut legend: Legend, page: &Page) -> (Vec<String>, String) {
    let (mut shown, mut left_out) = (Vec::new(), Vec::new());
    let mut write = |part: &Section| {
        let (text, gone) = section(part, page);
        if let Some(table) = part.as_table() {
            let heads = table.columns.iter().map(Column::head_line);
            shown.extend(heads.filter(|head| !gone.contains(head)));
            left_out.extend(gone);
        }
        text
    };
    let texts = parts.iter().filter(|part| !part.is_wordless()).map(&mut write).collect();
    let has = |heads: &[String], term: &str| heads.iter().any(|head| head == term);
    legend.terms.retain(|(term, _)| !has(&left_out, term) || has(&shown, term));
    (texts, legend_text(&legend, page))
}

fn legend_text(legend: &Legend, page: &Page) -> String {
    let mut text = optional(&legend.sentences.join(" "), page);
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
    text += &optional(&view.how, page);
    text
}

const INDENT: usize = 2;
const FUNCTIONS: usize = 5;

/// Writes a part of a page, ending in a newline. Returns the heads of columns that are left out,
/// too.
fn section(part: &Section, page: &Page) -> (String, Vec<String>) {
    let inner = page.narrower(INDENT);
    let below = |title: &str, text: &str| page.paragraph(title) + &indented(text, INDENT);
    let text = match part {
        Section::Table { title, table, notes } => {
            let title = if title.is_empty() { String::new() } else { page.paragraph(title) + "\n" };
            let drawn = draw(table, page);
            let left_out = drawn.left_out.clone();
            let notes = paragraphs(notes, page);
            return (title + &drawn.text + &notes + &drawn.note(page), left_out);
        }
        Section::InWords(inner) => return section(inner, page),
        Section::Sentences(sentences) => paragraphs(sentences, page),
        Section::Functions(carried) => functions_section(carried, page),
        Section::AlsoChanged { title, changes } => {
            let drawn = draw(&MetricChange::table(changes), &inner);
            below(title, &(drawn.text.clone() + &drawn.note(&inner)))
        }
        Section::Notes { title, notes } => {
            let lines = notes.iter().map(|Note { row, text }| [row, text]);
            below(title, &inner.columns(&lines.collect::<Vec<[&String; 2]>>()))
        }
        Section::Reasons { title, reasons } => {
            let reasons = reasons.iter().map(|reason| reason_lines(reason, page));
            page.paragraph(title) + &reasons.collect::<String>()
        }
        Section::Items { title, items } => {
            let items = items.iter().map(|item| bullet(item, page));
            page.paragraph(title) + &items.collect::<String>()
        }
        // In one line, however long it is.
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
        let cells = |line: &[String; 4]| {
            line.iter().take(2 + shown).map(|cell| page.escape(cell)).collect()
        };
        grid(lines.iter().map(cells), &[true])
    };
    let fits = |shown: &usize| grid_width(&with(*shown)) <= inner.width;
    let shown = (0..=2).rev().find(fits).unwrap_or(0);
    let mut table = inner.print(with(shown), 1);
    if shown < 2 {
        let gone = ["base → change", other][shown..].join(", ");
        table += &inner.paragraph(&omitted(&gone, &inner));
    }
    let paths = optional(&carried.paths_sentence(), &inner);
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

fn warnings(warnings: &[Warning], page: &Page) -> String {
    let lines = warnings.iter().flat_map(|Warning { fact, next_step }| {
        [["warning:", fact].map(str::to_owned), [String::new(), format!("→ {next_step}")]]
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { String::new() } else { page.columns(&lines) }
}

/// A command in lines that end in a backslash; a value stays beside its option.
pub fn command_lines(words: &[String], page: &Page) -> String {
    let mut parts: Vec<String> = Vec::new();
    for word in words {
        let quoted = page.own(&shell_word(word));
        match parts.last_mut().filter(|last| last.starts_with('-') && !word.starts_with('-')) {
            // Room for the margin, the blank and the backslash at the end.
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
        // Two columns are for the blank and the backslash at the end.
        let fits = |line: &&mut String| line.len() + part.len() + 3 <= page.width;
        match lines.last_mut().filter(fits) {
            Some(line) => *line += &format!(" {part}"),
            None => lines.push(format!("  {}{part}", if lines.is_empty() { "" } else { "  " })),
        }
    }
    lines.join(" \\\n") + "\n"
}

/// Width of a mail: a mailer or a quotation may break longer lines.
const MAIL_WIDTH: u16 = 72;

/// Number of rows whose functions are in a mail: those that changed most.
const MOST_FUNCTIONS: usize = 4;

/// Mail for a patch's reader: the answer, on what, the rows that say something, the functions that
/// carry most, and how to measure it again.
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
    let (sections, legend) = sections(&telling_sections(view), short_legend(view), &page);
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

/// Returns the sections for a mail: of each table the rows that changed or have no answer, and the
/// functions and call paths of the rows that changed most.
fn telling_sections(view: &View) -> Vec<Section> {
    let functions = view.sections.iter().filter_map(|section| match section {
        Section::Functions(functions) => Some(functions.size_percent),
        _ => None,
    });
    let mut sizes: Vec<f64> = functions.collect();
    sizes.sort_by(|one, other| other.total_cmp(one));
    let least = sizes.get(MOST_FUNCTIONS - 1).copied().unwrap_or(0.0);
    let is_kept = |section: &&Section| match section {
        Section::Functions(functions) => functions.size_percent >= least,
        // Changes with a verdict, not the background.
        Section::AlsoChanged { changes, .. } => {
            changes.iter().any(|change| change.verdict.verdict.is_some())
        }
        _ => !section.is_wordless(),
    };
    view.sections.iter().filter(is_kept).map(telling_lines).collect()
}

/// Legend of a mail: what the numbers are, and the words that no reader can guess.
fn short_legend(view: &View) -> Legend {
    let Legend { mut sentences, mut terms } = view.shown_legend();
    sentences.truncate(1);
    terms.retain(|(term, _)| matches!(*term, "MDE %" | "(REP)"));
    Legend { sentences, terms }
}

fn telling_lines(section: &Section) -> Section {
    let Section::Table { title, table, notes } = section.in_words() else { return section.clone() };
    let verdict = |line: &&Line| line.cells.iter().find_map(|cell| cell.verdict);
    if !table.lines.iter().any(|line| verdict(&line).is_some()) {
        return section.in_words().clone();
    }
    let is_telling = |line: &&Line| {
        verdict(line).is_none_or(|verdict| verdict.is_change() || !verdict.is_answer())
    };
    let lines = table.lines.iter().filter(is_telling).cloned().collect();
    let (title, notes) = (title.clone(), notes.clone());
    Section::Table { title, table: Table { lines, ..table.clone() }, notes }
}
