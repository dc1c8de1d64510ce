//! Each picture: drawn, with its numbers beside it as text.

use maud::{Markup, html};

use super::spot::Spot;
use super::svg;
use super::text::t;
use crate::view::Picture;

/// A figure with what helps to read it.
pub fn picture(title: &str, picture: &Picture, how: &str, spot: Spot) -> Markup {
    html! {
        figure {
            @match picture {
                Picture::Forest(forest) => (svg::forest(title, forest, spot)),
                Picture::Bridge(bridge) => (svg::bridge(title, bridge)),
                Picture::Flame(flame) => (svg::flame(title, flame, None)),
                Picture::Dots(dots) => (svg::dots(dots)),
                Picture::Curves(curves) => (svg::curves(title, curves)),
                Picture::Trail(trail) => (svg::trail(title, trail)),
                Picture::Bars(bars) => (svg::bars(title, bars)),
                Picture::Levels(levels) => (svg::levels(title, levels)),
                Picture::Steps(steps) => (svg::steps(title, steps)),
            }
            @if !how.is_empty() { figcaption { (t(how)) } }
        }
    }
}
