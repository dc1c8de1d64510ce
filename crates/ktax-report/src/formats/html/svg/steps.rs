use maud::{Markup, html};

use super::super::text::t;
use super::axis::{Axis, Spread};
use super::mark::mark;
use super::plot::Plot;
use crate::number;
use crate::view::Steps;

const HEIGHT: f64 = 180.0;

/// The cost along the chain; a carrier's name stands where the cost steps.
pub fn steps(title: &str, steps: &Steps) -> Markup {
    let plot = Plot {
        x: Axis::of(Spread::Linear, [0.0, steps.last as f64]),
        y: Axis::of(Spread::Linear, steps.points.iter().map(|it| it.1)),
        height: HEIGHT,
    };
    let inside = html! {
        @for pair in steps.points.windows(2) {
            @let [from, to] = [pair[0], pair[1]].map(|(at, cost)| (at as f64, cost));
            (plot.step("change", from, to))
        }
        @for (place, cost) in &steps.points {
            @let (x, y) = plot.at(*place as f64, *cost);
            circle.change cx=(x) cy=(y) r="3" {}
        }
        @for place in &steps.skipped {
            (mark("failed", &plot.x.percent(*place as f64), plot.height + 20.0))
        }
        @for (at, (to, name)) in steps.carriers.iter().enumerate() {
            // On the side where there is room for it.
            @let is_right = *to * 2 > steps.last;
            text.carrier.end[is_right] x=(plot.x.percent(*to as f64)) y=(38 + 14 * at) { (t(name)) }
        }
    };
    html! {
        (plot.draw(title, [steps.elements, steps.unit], &inside))
        details.numbers {
            summary { "All measured points" }
            table {
                thead { tr {
                    th.l { "after " (steps.elements) }
                    th { (steps.unit) }
                } }
                tbody { @for (place, cost) in &steps.points { tr {
                    th scope="row" { (place) } td { (number::count(*cost)) }
                } } }
            }
        }
    }
}
