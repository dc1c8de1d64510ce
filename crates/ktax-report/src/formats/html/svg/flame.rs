//! The flame graph of two sides, in a page and as a file of its own.

use maud::{Markup, PreEscaped, html};

use crate::formats::html::svg::percent;
use crate::formats::html::{shortened, t};
use crate::view::{Flame, FlameBar};

/// Height of one function with the gap below it, pixels.
const ROW_HEIGHT: usize = 26;

/// Height of its name, which stands above the bars of both sides: no edge of a bar runs through it.
const NAME_HEIGHT: usize = 14;

/// Height of the bar of one side.
const SIDE_HEIGHT: usize = 5;

/// Width below which a name is not drawn, in percent of the picture.
const NAMED_PERCENT: f64 = 2.5;

/// Number of strengths of each of the two colours.
const STRENGTHS: f64 = 5.0;

/// Renders each function below its caller: above the bar of the base, below that of the change. In
/// a picture of its own it begins at `top`.
pub fn flame(title: &str, flame: &Flame, top: Option<usize>) -> Markup {
    html! {
        svg.flame y=[top] width="100%" height=(flame_height(flame)) role="img" {
            title { (t(title)) }
            @for bar in &flame.bars { (draw_bar(bar)) }
        }
    }
}

/// Returns the height of a flame graph, pixels.
fn flame_height(flame: &Flame) -> usize {
    flame.bars.iter().map(|bar| (bar.depth + 1) * ROW_HEIGHT).max().unwrap_or_default()
}

fn draw_bar(bar: &FlameBar) -> Markup {
    // Colours the side that has more, so that removed code has a colour, too.
    let (above, below) = match bar.moved < 0.0 {
        true => (strength(bar.moved), "same".to_owned()),
        false => ("then".to_owned(), strength(bar.moved)),
    };
    html! {
        svg x=(percent(bar.from)) y=(bar.depth * ROW_HEIGHT) width=(percent(bar.width))
            height=(NAME_HEIGHT + 2 * SIDE_HEIGHT) {
            title {
                (t(&bar.name)) ": " (t(&bar.numbers))
                @if let Some(own) = &bar.own { "; its own code " (t(own)) }
            }
            // The style places them below the name, one below the other.
            rect class=(above) width=(percent(bar.sides.base)) {}
            rect class=(below) width=(percent(bar.sides.change)) {}
            @if bar.width >= NAMED_PERCENT { text x="3" y="11" { (t(&bar.name)) } }
        }
    }
}

/// Class of a difference: `more1` to `more5`, `less1` to `less5`, or `same`. Small differences are
/// seen, too.
fn strength(moved: f64) -> String {
    let strength = (moved.abs().sqrt() * STRENGTHS).ceil().clamp(1.0, STRENGTHS);
    match moved {
        0.0 => "same".to_owned(),
        more if more > 0.0 => format!("more{strength}"),
        _ => format!("less{strength}"),
    }
}

const STYLE: &str = concat!(include_str!("../theme.css"), include_str!("../flame.css"));
const SCRIPT: &str = concat!(include_str!("../flame.js"), include_str!("../flame-file.js"));

/// Room above the picture for two lines, and below it for two more.
const TOP: usize = 52;
const BOTTOM: usize = 48;

/// Number of functions that are named below it.
const MOST_FUNCTIONS: usize = 3;

/// Style of a file of its own; text is at least as high as in a page.
const FILE_STYLE: &str = concat!(
    "svg{background:var(--bg)}text{font:13px system-ui,sans-serif;fill:var(--fg)}",
    ".soft{fill:var(--soft)}#find{cursor:pointer;text-decoration:underline}",
);

/// Renders an SVG file that loads nothing, with two lines above the picture and how to read it
/// below. A browser that runs its script zooms and finds; nothing needs that.
pub fn flame_file(lines: [&str; 2], how: &str, picture: &Flame) -> String {
    let height = TOP + flame_height(picture) + BOTTOM;
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" width="1200" height=(height) {
            style { (PreEscaped(FILE_STYLE)) (PreEscaped(STYLE)) }
            (text_line("8", 20, "", lines[0]))
            (text_line("8", 40, "soft", lines[1]))
            text #find x="1192" y="20" text-anchor="end" {}
            (flame(lines[0], picture, Some(TOP)))
            (text_line("8", height - 29, "", &largest_functions(picture)))
            (text_line("8", height - 9, "soft", how))
            script { (PreEscaped("<![CDATA[\n")) (PreEscaped(SCRIPT)) (PreEscaped("]]>")) }
        }
    };
    shortened(markup.into_string()) + "\n"
}

/// Names the functions whose own code differs most, also where a bar has no room for a name.
fn largest_functions(picture: &Flame) -> String {
    let mut coloured: Vec<&FlameBar> = picture.bars.iter().filter(|bar| bar.moved != 0.0).collect();
    coloured.sort_by(|one, other| other.moved.abs().total_cmp(&one.moved.abs()));
    let named = |bar: &&FlameBar| format!("{} {}", bar.name, bar.own.as_deref().unwrap_or(""));
    let named: Vec<String> = coloured.iter().take(MOST_FUNCTIONS).map(named).collect();
    if named.is_empty() { String::new() } else { format!("largest: {}", named.join(", ")) }
}

fn text_line(x: &str, y: usize, class: &str, text: &str) -> Markup {
    html! { text x=(x) y=(y) class=[Some(class).filter(|class| !class.is_empty())] { (t(text)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_is_strongest_and_none_has_no_colour() {
        let classes = [1.0, -1.0, 0.001, -0.3, 0.0].map(strength);
        assert_eq!(classes, ["more5", "less5", "more1", "less3", "same"]);
    }
}
