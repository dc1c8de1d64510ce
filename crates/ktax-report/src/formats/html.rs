//! A page for a browser: one file that needs no network and no script. The page has the result as
//! JSON in it, so that `ktax report` can read the page.
//!
//! All text from outside goes through [`t`], which escapes it.

mod section;
mod svg;

pub use svg::flame_file;

use std::fmt::Write as _;
use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use maud::{DOCTYPE, Escaper, Markup, PreEscaped, Render, html};

use crate::formats::html::section::{command, row_details, section};
use crate::formats::html::svg::marks;
use crate::formats::{Format, not_writable};
use crate::pictures::sweep;
use crate::view::{Document, Legend, Section, SideLine, View};
use ktax_host::disk::sha256_base64;
use ktax_host::text::escape;
use ktax_model::{Error, Result, Saved};

/// HTML: a page that opens in any browser and prints on paper.
pub const HTML: Format =
    Format { name: "html", file: Some("report.html"), write: |documents, _| write_page(documents) };

const STYLE: &str = concat!(
    include_str!("html/theme.css"),
    include_str!("html/style.css"),
    include_str!("html/flame.css")
);
const SCRIPT: &str = concat!(include_str!("html/flame.js"), include_str!("html/script.js"));

/// Renders the page. Equal reports give equal bytes, because the page does not depend on the date,
/// the machine or the locale.
fn write_page(documents: &[Document<'_>]) -> Result<String> {
    let title = match documents {
        [one] => one.view().title.clone(),
        several => format!("{} results of ktax", several.len()),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (page_head(&title, &format!("script-src 'sha256-{}'; ", sha256_base64(SCRIPT))))
            body {
                (marks())
                (tools())
                main {
                    @for part in sweep(documents) { (section(&part, Spot::in_article(0))) }
                    @for (index, document) in documents.iter().enumerate() {
                        (article(document, index + 1))
                    }
                }
                footer {
                    p { "This page has all its numbers in it: " code { "ktax report FILE" }
                        " prints them, and " code { "ktax report --json FILE" }
                        " is for programs." }
                }
                script type="application/gzip" id="data" { (PreEscaped(embedded(documents)?)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(shortened(&page.into_string()) + "\n")
}

/// Closes the elements of pictures in the short way of SVG, which makes a page a tenth smaller.
pub fn shortened(page: &str) -> String {
    let ends = ["</circle>", "</line>", "</rect>", "</use>", "</path>"];
    let (mut short, mut copied) = (String::with_capacity(page.len()), 0);
    // Only an empty element has its end directly behind its start.
    for (start_tag_end, _) in page.match_indices("></") {
        let end_tag = start_tag_end + 1;
        if let Some(end) = ends.iter().find(|end| page[end_tag..].starts_with(**end)) {
            short.extend([&page[copied..start_tag_end], "/>"]);
            copied = end_tag + end.len();
        }
    }
    short + &page[copied..]
}

/// Renders the head. Its security policy loads nothing and runs only the scripts that `scripts`
/// allows.
fn page_head(title: &str, scripts: &str) -> Markup {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; {scripts}base-uri 'none'; form-action \
         'none'"
    );
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content=(concat!("ktax ", env!("CARGO_PKG_VERSION")));
            title { (t(title)) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

/// Renders the controls, which are hidden until the script shows them.
fn tools() -> Markup {
    PreEscaped(include_str!("html/tools.html").lines().map(str::trim).collect())
}

/// Renders one report: the answer, its pictures and tables, and the legend.
fn article(document: &Document<'_>, number: usize) -> Markup {
    let (view, spot) = (document.view(), Spot::in_article(number));
    let has_rows = view.sections.contains(&Section::Rows);
    // The folded rows show the functions, too.
    let is_repeated = |section: &Section| has_rows && matches!(section, Section::Functions(_));
    let is_shown = |section: &&Section| !section.is_empty() && !is_repeated(section);
    html! {
        article {
            header {
                h1 { (t(&view.title)) }
                @if !view.headline.is_empty() { p.headline { (t(&view.headline)) } }
                (sides_table(view))
                @if !view.how.is_empty() { p.note {
                    (t(&view.how))
                    @if !view.measured_by.is_empty() { " · " (t(&view.measured_by)) }
                } }
            }
            @for part in view.sections.iter().filter(is_shown) {
                @match part {
                    Section::Rows => (row_details(&document.report.details(), spot)),
                    part => (section(part, spot)),
                }
            }
            @if !view.warnings.is_empty() {
                (spot.heading("Warnings"))
                ul { @for warning in &view.warnings {
                    li { (t(&warning.fact)) " → " (t(&warning.next_step)) }
                } }
            }
            (legend_part(&view.shown_legend(), spot))
            @if !view.again.is_empty() {
                (spot.heading("To measure it again"))
                (command(&view.again))
            }
        }
    }
}

fn sides_table(view: &View) -> Markup {
    let [name_head, settings_head] = view.side_heads;
    html! {
        @if !view.sides.is_empty() {
            div.wide tabindex="0" {
                table {
                    thead { tr {
                        th.l { "side" }
                        th.l { (name_head) }
                        @if !settings_head.is_empty() { th.l { (settings_head) } }
                    } }
                    tbody { @for SideLine { side, name, settings } in &view.sides { tr {
                        th scope="row" { (side) }
                        td.l { code { (t(name)) } }
                        @if !settings_head.is_empty() { td.l { code { (t(settings)) } } }
                    } } }
                }
            }
        }
    }
}

fn legend_part(legend: &Legend, spot: Spot) -> Markup {
    html! {
        @if !legend.sentences.is_empty() || !legend.terms.is_empty() {
            (spot.heading("How to read it"))
            @if !legend.sentences.is_empty() { p { (t(&legend.sentences.join(" "))) } }
            @if !legend.terms.is_empty() {
                dl { @for (term, meaning) in &legend.terms {
                    dt { (t(term)) } dd { (t(meaning)) }
                } }
            }
        }
    }
}

/// Entry of a page in the list on a site's first page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEntry {
    /// File of the page, relative to the first page.
    pub file: String,
    /// Title of the page, or the name of a row.
    pub title: String,
    pub answer: String,
    /// Date of a result, or sparkline of a row.
    pub detail: String,
}

/// Mark of the first page of a site; no other page has it.
pub const SITE_MARK: &str = "<body id=\"site\">";

/// Renders the first page of a site: the newest result, the histories, all results.
pub fn site_index(results: &[PageEntry], histories: &[PageEntry]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (page_head("Results of ktax", ""))
            body #site { main { article {
                header {
                    h1 { "Results of ktax" }
                    @match results.first() {
                        Some(newest) => {
                            p.headline {
                                a href=(newest.file) { (t(&newest.title)) } ": " (t(&newest.answer))
                            }
                        }
                        None => p.headline { "No result is kept yet." },
                    }
                }
                @if !histories.is_empty() {
                    h2 { "Rows over kernels" }
                    (pages_table(histories, ["row", "cost over kernels", "what changed"]))
                }
                @if !results.is_empty() {
                    h2 { "Results" }
                    (pages_table(results, ["result", "kept on", "answer"]))
                }
            } } }
        }
    };
    page.into_string() + "\n"
}

