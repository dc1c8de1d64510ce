use maud::{Markup, html};

use super::text::t;
use crate::view::Cell;
use ktax_model::Verdict;

/// The name of a verdict's class, its mark and its value in the filter. The style has a shape for
/// each: no reader needs the colour.
pub fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::BelowThreshold => "below",
        Verdict::NoDetectedChange => "none",
        Verdict::TooFewBoots | Verdict::Inconclusive => "unsure",
        Verdict::DifferentWork | Verdict::Failed => "failed",
        Verdict::OneSide => "alone",
    }
}

/// A cell with word and colour; the style puts the shape before it.
pub fn verdict(cell: &Cell) -> Markup {
    html! {
        @match cell.verdict {
            Some(verdict) => td.v.(class(verdict)) { (t(&cell.text)) },
            None => td.l { (t(&cell.text)) },
        }
    }
}
