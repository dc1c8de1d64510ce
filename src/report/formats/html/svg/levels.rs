use maud::{Markup, html};

use super::super::verdict::class;
use super::axis::{Axis, Spread};
use super::mark::mark;
use super::plot::Plot;
use crate::report::view::Levels;

const HEIGHT: f64 = 180.0;

/// The cost over kernels; lines that do not compare with each other are not joined.
pub fn levels(title: &str, levels: &Levels) -> Markup {
    let points = || levels.levels.iter().flat_map(|level| &level.points);
    let last = levels.kernels.len().saturating_sub(1);
    let plot = Plot {
        x: Axis::of(Spread::Linear, [0.0, last as f64]),
        y: Axis::of(Spread::Linear, points().map(|point| point.cost)),
        height: HEIGHT,
    };
    let inside = html! {
        @for (at, level) in levels.levels.iter().enumerate() {
            @let side = if at % 2 == 0 { "change" } else { "base" };
            @for pair in level.points.windows(2) {
                @let [from, to] = [pair[0], pair[1]].map(|it| (it.place as f64, it.cost));
                (plot.step(side, from, to))
            }
            @for point in &level.points {
                @let (x, y) = plot.at(point.place as f64, point.cost);
                @match point.step {
                    Some(verdict) => (mark(class(verdict), &x, y)),
                    None => circle.(side) cx=(x) cy=(y) r="3" {},
                }
            }
        }
    };
    let name = |at: usize| levels.kernels.get(at).cloned().unwrap_or_default();
    let ends = [(0.0, name(0), "start"), (last as f64, name(last), "end")];
    plot.draw_over(title, ["kernels", levels.unit], &ends, &inside)
}
