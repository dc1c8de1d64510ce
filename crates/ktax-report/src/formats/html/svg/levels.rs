use maud::{Markup, html};

use super::super::text::t;
use super::super::verdict::class;
use super::axis::{Axis, Spread};
use super::mark::mark;
use super::plot::{Plot, pixels};
use crate::view::{KernelPoint, Levels};

const HEIGHT: f64 = 180.0;
/// Labels nearer to each other than this would lie on each other: percent across, pixels down.
const LABEL: (f64, f64) = (25.0, 13.0);
/// Labels that a picture has room for.
const MOST_LABELS: usize = 6;

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
        @for (number, level) in levels.levels.iter().enumerate() {
            @let side = if number % 2 == 0 { "change" } else { "base" };
            @for pair in level.points.windows(2) {
                @let [from, to] = [&pair[0], &pair[1]]
                    .map(|point| (point.place as f64, point.cost));
                (plot.step(side, from, to))
            }
            @for point in &level.points {
                @let (x, y) = plot.at(point.place as f64, point.cost);
                g {
                    title { (t(&point.hover)) }
                    @match point.step {
                        Some(verdict) => (mark(class(verdict), &x, y)),
                        None => circle.(side) cx=(x) cy=(y) r="3" {},
                    }
                }
            }
        }
        @for (point, down) in labels(&plot, points()) {
            // On the side where there is room for it.
            @let is_right = point.place * 2 > last;
            text.carrier.end[is_right] x=(plot.x.percent(point.place as f64)) y=(pixels(down)) {
                (t(&point.label))
            }
        }
    };
    let name = |place: usize| levels.kernels.get(place).cloned().unwrap_or_default();
    let ends = [(0.0, name(0), "start"), (last as f64, name(last), "end")];
    plot.draw_over(title, ["kernels", levels.unit], &ends, &inside)
}

/// The steps that are labelled, and how far down: above its point, higher where another label is.
fn labels<'a>(
    plot: &Plot,
    points: impl Iterator<Item = &'a KernelPoint>,
) -> Vec<(&'a KernelPoint, f64)> {
    let mut placed: Vec<(&KernelPoint, f64)> = Vec::new();
    for point in points.filter(|point| !point.label.is_empty()).take(MOST_LABELS) {
        let across = |point: &KernelPoint| plot.x.at(point.place as f64);
        let mut down = plot.down(point.cost) - 9.0;
        let lies_on = |down: f64| {
            placed.iter().any(|(other, taken)| {
                (across(other) - across(point)).abs() < LABEL.0 && (taken - down).abs() < LABEL.1
            })
        };
        while lies_on(down) {
            down -= LABEL.1;
        }
        placed.push((point, down));
    }
    placed
}
