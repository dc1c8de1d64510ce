use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::article::article;
use super::data;
use super::section::section;
use super::spot::Spot;
use super::svg::marks;
use super::text::t;
use crate::error::ReportError;
use crate::sweep::sweep;
use crate::view::Report;
use ktax_host::disk::sha256_base64;

const STYLE: &str =
    concat!(include_str!("theme.css"), include_str!("style.css"), include_str!("flame.css"));
const SCRIPT: &str = concat!(include_str!("flame.js"), include_str!("script.js"));

/// The whole page. The same reports give the same bytes: it has no date, and nothing of the
/// machine or the locale.
pub fn document(reports: &[&dyn Report]) -> Result<String, ReportError> {
    let title = match reports {
        [one] => one.view().title,
        several => format!("{} results of ktax", several.len()),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&title, &format!("script-src 'sha256-{}'; ", sha256_base64(SCRIPT))))
            body {
                (marks())
                (tools())
                main {
                    @for one in sweep(reports) { (section(&one, Spot::of_article(0))) }
                    @for (at, report) in reports.iter().enumerate() {
                    (article(*report, at + 1))
                    }
                }
                footer {
                    p { "This page has all its numbers in it: " code { "ktax report FILE" }
                        " prints them, and " code { "ktax report --json FILE" }
                        " is for programs." }
                }
                script type="application/gzip" id="data" { (PreEscaped(data::embedded(reports)?)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Ok(shortened(page.into_string()) + "\n")
}

/// The same page with the elements of pictures closed in the short way of SVG: a tenth less.
pub fn shortened(page: String) -> String {
    let leaves = ["circle", "line", "rect", "use", "path"];
    leaves.iter().fold(page, |page, leaf| page.replace(&format!("></{leaf}>"), "/>"))
}

/// Nothing is loaded, and no other script runs than those that `scripts` allows.
pub fn head(title: &str, scripts: &str) -> Markup {
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

/// What needs the script, which shows it.
fn tools() -> Markup {
    html! {
        nav #tools hidden aria-label="Rows" {
            label { "Find " input #find type="search" placeholder="row or function" ; }
            label { "Show "
                select #only {
                    option value="" { "every verdict" }
                    option value="slower" { "▶ slower" }
                    option value="faster" { "◀ faster" }
                    option value="below" { "◆ below the threshold" }
                    option value="none" { "● no detected change" }
                    option value="unsure" { "○ too few boots, inconclusive" }
                    option value="failed" { "✕ failed, different work" }
                }
            }
            button #all type="button" { "Open all rows" }
            button #keys type="button" { "Keys" }
            span #count role="status" {}
        }
        dialog #help aria-label="Keys" {
            dl {
                dt { "/" } dd { "find" }
                dt { "j, k" } dd { "next and previous row" }
                dt { "Enter" } dd { "open or close the row" }
                dt { "Esc" } dd { "leave this list" }
            }
            form method="dialog" { button { "Close" } }
        }
    }
}
