//! For the body of a patch's mail: plain ASCII, lines that no mailer breaks.

use super::format::{Format, each};
use super::text::{Page, header, legend, of_what_is_shown, section};
use crate::report::options::TextOptions;
use crate::report::view::{Legend, Line, Section, Table, View};
use crate::text::shell_word;

/// A mailer or a quotation may break longer lines.
const WIDTH: u16 = 72;

/// What a patch's reader asks for: the answer, on what, the rows that say something, the functions
/// that carry most, and how to measure it again.
pub const FORMAT: Format = Format {
    name: "mail",
    file: None,
    write: |report, _| Ok(write(&report.view())),
    several: |all, options| Ok(each(all, FORMAT, options)?.join("\n")),
};

fn write(view: &View) -> String {
    let page = Page::new(TextOptions { width: WIDTH, colour: false, ascii: true });
    let said = |text: &str| page.paragraph(text);
    let mut blocks = vec![said(&view.title), said(&view.headline)];
    blocks.push(header(view, &page) + concat!("ktax ", env!("CARGO_PKG_VERSION"), "\n"));
    let sections = sections(view);
    blocks.extend(sections.iter().filter(|it| !it.is_wordless()).map(|it| section(it, &page)));
    let warnings = view.warnings.iter().map(|it| said(&format!("Warning: {}", it.fact)));
    blocks.push(warnings.collect());
    blocks.push(legend(&of_what_is_shown(short_legend(view), &sections, &page), &page));
    blocks.push(command(&view.again, &page));
    blocks.retain(|block| !block.trim().is_empty());
    blocks.join("\n")
}

/// Those that say something: of each table the rows that changed or have no answer. The functions
/// of single rows are for those who look closer, unless there is one such row.
fn sections(view: &View) -> Vec<Section> {
    let rows = view.sections.iter().filter(|it| matches!(it, Section::Functions(_))).count();
    let is_kept = |section: &&Section| match section {
        Section::Functions(_) => rows == 1,
        // What has a verdict, and not the background.
        Section::AlsoChanged { changes, .. } => {
            changes.iter().any(|it| it.verdict.verdict.is_some())
        }
        _ => true,
    };
    view.sections.iter().filter(is_kept).map(telling).collect()
}

/// What the numbers are, and the words that no reader can guess.
fn short_legend(view: &View) -> Legend {
    let Legend { mut sentences, mut terms } = view.shown_legend();
    sentences.truncate(1);
    terms.retain(|(term, _)| matches!(*term, "MDE %" | "(REP)"));
    Legend { sentences, terms }
}

fn telling(section: &Section) -> Section {
    match section {
        Section::Table { title, table, notes } if has_verdicts(table) => {
            let is_telling = |line: &&Line| {
                let verdict = line.cells.iter().find_map(|cell| cell.verdict);
                verdict.is_none_or(|verdict| verdict.is_change() || !verdict.is_answer())
            };
            let lines = table.lines.iter().filter(is_telling).cloned().collect();
            let table = Table { lines, ..table.clone() };
            Section::Table { title: title.clone(), table, notes: notes.clone() }
        }
        other => other.clone(),
    }
}

fn has_verdicts(table: &Table) -> bool {
    table.lines.iter().flat_map(|line| &line.cells).any(|cell| cell.verdict.is_some())
}

/// The words as a shell takes them, in lines that end in a backslash. A value stays beside its
/// option.
fn command(words: &[String], page: &Page) -> String {
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
    match lines.is_empty() {
        true => String::new(),
        false => format!("To measure it again:\n{}\n", lines.join(" \\\n")),
    }
}
