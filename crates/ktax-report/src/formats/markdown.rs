//! Markdown for reviews on GitHub.

use crate::formats::{Format, joined_by_line};
use crate::view::{
    Cell, Column, ColumnKind, FailureReason, MetricChange, RowFunctions, Section, SideLine, Table,
    View,
};
use ktax_host::text::{ascii, code, escape, html, markdown, shell_line};
use ktax_model::Warning;

/// Maximum number of functions that are shown for a row.
const MAX_FUNCTIONS: usize = 20;

/// Markdown as GitHub renders it: tables, lists, and the functions of a row folded away.
pub const MARKDOWN: Format = Format {
    name: "markdown",
    file: Some("report.md"),
    write: |documents, options| {
        let document = joined_by_line(documents, |document| write(document.view()))?;
        // In ASCII a dot becomes a bar, which is escaped so that it does not begin a cell.
        let ascii = || ascii(&document.replace('·', "\\|"));
        Ok(if options.ascii { ascii() } else { document })
    },
};

/// Writes a view as blocks with an empty line between them.
fn write(view: &View) -> String {
    let mut blocks = vec![format!("### {}\n", markdown(&view.title))];
    if !view.headline.is_empty() {
        blocks.push(format!("**{}**\n", markdown(&view.headline)));
    }
    if !view.sides.is_empty() {
        blocks.push(sides_table(view));
    }
    blocks.push(paragraph(&view.how));
    blocks.extend(view.sections.iter().filter(|section| !section.is_wordless()).map(section));
    let warnings = view
        .warnings
        .iter()
        .map(|Warning { fact, next_step }| format!("{} → {}", markdown(fact), markdown(next_step)));
    blocks.push(list("Warnings:", warnings));
    let legend = view.shown_legend();
    blocks.push(paragraph(&legend.sentences.join(" ")));
    let terms = legend.terms.iter();
    blocks.push(list("", terms.map(|(term, meaning)| markdown(&format!("{term}: {meaning}")))));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

fn sides_table(view: &View) -> String {
    let [name_head, settings_head] = view.side_heads;
    let columns = if settings_head.is_empty() { 2 } else { 3 };
    let mut text = table_line(&["side", name_head, settings_head][..columns]);
    text += &format!("|{}\n", "---|".repeat(columns));
    for SideLine { side, name, settings } in &view.sides {
        text += &table_line(&[*side, &code(name), &code(settings)][..columns]);
    }
    text
}

/// Writes a section; pictures and folded sections are empty.
fn section(part: &Section) -> String {
    match part {
        Section::Sentences(sentences) => {
            list("", sentences.iter().map(|sentence| markdown(sentence)))
        }
        Section::Table { title, table: lines, notes } => {
            let title = if title.is_empty() { String::new() } else { heading(title) };
            let notes = notes.iter().map(|note| format!("\n{}", paragraph(note)));
            title + &table_block(lines) + &notes.collect::<String>()
        }
        Section::Functions(carried) => functions_block(carried),
        Section::AlsoChanged { title, changes } => list(title, changes.iter().map(change_item)),
        Section::Notes { title, notes } => list(
            title,
            notes.iter().map(|note| format!("{}: {}", code(&note.row), markdown(&note.text))),
        ),
        Section::Reasons { title, reasons } => list(title, reasons.iter().map(reason_item)),
        Section::Items { title, items } => list(title, items.iter().map(|item| markdown(item))),
        Section::InWords(inner) => section(inner),
        Section::Command { sentence, command } => {
            format!("{}\n{}", paragraph(sentence), code_block(command))
        }
        Section::Again { sentence, words } => {
            format!("{}\n{}", paragraph(sentence), code_block(&shell_line(words)))
        }
        Section::Picture { .. } | Section::Rows | Section::Folded { .. } => String::new(),
    }
}

/// Writes a code block; a paragraph if the command has characters that could end the block.
fn code_block(command: &str) -> String {
    match command.contains('`') {
        true => paragraph(command),
        false => format!("```\n{}\n```\n", escape(command)),
    }
}

fn heading(title: &str) -> String {
    format!("#### {}\n\n", markdown(title))
}

fn paragraph(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{}\n", markdown(text)) }
}

/// Writes a list below its title; empty without items.
fn list(title: &str, items: impl Iterator<Item = String>) -> String {
    let items: String = items.map(|item| format!("- {item}\n")).collect();
    match (title, items.as_str()) {
        ("", _) | (_, "") => items,
        (title, _) => format!("{}\n{items}", paragraph(title)),
    }
}

fn table_block(table: &Table) -> String {
    let heads: Vec<String> =
        table.columns.iter().map(|column| markdown(&column.head_line())).collect();
    let rule = table.columns.iter().map(|column| match column.kind {
        ColumnKind::Number => "--:",
        _ => "---",
    });
    let mut text = table_line(&heads) + &format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    for line in &table.lines {
        let cells = line.cells.iter().zip(&table.columns).map(cell_text);
        text += &table_line(&cells.collect::<Vec<_>>());
    }
    text
}

fn cell_text((cell, column): (&Cell, &Column)) -> String {
    match column.kind {
        ColumnKind::Row | ColumnKind::Name => code(&cell.text),
        ColumnKind::Words | ColumnKind::Number | ColumnKind::Verdict => markdown(&cell.text),
    }
}

fn table_line<T: AsRef<str>>(cells: &[T]) -> String {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn functions_block(carried: &RowFunctions) -> String {
    let RowFunctions { row, effect, operation, .. } = carried;
    let [row, effect, operation] = [row, effect, operation].map(|text| html(text));
    let summary = format!("{row}: {effect} per operation ({operation})");
    let mut text = format!("<details><summary>{summary}</summary>\n\n");
    text += "| delta | function | base → change | other |\n|--:|---|--:|--:|\n";
    for [delta, function, from_to, other] in carried.largest(MAX_FUNCTIONS) {
        let [delta, from_to, other] = [delta, from_to, other].map(|cell| markdown(&cell));
        text += &table_line(&[delta, code(&function), from_to, other]);
    }
    let paths = carried.paths_sentence();
    let separator = if paths.is_empty() { "" } else { "\n" };
    text + separator + &paragraph(&paths) + "\n</details>\n"
}

fn change_item(change: &MetricChange) -> String {
    let MetricChange { row, metric, from_to, delta, percent, verdict } = change;
    let [metric, from_to, delta, percent] =
        [metric, from_to, delta, percent].map(|text| markdown(text));
    let verdict = markdown(&verdict.text);
    format!("{}, {metric}: {from_to}, {delta} ({percent} %), {verdict}", code(row))
}

fn reason_item(reason: &FailureReason) -> String {
    let rows: Vec<String> = reason.rows.iter().map(|row| code(row)).collect();
    let boots = match (reason.boots.as_str(), reason.name.as_str()) {
        ("", _) => String::new(),
        (boots, "") => format!("{}: ", markdown(boots)),
        (boots, name) => format!("{} {}: ", markdown(boots), code(name)),
    };
    let next_step = match reason.next_step.as_str() {
        "" => String::new(),
        next_step => format!(" → {}", markdown(next_step)),
    };
    format!("{boots}{}: {}{next_step}", rows.join(", "), markdown(&reason.why))
}
