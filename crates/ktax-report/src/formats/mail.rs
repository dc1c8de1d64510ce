//! For the body of a patch's mail: plain ASCII, lines that no mailer breaks.

use crate::formats::text::{command_lines, header, legend, section, shown_terms};
use crate::formats::{Format, Page, TextOptions, each};
use crate::view::{Legend, Line, Section, Table, View};

/// Width of a mail: a mailer or a quotation may break longer lines.
const WIDTH: u16 = 72;

/// Number of rows whose functions are in a mail: those that changed most.
const MOST_FUNCTIONS: usize = 4;

/// Mail for a patch's reader: the answer, on what, the rows that say something, the functions that
/// carry most, and how to measure it again.
pub const MAIL: Format = Format {
    name: "mail",
    file: None,
    write: |report, _| Ok(write(&report.view())),
    several: |all, options| Ok(each(all, MAIL, options)?.join("\n")),
};

fn write(view: &View) -> String {
    let page = Page::new(TextOptions { width: WIDTH, colour: false, ascii: true });
    let paragraph = |text: &str| page.paragraph(text);
    let mut blocks = vec![paragraph(&view.title), paragraph(&view.headline)];
    blocks.push(header(view, &page) + concat!("ktax ", env!("CARGO_PKG_VERSION"), "\n"));
    let sections = telling_sections(view);
    blocks.extend(
        sections.iter().filter(|part| !part.is_wordless()).map(|part| section(part, &page)),
    );
    let warnings =
        view.warnings.iter().map(|warning| paragraph(&format!("Warning: {}", warning.fact)));
    blocks.push(warnings.collect());
    blocks.push(legend(&shown_terms(short_legend(view), &sections, &page), &page));
    blocks.push(again_block(&view.again, &page));
    blocks.retain(|block| !block.trim().is_empty());
    blocks.join("\n")
}

/// Returns the sections for a mail: of each table the rows that changed or have no answer, and the
/// functions and call paths of the rows that changed most.
fn telling_sections(view: &View) -> Vec<Section> {
    let functions = view.sections.iter().filter_map(|section| match section {
        Section::Functions(functions) => Some(functions),
        _ => None,
    });
    let mut sizes: Vec<f64> = functions.map(|functions| functions.size_percent).collect();
    sizes.sort_by(|one, other| other.total_cmp(one));
    let least = sizes.get(MOST_FUNCTIONS - 1).copied().unwrap_or(0.0);
    let is_kept = |section: &&Section| match section {
        Section::Functions(functions) => functions.size_percent >= least,
        // Changes with a verdict, not the background.
        Section::AlsoChanged { changes, .. } => {
            changes.iter().any(|change| change.verdict.verdict.is_some())
        }
        _ => true,
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
    match section {
        Section::InWords(inner) => telling_lines(inner),
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

/// Block with the command that measures again; empty where there is none.
fn again_block(words: &[String], page: &Page) -> String {
    match words.is_empty() {
        true => String::new(),
        false => format!("To measure it again:\n{}", command_lines(words, page)),
    }
}
