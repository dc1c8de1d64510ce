use maud::{Markup, html};

use super::super::table::name;
use super::super::text::t;
use super::axis::percent;
use crate::number;
use crate::view::Bar;
use ktax_stats::tables::share_percent;

const HEIGHT: u32 = 26;
/// So many colours, which repeat.
const COLOURS: usize = 8;

/// One bar of 100 % for each whole, and the shares of its parts.
pub fn bars(title: &str, bars: &[Bar]) -> Markup {
    let names = names(bars);
    let colour = |part: &str| names.iter().position(|it| *it == part).unwrap_or(0) % COLOURS;
    html! {
        @for bar in bars {
            p.bar-name { (t(&bar.name)) }
            svg.hundred width="100%" height=(HEIGHT) role="img" {
                title { (t(title)) ", " (t(&bar.name)) }
                @for (part, from, share) in shares(bar) {
                    rect class={ "p" (colour(part)) } x=(percent(from)) width=(percent(share))
                        y="0" height=(HEIGHT) {}
                }
            }
        }
        div.wide tabindex="0" { table {
            thead { tr {
                td {}
                @for bar in bars { th { (t(&bar.name)) " %" } }
            } }
            tbody {
                @for part in &names { tr {
                    th scope="row" { span class={ "swatch p" (colour(part)) } {} " " (name(part)) }
                    @for bar in bars { td { (shown(bar, part)) } }
                } }
                tr.whole { th scope="row" { "all, µs" } @for bar in bars { td {
                    (number::whole(all(bar) / number::US))
                } } }
            }
        } }
    }
}

/// All parts, in the order in which they are first met.
fn names(bars: &[Bar]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (part, _) in bars.iter().flat_map(|bar| &bar.parts) {
        if !names.contains(&part.as_str()) {
            names.push(part);
        }
    }
    names
}

/// The size of the whole.
fn all(bar: &Bar) -> f64 {
    bar.parts.iter().map(|(_, size)| *size as f64).sum()
}

/// Name, where it begins and how wide it is, in percent of the whole.
fn shares(bar: &Bar) -> impl Iterator<Item = (&str, f64, f64)> {
    let all = all(bar);
    bar.parts.iter().scan(0.0, move |before, (name, size)| {
        let from = share_percent(*before, all);
        *before += *size as f64;
        Some((name.as_str(), from, share_percent(*before, all) - from))
    })
}

fn shown(bar: &Bar, part: &str) -> String {
    let found = shares(bar).find(|(name, ..)| *name == part);
    found.map(|(.., share)| format!("{share:.2}")).unwrap_or_default()
}
