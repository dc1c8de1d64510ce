//! Pictures with two axes.

use maud::{Markup, html};

use crate::formats::html::section::verdict_class;
use crate::formats::html::svg::{Axis, Plot, Spread, label, mark, numbers_table, pixels};
use crate::formats::html::t;
use crate::number;
use crate::view::{Curves, KernelPoint, Levels, SideCurve, Steps, Trail};
use ktax_model::PairRatio;

const CURVES_HEIGHT: f64 = 200.0;

/// Renders both sides on logarithmic axes, and their numbers.
pub fn curves(title: &str, curves: &Curves) -> Markup {
    // 0 has no logarithm; the table shows it.
    let points = |curve: &SideCurve| -> Vec<(f64, f64)> {
        curve.points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect()
    };
    let all: Vec<(f64, f64)> = curves.curves.iter().flat_map(points).collect();
    let plot = Plot {
        x: Axis::new(Spread::Log, all.iter().map(|point| point.0)),
        y: Axis::new(Spread::Log, all.iter().map(|point| point.1)),
        height: CURVES_HEIGHT,
    };
    let inside = html! {
        @for curve in &curves.curves {
            @let points = points(curve);
            @for pair in points.windows(2) { (plot.line(curve.name, pair[0], pair[1])) }
            @for (x, y) in &points {
                @let (x, y) = plot.point(*x, *y);
                circle.(curve.name) cx=(x) cy=(y) r="3.5" {}
            }
        }
        @for crossing in &curves.crossings { (plot.upright("crossing", *crossing)) }
    };
    html! {
        (plot.draw(title, [&curves.parameter, &curves.cost], &inside))
        p.key { span.base { "base" } " " span.change { "change" }
            @if !curves.crossings.is_empty() { " " span.crossing { "the curves cross" } }
        }
        (curve_numbers(curves))
    }
}

fn curve_numbers(curves: &Curves) -> Markup {
    let mut values: Vec<f64> =
        curves.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let cost = |curve: &SideCurve, value: f64| {
        let point = curve.points.iter().find(|(x, _)| *x == value);
        point.map(|(_, y)| number::measured(*y)).unwrap_or_default()
    };
    let names = curves.curves.iter().map(|curve| curve.name);
    let heads: Vec<&str> = [curves.parameter.as_str()].into_iter().chain(names).collect();
    let rows = values.into_iter().map(|value| {
        let costs = curves.curves.iter().map(|curve| cost(curve, value));
        [label(value)].into_iter().chain(costs).collect()
    });
    html! { div.wide tabindex="0" { (numbers_table(&heads, rows)) } }
}

const LEVELS_HEIGHT: f64 = 180.0;
/// Size of a label: percent across, pixels down. Labels nearer to each other would overlap.
const LABEL_SIZE: (f64, f64) = (25.0, 13.0);
/// Number of labels that a picture has room for.
const MOST_LABELS: usize = 6;

/// Renders the cost over kernels; lines that do not compare with each other are not joined.
pub fn levels(title: &str, levels: &Levels) -> Markup {
    let points = || levels.levels.iter().flat_map(|level| &level.points);
    let last = levels.kernels.len().saturating_sub(1);
    let plot = Plot {
        x: Axis::new(Spread::Linear, [0.0, last as f64]),
        y: Axis::new(Spread::Linear, points().map(|point| point.cost)),
        height: LEVELS_HEIGHT,
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
                @let (x, y) = plot.point(point.place as f64, point.cost);
                g {
                    title { (t(&point.hover)) }
                    @match point.step {
                        Some(verdict) => (mark(verdict_class(verdict), &x, y)),
                        None => circle.(side) cx=(x) cy=(y) r="3" {},
                    }
                }
            }
        }
        @for (point, down) in step_labels(&plot, points()) {
            // The label goes to the side that has room.
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

/// Labelled steps, and how far down each label is: above its point and other labels.
fn step_labels<'a>(
    plot: &Plot,
    points: impl Iterator<Item = &'a KernelPoint>,
) -> Vec<(&'a KernelPoint, f64)> {
    let mut placed: Vec<(&KernelPoint, f64)> = Vec::new();
    for point in points.filter(|point| !point.label.is_empty()).take(MOST_LABELS) {
        let across = |point: &KernelPoint| plot.x.position(point.place as f64);
        let mut down = plot.down(point.cost) - 9.0;
        let lies_on = |down: f64| {
            placed.iter().any(|(other, taken)| {
                (across(other) - across(point)).abs() < LABEL_SIZE.0
                    && (taken - down).abs() < LABEL_SIZE.1
            })
        };
        while lies_on(down) {
            down -= LABEL_SIZE.1;
        }
        placed.push((point, down));
    }
    placed
}

