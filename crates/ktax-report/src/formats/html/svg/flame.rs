use maud::{Markup, html};

use super::super::text::t;
use super::axis::percent;
use crate::view::{Flame, FlameBar};

/// Of one function, with the gap below it.
const ROW: usize = 26;

/// Of its name, which stands above the bars of both sides: no edge of a bar runs through it.
const NAME: usize = 14;

/// Of the bar of one side.
const HALF: usize = 5;

/// A name is not drawn in less room, in percent of the picture.
const NAMED: f64 = 2.5;

/// So many strengths has each of the two colours.
const STRENGTHS: f64 = 5.0;

/// Each function below its caller: above the bar of the base, below that of the change.
/// In a picture of its own it begins at `top`.
pub fn flame(title: &str, flame: &Flame, top: Option<usize>) -> Markup {
    html! {
        svg.flame y=[top] width="100%" height=(height(flame)) role="img" {
            title { (t(title)) }
            @for bar in &flame.bars { (drawn(bar)) }
        }
    }
}

/// How high it is, in pixels.
pub fn height(flame: &Flame) -> usize {
    flame.bars.iter().map(|bar| (bar.depth + 1) * ROW).max().unwrap_or_default()
}

fn drawn(bar: &FlameBar) -> Markup {
    // The side that has more, so that code that is gone has a colour, too.
    let (above, below) = match bar.moved < 0.0 {
        true => (strength(bar.moved), "same".to_owned()),
        false => ("then".to_owned(), strength(bar.moved)),
    };
    html! {
        svg x=(percent(bar.from)) y=(bar.depth * ROW) width=(percent(bar.width))
            height=(NAME + 2 * HALF) {
            title {
                (t(&bar.name)) ": " (t(&bar.said))
                @if let Some(own) = &bar.own { "; its own code " (t(own)) }
            }
            // The style places them below the name, one below the other.
            rect class=(above) width=(percent(bar.sides.base)) {}
            rect class=(below) width=(percent(bar.sides.change)) {}
            @if bar.width >= NAMED { text x="3" y="11" { (t(&bar.name)) } }
        }
    }
}

/// `more1` to `more5`, `less1` to `less5`, or `same`: small differences are seen, too.
fn strength(moved: f64) -> String {
    let strength = (moved.abs().sqrt() * STRENGTHS).ceil().clamp(1.0, STRENGTHS);
    match moved {
        0.0 => "same".to_owned(),
        more if more > 0.0 => format!("more{strength}"),
        _ => format!("less{strength}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_is_strongest_and_none_has_no_colour() {
        let of = [1.0, -1.0, 0.001, -0.3, 0.0].map(strength);
        assert_eq!(of, ["more5", "less5", "more1", "less3", "same"]);
    }
}
