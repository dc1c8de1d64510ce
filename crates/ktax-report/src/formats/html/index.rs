use maud::{DOCTYPE, Markup, html};

use super::document::head;
use super::text::t;

/// A page of a site, as the site's first page lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its file, relative to the first page.
    pub file: String,
    /// What it is: a title, or the name of a row.
    pub title: String,
    /// What it says, in a sentence.
    pub answer: String,
    /// What else tells it from others: a day, a sparkline.
    pub beside: String,
}

/// What the first page of a site has, and no other page.
pub const SITE_MARK: &str = "<body id=\"site\">";

/// The first page of a site: the newest result, the histories, all results.
pub fn index(results: &[Listed], histories: &[Listed]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head("Results of ktax", ""))
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
                    (list(histories, ["row", "cost over kernels", "what changed"]))
                }
                @if !results.is_empty() {
                    h2 { "Results" }
                    (list(results, ["result", "kept on", "answer"]))
                }
            } } }
        }
    };
    page.into_string() + "\n"
}

fn list(pages: &[Listed], heads: [&str; 3]) -> Markup {
    html! {
        div.wide tabindex="0" { table {
            thead { tr { @for head in heads { th.l { (head) } } } }
            tbody { @for page in pages { tr {
                th scope="row" { a href=(page.file) { (t(&page.title)) } }
                td.l { (t(&page.beside)) }
                td.l { (t(&page.answer)) }
            } } }
        } }
    }
}
