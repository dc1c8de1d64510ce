//! Pictures that are tables: each line has a drawing beside its numbers.

use maud::{Markup, html};

use crate::formats::html::section::{name, verdict_cell, verdict_class};
use crate::formats::html::svg::{Axis, Spread, mark, percent};
use crate::formats::html::{Spot, t};
use crate::number;
use crate::view::{Bar, BarKind, Bridge, BridgeBar, Dots, Forest, ForestLine};
use ktax_stats::tables::share_percent;

const FOREST_HEIGHT: u32 = 22;
const FOREST_MIDDLE: u32 = FOREST_HEIGHT / 2;

/// Renders a table whose widest column is the axis; a row's name leads to the row below.
pub fn forest(title: &str, forest: &Forest, spot: Spot) -> Markup {
    let axis = forest_axis(forest);
    let has_carried = forest.lines.iter().any(|line| !line.carried.is_empty());
    html! {
        table.forest.sortable[forest.lines.len() > 2] {
            caption.hidden { (t(title)) }
            thead { tr {
                th.l { "workload" }
                th { "delta %" }
                td { (forest_ticks(&axis)) }
                th { "range %" }
                th { "MDE %" }
                @if has_carried { th.l.dense { "carried most by" } }
                th.l { "verdict" }
            } }
            tbody {
                @for (index, one) in forest.lines.iter().enumerate() {
                    (forest_row(one, &axis, forest.threshold_percent, spot.id(index), has_carried))
                }
            }
        }
    }
}

/// Returns an axis with everything that is drawn, and 0.
fn forest_axis(forest: &Forest) -> Axis {
    let limit = forest.threshold_percent.max(0.01);
    let drawn_values = |line: &ForestLine| {
        let (low, high) = line.range.unwrap_or_default();
        let most = line.detectable.unwrap_or(0.0);
        [line.percent.unwrap_or(0.0), low, high, most, -most]
    };
    let values = forest.lines.iter().flat_map(drawn_values).chain([0.0, 2.0 * limit, -2.0 * limit]);
    Axis::new(Spread::Symlog(limit), values)
}

/// Width of a label, in percent of the axis: nearer to the label of 0 they would overlap.
const LABEL_WIDTH: f64 = 9.0;

fn forest_ticks(axis: &Axis) -> Markup {
    let is_apart = |tick: &f64| {
        *tick == 0.0 || (axis.position(*tick) - axis.position(0.0)).abs() >= LABEL_WIDTH
    };
    let ticks: Vec<f64> = axis.ticks().into_iter().filter(is_apart).collect();
    let zero = ticks.iter().position(|tick| *tick == 0.0).unwrap_or_default();
    // On a narrow page many labels would overlap, so every other one is left out.
    let is_dense = |place: usize| ticks.len() > 3 && place.abs_diff(zero) % 2 == 1;
    html! {
        svg width="100%" height="16" aria-hidden="true" {
            @for (place, tick) in ticks.iter().enumerate() {
                text.tick.mid.dense[is_dense(place)] x=(axis.percent(*tick)) y="12" {
                    (tick_label(*tick))
                }
            }
        }
    }
}

fn tick_label(tick: f64) -> String {
    if tick == 0.0 { "0".to_owned() } else { format!("{tick:+}") }
}

fn forest_row(
    line: &ForestLine,
    axis: &Axis,
    threshold: f64,
    id: String,
    has_carried: bool,
) -> Markup {
    let [delta, range, detectable] = &line.shown;
    let found = line.verdict.verdict;
    html! {
        tr data-v=[found.map(verdict_class)] {
            th scope="row" { a href={ "#" (id) } { (name(&line.row)) } }
            td { (t(delta)) }
            td { (draw_forest_row(line, axis, threshold)) }
            td { (t(range)) }
            td { (t(detectable)) }
            @if has_carried { td.l.dense { (name(&line.carried)) } }
            (verdict_cell(&line.verdict))
        }
    }
}

