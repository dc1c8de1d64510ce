use super::page::Page;
use super::sections::{section, warnings};
use crate::report::formats::format::Format;
use crate::report::view::{Legend, SideLine, View};
use crate::text::escape;

/// Fitted to the terminal's width.
pub const FORMAT: Format = Format {
    name: "text",
    file: Some("report.txt"),
    write: |report, options| Ok(write(&report.view(), &Page::new(options))),
    join: |all| all.join("\n"),
};

/// What was compared, the answer, what is behind it, what the numbers are.
fn write(view: &View, page: &Page) -> String {
    let mut blocks = vec![page.paragraph(&escape(&view.title)), header(view, page)];
    blocks.extend(view.sections.iter().filter(|it| !it.is_empty()).map(|it| section(it, page)));
    blocks.push(warnings(&view.warnings, page));
    blocks.push(legend(&view.legend, page));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n")
}

fn legend(legend: &Legend, page: &Page) -> String {
    let mut text = match legend.sentences.as_slice() {
        [] => String::new(),
        sentences => page.paragraph(&escape(&sentences.join(" "))),
    };
    let terms = legend.terms.iter().map(|(term, meaning)| [(*term).to_owned(), escape(meaning)]);
    let terms: Vec<[String; 2]> = terms.collect();
    if !terms.is_empty() {
        text += &page.columns(&terms);
    }
    text
}

/// What was compared, and how it was measured.
fn header(view: &View, page: &Page) -> String {
    // The last of them may wrap.
    let shown = if view.side_heads[1].is_empty() { 2 } else { 3 };
    let side = |it: &SideLine| {
        let all = [it.side.to_owned(), escape(&it.what), escape(&it.beside)];
        all.into_iter().take(shown).collect::<Vec<String>>()
    };
    let mut text = match view.sides.as_slice() {
        [] => String::new(),
        sides => page.columns(&sides.iter().map(side).collect::<Vec<_>>()),
    };
    if !view.how.is_empty() {
        text += &page.paragraph(&escape(&view.how));
    }
    text
}
