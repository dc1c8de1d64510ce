use maud::{Markup, html};

use super::super::spot::Spot;
use super::super::table::name;
use super::super::text::t;
use super::super::verdict::{class, verdict};
use super::axis::{Axis, Spread, percent};
use super::mark::mark;
use crate::view::{Forest, ForestLine};

const HEIGHT: u32 = 22;
const MIDDLE: u32 = HEIGHT / 2;

/// A table whose widest column is the axis; a row's name leads to the row below.
pub fn forest(title: &str, forest: &Forest, spot: Spot) -> Markup {
    let axis = axis(forest);
    let has_carried = forest.lines.iter().any(|line| !line.carried.is_empty());
    html! {
        table.forest.sortable[forest.lines.len() > 2] {
            caption.hidden { (t(title)) }
            thead { tr {
                th.l { "workload" }
                th { "delta %" }
                td { (ticks(&axis)) }
                th { "range %" }
                th { "MDE %" }
                @if has_carried { th.l.dense { "carried most by" } }
                th.l { "verdict" }
            } }
            tbody {
                @for (at, one) in forest.lines.iter().enumerate() {
                    (line(one, &axis, forest.threshold_percent, spot.id(at), has_carried))
                }
            }
        }
    }
}

/// Everything that is drawn, and 0.
fn axis(forest: &Forest) -> Axis {
    let limit = forest.threshold_percent.max(0.01);
    let of = |line: &ForestLine| {
        let (low, high) = line.range.unwrap_or_default();
        let most = line.detectable.unwrap_or(0.0);
        [line.percent.unwrap_or(0.0), low, high, most, -most]
    };
    let values = forest.lines.iter().flat_map(of).chain([0.0, 2.0 * limit, -2.0 * limit]);
    Axis::of(Spread::Symlog(limit), values)
}

/// A label that is nearer to that of 0, in percent of the axis, would lie on it.
const LABEL_WIDTH: f64 = 9.0;

fn ticks(axis: &Axis) -> Markup {
    let is_apart =
        |tick: &f64| *tick == 0.0 || (axis.at(*tick) - axis.at(0.0)).abs() >= LABEL_WIDTH;
    let ticks: Vec<f64> = axis.ticks().into_iter().filter(is_apart).collect();
    let zero = ticks.iter().position(|tick| *tick == 0.0).unwrap_or_default();
    // On a narrow page every other one of many labels would lie on its neighbour.
    let is_dense = |place: usize| ticks.len() > 3 && place.abs_diff(zero) % 2 == 1;
    html! {
        svg width="100%" height="16" aria-hidden="true" {
            @for (place, tick) in ticks.iter().enumerate() {
                text.tick.mid.dense[is_dense(place)] x=(axis.percent(*tick)) y="12" {
                    (label(*tick))
                }
            }
        }
    }
}

fn label(tick: f64) -> String {
    if tick == 0.0 { "0".to_owned() } else { format!("{tick:+}") }
}

fn line(line: &ForestLine, axis: &Axis, threshold: f64, id: String, has_carried: bool) -> Markup {
    let [delta, range, detectable] = &line.shown;
    let found = line.verdict.verdict;
    html! {
        tr data-v=[found.map(class)] {
            th scope="row" { a href={ "#" (id) } { (name(&line.row)) } }
            td { (t(delta)) }
            td { (drawn(line, axis, threshold)) }
            td { (t(range)) }
            td { (t(detectable)) }
            @if has_carried { td.l.dense { (name(&line.carried)) } }
            (verdict(&line.verdict))
        }
    }
}

fn drawn(line: &ForestLine, axis: &Axis, threshold: f64) -> Markup {
    let width = |from: f64, to: f64| percent(axis.at(to) - axis.at(from));
    let class = line.verdict.verdict.map_or("none", class);
    html! {
        svg role="img" {
            title { (t(&said(line))) }
            @if let Some(seen) = line.detectable.filter(|seen| *seen > 0.0) {
                rect.mde x=(axis.percent(-seen)) width=(width(-seen, seen))
                    y="3" height=(HEIGHT - 6) {}
            }
            @for limit in [-threshold, threshold] {
                line.limit x1=(axis.percent(limit)) x2=(axis.percent(limit)) y1="0" y2=(HEIGHT) {}
            }
            line.zero x1=(axis.percent(0.0)) x2=(axis.percent(0.0)) y1="0" y2=(HEIGHT) {}
            @if let Some((low, high)) = line.range {
                line.range.(class) x1=(axis.percent(low)) x2=(axis.percent(high))
                    y1=(MIDDLE) y2=(MIDDLE) {}
            }
            @if let Some(delta) = line.percent { (mark(class, &axis.percent(delta), MIDDLE)) }
        }
    }
}

/// What the picture of a row says, in words.
fn said(line: &ForestLine) -> String {
    let [delta, range, detectable] = &line.shown;
    match line.percent {
        None => format!("{}: {}", line.row, line.verdict.text),
        Some(_) => format!("{}: {delta} %, range {range} %, MDE {detectable} %", line.row),
    }
}