fn draw_forest_row(line: &ForestLine, axis: &Axis, threshold: f64) -> Markup {
    let width = |from: f64, to: f64| percent(axis.position(to) - axis.position(from));
    let class = line.verdict.verdict.map_or("none", verdict_class);
    html! {
        svg role="img" {
            title { (t(&row_words(line))) }
            @if let Some(seen) = line.detectable.filter(|seen| *seen > 0.0) {
                rect.mde x=(axis.percent(-seen)) width=(width(-seen, seen))
                    y="3" height=(FOREST_HEIGHT - 6) {}
            }
            @for limit in [-threshold, threshold] {
                line.limit x1=(axis.percent(limit)) x2=(axis.percent(limit))
                    y1="0" y2=(FOREST_HEIGHT) {}
            }
            line.zero x1=(axis.percent(0.0)) x2=(axis.percent(0.0)) y1="0" y2=(FOREST_HEIGHT) {}
            @if let Some((low, high)) = line.range {
                line.range.(class) x1=(axis.percent(low)) x2=(axis.percent(high))
                    y1=(FOREST_MIDDLE) y2=(FOREST_MIDDLE) {}
            }
            @if let Some(delta) = line.percent {
                (mark(class, &axis.percent(delta), FOREST_MIDDLE))
            }
        }
    }
}

/// Describes the picture of a row in words.
fn row_words(line: &ForestLine) -> String {
    let [delta, range, detectable] = &line.shown;
    match line.percent {
        None => format!("{}: {}", line.row, line.verdict.text),
        Some(_) => format!("{}: {delta} %, range {range} %, MDE {detectable} %", line.row),
    }
}

/// Renders a table of bars, each of which begins where the one above ends.
pub fn bridge(title: &str, bridge: &Bridge) -> Markup {
    let ends = bridge.bars.iter().flat_map(|bar| [bar.span.0, bar.span.1]);
    let axis = Axis::new(Spread::Linear, ends.chain([0.0]));
    let has_other = bridge.bars.iter().any(|bar| !bar.other.is_empty());
    html! {
        table.bridge {
            caption.hidden { (t(title)) }
            thead { tr {
                th.l { "function" }
                th { (bridge.unit) }
                td {}
                th { "base → change" }
                @if has_other { th { (bridge.other) } }
            } }
            tbody { @for bar in &bridge.bars {
                tr class=[(bar.kind == BarKind::Side).then_some("whole")] {
                    th scope="row" {
                        (name(&bar.name))
                        @if let Some(word) = bar_word(bar.kind) { " " small { (word) } }
                    }
                    td { (t(&bar.shown)) }
                    td { (draw_bridge_bar(bar, &axis)) }
                    td { (t(&bar.from_to)) }
                    @if has_other { td { (t(&bar.other)) } }
                }
            } }
        }
    }
}

fn bar_word(kind: BarKind) -> Option<&'static str> {
    match kind {
        BarKind::New => Some("new"),
        BarKind::Gone => Some("gone"),
        BarKind::Side | BarKind::Both => None,
    }
}

fn draw_bridge_bar(bar: &BridgeBar, axis: &Axis) -> Markup {
    let (from, to) = bar.span;
    let (left, right) = (axis.position(from.min(to)), axis.position(from.max(to)));
    let class = match bar.kind {
        BarKind::Side => "side",
        _ if to < from => "faster",
        _ => "slower",
    };
    let is_one_sided = matches!(bar.kind, BarKind::New | BarKind::Gone);
    html! {
        // No title: the cells beside it have the numbers.
        svg {
            rect.(class).dashed[is_one_sided] x=(percent(left))
                width=(percent((right - left).max(0.4))){}
        }
    }
}

/// Pixels down to the base's dots and to the change's.
const BASE_DOWN: u32 = 14;
const CHANGE_DOWN: u32 = 46;
const DOTS_HEIGHT: u32 = 60;

