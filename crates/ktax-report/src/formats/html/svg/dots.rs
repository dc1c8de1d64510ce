use maud::{Markup, html};

use super::axis::{Axis, Spread};
use crate::number;
use crate::view::Dots;

/// Pixels down to the base's dots and to the change's.
const BASE: u32 = 14;
const CHANGE: u32 = 46;
const HEIGHT: u32 = 60;

/// Both sides of each layout, and their numbers.
pub fn dots(dots: &Dots) -> Markup {
    let axis = Axis::of(Spread::Linear, dots.layouts.iter().flat_map(|it| [it.0, it.1]));
    html! {
        svg.dots width="100%" height=(HEIGHT) role="img" {
            title { "Layouts" }
            line.grid x1="0" x2="100%" y1=(BASE) y2=(BASE) {}
            line.grid x1="0" x2="100%" y1=(CHANGE) y2=(CHANGE) {}
            @for (at, (base, change)) in dots.layouts.iter().enumerate() {
                line.pair.median[at == dots.median] x1=(axis.percent(*base)) y1=(BASE)
                    x2=(axis.percent(*change)) y2=(CHANGE) {}
            }
            text.tick x="0" y=(BASE - 4) { "base" }
            text.tick x="0" y=(CHANGE + 13) { "change" }
        }
        div.wide tabindex="0" { table {
            thead { tr {
                th.l { "layout" }
                @for at in 0..dots.layouts.len() { th { (at + 1) } }
            } }
            tbody {
                (line("base", dots.layouts.iter().map(|it| number::count(it.0))))
                (line("change", dots.layouts.iter().map(|it| number::count(it.1))))
                (line("delta", dots.layouts.iter().map(|it| number::delta(it.1 - it.0))))
            }
        } }
    }
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> Markup {
    html! { tr { th scope="row" { (name) } @for cell in cells { td { (cell) } } } }
}
