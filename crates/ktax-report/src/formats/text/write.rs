use super::draw::heads_left_out;
use super::page::Page;
use super::sections::{section, warnings};
use crate::formats::format::{Format, each};
use crate::view::{Column, Legend, Section, SideLine, View};

/// Fitted to the terminal's width.
pub const FORMAT: Format = Format {
    name: "text",
    file: Some("report.txt"),
    write: |report, options| Ok(write(&report.view(), &Page::new(options))),
    several: |all, options| Ok(each(all, FORMAT, options)?.join("\n")),
};

/// The answer, what was compared, what is behind it, what the numbers are.
fn write(view: &View, page: &Page) -> String {
    let mut blocks = vec![page.paragraph(&view.title), headline(view, page)];
    blocks.push(header(view, page));
    blocks.extend(view.sections.iter().filter(|it| !it.is_wordless()).map(|it| section(it, page)));
    blocks.push(warnings(&view.warnings, page));
    blocks.push(legend(&of_what_is_shown(view.shown_legend(), &view.sections, page), page));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

/// Without the heads of columns that no table of the page has room for.
pub fn of_what_is_shown(mut legend: Legend, sections: &[Section], page: &Page) -> Legend {
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

/// What the numbers are.
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

/// What was compared, and how it was measured.
pub fn header(view: &View, page: &Page) -> String {
    // The last of them may wrap.
    let shown = if view.side_heads[1].is_empty() { 2 } else { 3 };
    let side = |it: &SideLine| {
        let all = [it.side.to_owned(), it.what.clone(), it.beside.clone()];
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
