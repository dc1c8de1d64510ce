//! The marks of verdicts and of points, drawn once and used by name.

use maud::{Markup, html};

/// A mark and its outline, around 0.
const MARKS: [(&str, &str); 7] = [
    ("slower", "M-4-5L6 0L-4 5z"),
    ("faster", "M4-5L-6 0L4 5z"),
    ("below", "M0-5L5 0L0 5L-5 0z"),
    ("none", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"),
    ("unsure", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"),
    ("failed", "M-4-4L4 4M4-4L-4 4"),
    ("alone", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"),
];

/// All marks and the ends of lines, invisible until they are used.
pub fn marks() -> Markup {
    html! {
        svg.marks width="0" height="0" aria-hidden="true" {
            defs {
                @for (end, class) in [("from", "base"), ("to", "change")] {
                    marker id=(end) markerUnits="userSpaceOnUse" markerWidth="8" markerHeight="8"
                        refX="4" refY="4" { circle.(class) cx="4" cy="4" r="4" {} }
                }
                @for (name, path) in MARKS {
                    path id={ "m-" (name) } class={ "m " (name) } d=(path) {}
                }
            }
        }
    }
}

/// A mark at a place: across in percent, down in pixels.
pub fn mark(name: &str, x: &str, y: impl std::fmt::Display) -> Markup {
    html! { use href={ "#m-" (name) } x=(x) y=(y.to_string()) {} }
}