const STEPS_HEIGHT: f64 = 180.0;

/// Renders the cost along the chain; a carrier's name stands where the cost steps.
pub fn steps(title: &str, steps: &Steps) -> Markup {
    let plot = Plot {
        x: Axis::new(Spread::Linear, [0.0, steps.last as f64]),
        y: Axis::new(Spread::Linear, steps.points.iter().map(|point| point.1)),
        height: STEPS_HEIGHT,
    };
    let inside = html! {
        @for pair in steps.points.windows(2) {
            @let [from, to] = [pair[0], pair[1]].map(|(place, cost)| (place as f64, cost));
            (plot.step("change", from, to))
        }
        @for (place, cost) in &steps.points {
            @let (x, y) = plot.point(*place as f64, *cost);
            circle.change cx=(x) cy=(y) r="3" {}
        }
        @for place in &steps.skipped {
            (mark("failed", &plot.x.percent(*place as f64), plot.height + 20.0))
        }
        @for (index, (to, name)) in steps.carriers.iter().enumerate() {
            // The label goes to the side that has room.
            @let is_right = *to * 2 > steps.last;
            text.carrier.end[is_right] x=(plot.x.percent(*to as f64)) y=(38 + 14 * index) {
                (t(name))
            }
        }
    };
    let rows =
        steps.points.iter().map(|(place, cost)| vec![place.to_string(), number::count(*cost)]);
    html! {
        (plot.draw(title, [steps.elements, steps.unit], &inside))
        details.numbers {
            summary { "All measured points" }
            (numbers_table(&[&format!("after {}", steps.elements), steps.unit], rows))
        }
    }
}

const TRAIL_HEIGHT: f64 = 160.0;

/// Renders ratios in the order of time; the numbers are folded away.
pub fn trail(title: &str, trail: &Trail) -> Markup {
    let ends = trail.ratio.map(|ratio| [ratio.low, ratio.high.unwrap_or(ratio.estimate)]);
    let ratios = trail.pairs.iter().map(|pair| pair.ratio);
    let plot = Plot {
        x: Axis::new(Spread::Linear, trail.pairs.iter().map(|pair| f64::from(pair.pair) + 1.0)),
        y: Axis::new(Spread::Linear, ratios.chain(ends.into_iter().flatten()).chain([1.0])),
        height: TRAIL_HEIGHT,
    };
    let inside = html! {
        @if let Some([low, high]) = ends {
            @let (top, bottom) = (plot.down(high), plot.down(low));
            rect.interval x="0" width="100%" y=(pixels(top)) height=(pixels(bottom - top)) {}
        }
        line.zero x1="0" x2="100%" y1=(pixels(plot.down(1.0))) y2=(pixels(plot.down(1.0))) {}
        @for look in look_places(trail) { (plot.upright("look", look)) }
        @for pair in &trail.pairs {
            @let (x, y) = plot.point(f64::from(pair.pair) + 1.0, pair.ratio);
            circle.change[!pair.is_control].control[pair.is_control] cx=(x) cy=(y) r="3.5" {}
        }
    };
    html! {
        (plot.draw(title, ["pair", "ratio"], &inside))
        (ratio_numbers(&trail.pairs))
    }
}

/// Returns the place of each look: behind the last of so many pairs of the change.
fn look_places(trail: &Trail) -> Vec<f64> {
    let change_pairs: Vec<&PairRatio> =
        trail.pairs.iter().filter(|pair| !pair.is_control).collect();
    let place = |look: &usize| Some(f64::from(change_pairs.get(look.checked_sub(1)?)?.pair) + 1.5);
    trail.looks.iter().filter_map(place).collect()
}

fn ratio_numbers(pairs: &[PairRatio]) -> Markup {
    html! {
        details.numbers {
            summary { "The ratios of all pairs" }
            table {
                thead { tr {
                    th.l { "pair" }
                    th { "ratio" }
                    th.l { "of" }
                } }
                tbody { @for pair in pairs { tr {
                    th scope="row" { (pair.pair + 1) }
                    td { (format!("{:.4}", pair.ratio)) }
                    td.l { @if pair.is_control { "A/A" } @else { "change over base" } }
                } } }
            }
        }
    }
}
