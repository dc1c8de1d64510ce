use maud::{Markup, html};

use super::super::text::t;
use super::axis::{Axis, Spread};
use super::plot::{Plot, label};
use crate::number;
use crate::view::{Curves, SideCurve};

const HEIGHT: f64 = 200.0;

/// Both sides on logarithmic axes, and their numbers.
pub fn curves(title: &str, curves: &Curves) -> Markup {
    // 0 has no logarithm: the table has it.
    let points = |curve: &SideCurve| -> Vec<(f64, f64)> {
        curve.points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect()
    };
    let all: Vec<(f64, f64)> = curves.curves.iter().flat_map(points).collect();
    let plot = Plot {
        x: Axis::of(Spread::Log, all.iter().map(|it| it.0)),
        y: Axis::of(Spread::Log, all.iter().map(|it| it.1)),
        height: HEIGHT,
    };
    let inside = html! {
        @for curve in &curves.curves {
            @let points = points(curve);
            @for pair in points.windows(2) { (plot.line(curve.name, pair[0], pair[1])) }
            @for (x, y) in &points {
                @let (x, y) = plot.at(*x, *y);
                circle.(curve.name) cx=(x) cy=(y) r="3.5" {}
            }
        }
        @for at in &curves.crossings { (plot.upright("crossing", *at)) }
    };
    html! {
        (plot.draw(title, [&curves.parameter, &curves.cost], &inside))
        p.key { span.base { "base" } " " span.change { "change" }
            @if !curves.crossings.is_empty() { " " span.crossing { "the curves cross" } }
        }
        (numbers(curves))
    }
}

fn numbers(curves: &Curves) -> Markup {
    let mut values: Vec<f64> =
        curves.curves.iter().flat_map(|curve| curve.points.iter().map(|it| it.0)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let cost = |curve: &SideCurve, value: f64| {
        let point = curve.points.iter().find(|(x, _)| *x == value);
        point.map(|(_, y)| number::measured(*y)).unwrap_or_default()
    };
    html! {
        div.wide tabindex="0" { table {
            thead { tr {
                th.l { (t(&curves.parameter)) }
                @for curve in &curves.curves { th { (curve.name) } }
            } }
            tbody { @for value in values { tr {
                th scope="row" { (label(value)) }
                @for curve in &curves.curves { td { (cost(curve, value)) } }
            } } }
        } }
    }
}