fn pages_table(pages: &[PageEntry], heads: [&str; 3]) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            thead { tr { @for head in heads { th.l { (head) } } } }
            tbody { @for page in pages { tr {
                th scope="row" { a href=(page.file) { (t(&page.title)) } }
                td.l { (t(&page.detail)) }
                td.l { (t(&page.answer)) }
            } } }
        } }
    }
}

/// Position of a part on a page.
#[derive(Debug, Clone, Copy)]
pub struct Spot {
    /// Number of the article, from 1.
    article: usize,
    /// Depth below the article's title.
    depth: usize,
}

impl Spot {
    /// Returns the position below the title of an article, the first of which is 1.
    pub fn in_article(article: usize) -> Spot {
        Spot { article, depth: 0 }
    }

    /// Renders a heading below the article's title.
    pub fn heading(self, text: &str) -> Markup {
        html! {
            @match self.depth {
                0 => h2 { (t(text)) },
                _ => h3 { (t(text)) },
            }
        }
    }

    /// Returns the HTML id of a row, for links.
    pub fn id(self, row: usize) -> String {
        format!("r{}-{}", self.article, row + 1)
    }

    /// Returns a position within a row.
    pub fn inner(self) -> Spot {
        Spot { depth: self.depth + 1, ..self }
    }
}

/// Text that is escaped when it is rendered: invisible and reordering characters become visible,
/// and markup is escaped.
pub struct Text<'a>(&'a str);

/// Escapes text for a page.
pub fn t(text: &str) -> Text<'_> {
    Text(text)
}