/// Renders both sides of each layout, and their numbers.
pub fn dots(dots: &Dots) -> Markup {
    let axis =
        Axis::new(Spread::Linear, dots.layouts.iter().flat_map(|(base, change)| [*base, *change]));
    let layouts = dots.layouts.iter();
    let deltas = layouts.clone().map(|(base, change)| number::delta(change - base));
    html! {
        svg.dots width="100%" height=(DOTS_HEIGHT) role="img" {
            title { "Layouts" }
            line.grid x1="0" x2="100%" y1=(BASE_DOWN) y2=(BASE_DOWN) {}
            line.grid x1="0" x2="100%" y1=(CHANGE_DOWN) y2=(CHANGE_DOWN) {}
            @for (index, (base, change)) in dots.layouts.iter().enumerate() {
                line.pair.median[index == dots.median] x1=(axis.percent(*base)) y1=(BASE_DOWN)
                    x2=(axis.percent(*change)) y2=(CHANGE_DOWN) {}
            }
            text.tick x="0" y=(BASE_DOWN - 4) { "base" }
            text.tick x="0" y=(CHANGE_DOWN + 13) { "change" }
        }
        div.wide tabindex="0" { table {
            thead { tr {
                th.l { "layout" }
                @for index in 0..dots.layouts.len() { th { (index + 1) } }
            } }
            tbody {
                (dots_row("base", layouts.clone().map(|(base, _)| number::count(*base))))
                (dots_row("change", layouts.clone().map(|(_, change)| number::count(*change))))
                (dots_row("delta", deltas))
            }
        } }
    }
}

fn dots_row(name: &str, cells: impl Iterator<Item = String>) -> Markup {
    html! { tr { th scope="row" { (name) } @for cell in cells { td { (cell) } } } }
}

const BAR_HEIGHT: u32 = 26;
/// Number of colours, which repeat.
const COLOURS: usize = 8;

/// Renders one bar of 100 % for each whole, and the shares of its parts.
pub fn bars(title: &str, bars: &[Bar]) -> Markup {
    let names = part_names(bars);
    let colour = |part: &str| names.iter().position(|name| *name == part).unwrap_or(0) % COLOURS;
    html! {
        @for bar in bars {
            p.bar-name { (t(&bar.name)) }
            svg.hundred width="100%" height=(BAR_HEIGHT) role="img" {
                title { (t(title)) ", " (t(&bar.name)) }
                @for (part, from, share) in part_shares(bar) {
                    rect class={ "p" (colour(part)) } x=(percent(from)) width=(percent(share))
                        y="0" height=(BAR_HEIGHT) {}
                }
            }
        }
        div.wide tabindex="0" { table {
            thead { tr {
                td {}
                @for bar in bars { th { (t(&bar.name)) " %" } }
            } }
            tbody {
                @for part in &names { tr {
                    th scope="row" { span class={ "swatch p" (colour(part)) } {} " " (name(part)) }
                    @for bar in bars { td { (share_text(bar, part)) } }
                } }
                tr.whole { th scope="row" { "all, µs" } @for bar in bars { td {
                    (number::whole(whole_size(bar) / number::US))
                } } }
            }
        } }
    }
}

/// Names all parts, in the order in which they are first met.
fn part_names(bars: &[Bar]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (part, _) in bars.iter().flat_map(|bar| &bar.parts) {
        if !names.contains(&part.as_str()) {
            names.push(part);
        }
    }
    names
}

/// Size of the whole.
fn whole_size(bar: &Bar) -> f64 {
    bar.parts.iter().map(|(_, size)| *size as f64).sum()
}

/// Returns each part's name, begin and width, in percent of the whole.
fn part_shares(bar: &Bar) -> impl Iterator<Item = (&str, f64, f64)> {
    let all = whole_size(bar);
    bar.parts.iter().scan(0.0, move |before, (name, size)| {
        let from = share_percent(*before, all);
        *before += *size as f64;
        Some((name.as_str(), from, share_percent(*before, all) - from))
    })
}

fn share_text(bar: &Bar, part: &str) -> String {
    let found = part_shares(bar).find(|(name, ..)| *name == part);
    found.map(|(.., share)| format!("{share:.2}")).unwrap_or_default()
}
