use maud::{Markup, html};

use super::section::{command, section};
use super::spot::Spot;
use super::text::t;
use crate::view::{Legend, Report, Section, SideLine, View};

/// One report: the answer, the pictures and tables behind it, and how to read them.
pub fn article(report: &dyn Report, number: usize) -> Markup {
    let view = report.view();
    let spot = Spot::of_article(number);
    let has_rows = view.sections.iter().any(|it| matches!(it, Section::Rows { .. }));
    // What folded rows have need not stand twice.
    let is_twice = |it: &Section| has_rows && matches!(it, Section::Functions(_));
    let is_shown = |it: &&Section| !it.is_empty() && !is_twice(it);
    html! {
        article {
            header {
                h1 { (t(&view.title)) }
                @if !view.headline.is_empty() { p.headline { (t(&view.headline)) } }
                (sides(&view))
                @if !view.how.is_empty() { p.note {
                    (t(&view.how))
                    @if !view.measured_by.is_empty() { " · " (t(&view.measured_by)) }
                } }
            }
            @for one in view.sections.iter().filter(is_shown) { (section(one, spot)) }
            @if !view.warnings.is_empty() {
                (spot.heading("Warnings"))
                ul { @for one in &view.warnings {
                    li { (t(&one.fact)) " → " (t(&one.next_step)) }
                } }
            }
            (legend(&view.shown_legend(), spot))
            @if !view.again.is_empty() {
                (spot.heading("To measure it again"))
                (command(&view.again))
            }
        }
    }
}

/// What was compared.
fn sides(view: &View) -> Markup {
    let [what, beside] = view.side_heads;
    html! {
        @if !view.sides.is_empty() {
            div.wide tabindex="0" {
                table {
                    thead { tr {
                        th.l { "side" }
                        th.l { (what) }
                        @if !beside.is_empty() { th.l { (beside) } }
                    } }
                    tbody { @for SideLine { side, what, beside: more } in &view.sides { tr {
                        th scope="row" { (side) }
                        td.l { code { (t(what)) } }
                        @if !beside.is_empty() { td.l { code { (t(more)) } } }
                    } } }
                }
            }
        }
    }
}

fn legend(legend: &Legend, spot: Spot) -> Markup {
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