impl Render for Text<'_> {
    fn render_to(&self, buffer: &mut String) {
        // A fast path: most texts of a page need no escape.
        let is_plain =
            |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'&' | b'<' | b'>' | b'"');
        match self.0.bytes().all(is_plain) {
            true => buffer.push_str(self.0),
            // Writing to a String cannot fail.
            false => drop(Escaper::new(buffer).write_str(&escape(self.0))),
        }
    }
}

/// Markup before and after the data of a page.
const START: &str = "<script type=\"application/gzip\" id=\"data\">";
const END: &str = "</script>";

/// Results as `--json` prints them, compressed, in letters and digits.
fn embedded(documents: &[Document<'_>]) -> Result<String> {
    let all: Vec<Saved> = documents.iter().map(Document::saved).collect();
    let json = match all.as_slice() {
        [one] => serde_json::to_string(one),
        several => serde_json::to_string(several),
    };
    let json = json.map_err(|error| not_writable("JSON", error))?;
    // The best compression needs two thirds more instructions, for half a percent of a page's size.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(3));
    // Writing to memory cannot fail.
    let bytes = gzip.write_all(json.as_bytes()).and_then(|()| gzip.finish()).unwrap_or_default();
    Ok(STANDARD.encode(bytes))
}

/// Returns the JSON in a page; `None` if the text is no page of ktax. Data of more than `max_bytes`
/// are an error.
pub fn results_of_page(text: &str, max_bytes: u64) -> Result<Option<String>> {
    if !text.starts_with("<!DOCTYPE html>") || !text.contains("content=\"ktax ") {
        return Ok(None);
    }
    let data = text.rsplit_once(START).and_then(|(_, data)| Some(data.split_once(END)?.0));
    let data = data.ok_or_else(|| {
        Error::user("it is a page of ktax without its data, which should be at the end of the file")
    })?;
    let damaged = || Error::user("the data at the end of the page is damaged");
    let bytes = STANDARD.decode(data).map_err(|_| damaged())?;
    let mut json = String::new();
    let mut limited = GzDecoder::new(bytes.as_slice()).take(max_bytes + 1);
    limited.read_to_string(&mut json).map_err(|_| damaged())?;
    match json.len() as u64 > max_bytes {
        true => {
            Err(Error::user(format!("the data at the end of the page exceeds {max_bytes} bytes")))
        }
        false => Ok(Some(json)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    const THEME: &str = include_str!("html/theme.css");

    /// Returns the colours of a theme by the names of their CSS variables.
    fn theme(start: &str) -> BTreeMap<&str, [f64; 3]> {
        let block = THEME.split_once(start).unwrap().1.split_once('}').unwrap().0;
        let colour = |declaration: &'static str| {
            let (name, value) = declaration.split_once(':')?;
            let digits = value.strip_prefix('#')?;
            let channel = |index: usize| match digits.len() {
                3 => u8::from_str_radix(&digits[index..=index].repeat(2), 16),
                _ => u8::from_str_radix(&digits[2 * index..2 * index + 2], 16),
            };
            Some((
                name.trim_start_matches("--"),
                [0, 1, 2].map(|index| f64::from(channel(index).unwrap())),
            ))
        };
        block.split(';').filter_map(colour).collect()
    }

    fn luminance(colour: [f64; 3]) -> f64 {
        let linear = colour.map(|value| match value / 255.0 {
            low if low <= 0.04045 => low / 12.92,
            high => ((high + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    /// Contrast of two colours, as WCAG 2 computes it.
    fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        if one > other { one / other } else { other / one }
    }

    #[test]
    fn text_can_be_read_in_both_themes() {
        for start in [":root{", "(prefers-color-scheme:dark){:root{"] {
            let colours = theme(start);
            let colour = |name: &str| colours[name];
            for text in ["fg", "soft", "slower", "faster", "below", "none", "unsure", "failed"] {
                let found = contrast(colour(text), colour("bg"));
                assert!(found >= 4.5, "{start} {text}: {found:.2}");
            }
            let found = contrast(colour("fg"), colour("band"));
            assert!(found >= 4.5, "{start} band: {found:.2}");
        }
        assert!((contrast([0.0; 3], [255.0; 3]) - 21.0).abs() < 1e-9);
        assert!(contrast([118.0; 3], [255.0; 3]) > 4.5 && contrast([120.0; 3], [255.0; 3]) < 4.5);
    }
}
