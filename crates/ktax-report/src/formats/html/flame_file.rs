//! The picture of call paths as a file of its own, which other documents can show.

use maud::{Markup, PreEscaped, html};

use super::document::shortened;
use super::svg::{flame, flame_height};
use super::text::t;
use crate::view::{Flame, FlameBar};

const STYLE: &str = concat!(include_str!("theme.css"), include_str!("flame.css"));
const SCRIPT: &str = concat!(include_str!("flame.js"), include_str!("flame-file.js"));

/// Above the picture are two lines, and two are below.
const TOP: usize = 52;
const BOTTOM: usize = 48;

/// So many functions are named below it.
const MOST: usize = 3;

/// Text is at least as high as in a page.
const MORE: &str = "svg{background:var(--bg)}text{font:13px system-ui,sans-serif;fill:var(--fg)}\
                    .soft{fill:var(--soft)}#find{cursor:pointer;text-decoration:underline}";

/// An image in SVG that loads nothing, with what it shows in two lines and how to read it. A
/// browser that runs its script zooms and finds; nothing needs that.
pub fn flame_file(lines: [&str; 2], how: &str, picture: &Flame) -> String {
    let height = TOP + flame_height(picture) + BOTTOM;
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" width="1200" height=(height) {
            style { (PreEscaped(MORE)) (PreEscaped(STYLE)) }
            (line("8", 20, "", lines[0]))
            (line("8", 40, "soft", lines[1]))
            text #find x="1192" y="20" text-anchor="end" {}
            (flame(lines[0], picture, Some(TOP)))
            (line("8", height - 29, "", &most(picture)))
            (line("8", height - 9, "soft", how))
            script { (PreEscaped("<![CDATA[\n")) (PreEscaped(SCRIPT)) (PreEscaped("]]>")) }
        }
    };
    shortened(markup.into_string()) + "\n"
}

/// The functions whose own code differs most, also where a bar has no room for a name.
fn most(picture: &Flame) -> String {
    let mut coloured: Vec<&FlameBar> = picture.bars.iter().filter(|it| it.moved != 0.0).collect();
    coloured.sort_by(|one, other| other.moved.abs().total_cmp(&one.moved.abs()));
    let said = |bar: &&FlameBar| format!("{} {}", bar.name, bar.own.as_deref().unwrap_or(""));
    let said: Vec<String> = coloured.iter().take(MOST).map(said).collect();
    if said.is_empty() { String::new() } else { format!("largest: {}", said.join(", ")) }
}

fn line(x: &str, y: usize, class: &str, text: &str) -> Markup {
    html! { text x=(x) y=(y) class=[Some(class).filter(|it| !it.is_empty())] { (t(text)) } }
}
