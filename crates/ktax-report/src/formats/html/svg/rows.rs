//! Pictures that are tables with a drawing in each line, and the flame graph, in a page and as a
//! file.

use maud::{Markup, PreEscaped, html};

use crate::formats::html::section::{name, verdict_cell, verdict_class};
use crate::formats::html::svg::{Axis, AxisScale, mark, numbers_table, percent};
use crate::formats::html::{Spot, shortened, t};
use crate::number;
use crate::view::{
    BarKind, Bridge, BridgeBar, Dots, Flame, FlameBar, Forest, ForestLine, StackedBar,
};
use ktax_stats::tables::share_percent;

const FOREST_HEIGHT: u32 = 22;
const FOREST_MIDDLE: u32 = FOREST_HEIGHT / 2;

/// Renders the forest plot as a table; its widest column is the axis. A row's name links to the
/// row's details.
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
                @for (index, line) in forest.lines.iter().enumerate() {
                    (forest_row(line, &axis, forest.threshold_percent, spot.id(index), has_carried))
                }
            }
        }
    }
}

/// Returns an axis that includes all deltas, ranges and MDEs, the threshold, and 0.
fn forest_axis(forest: &Forest) -> Axis {
    let limit = forest.threshold_percent.max(0.01);
    let line_values = |line: &ForestLine| {
        let (low, high) = line.range.unwrap_or_default();
        let mde = line.detectable.unwrap_or(0.0);
        [line.percent.unwrap_or(0.0), low, high, mde, -mde]
    };
    let values = forest.lines.iter().flat_map(line_values).chain([0.0, 2.0 * limit, -2.0 * limit]);
    Axis::new(AxisScale::Symlog(limit), values)
}

/// Width of a label, in percent of the axis. A label that is nearer to the label of 0 would overlap
/// it.
const LABEL_WIDTH: f64 = 9.0;

fn forest_ticks(axis: &Axis) -> Markup {
    let has_room = |tick: &f64| {
        *tick == 0.0 || (axis.position(*tick) - axis.position(0.0)).abs() >= LABEL_WIDTH
    };
    let ticks: Vec<f64> = axis.ticks().into_iter().filter(has_room).collect();
    let zero = ticks.iter().position(|tick| *tick == 0.0).unwrap_or_default();
    // On a narrow page, labels would overlap, so every second label is left out.
    let is_dense = |index: usize| ticks.len() > 3 && index.abs_diff(zero) % 2 == 1;
    html! {
        svg width="100%" height="16" aria-hidden="true" {
            @for (index, tick) in ticks.iter().enumerate() {
                text.tick.mid.dense[is_dense(index)] x=(axis.percent(*tick)) y="12" {
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
    let verdict = line.verdict.verdict;
    html! {
        tr data-v=[verdict.map(verdict_class)] {
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
            @if let Some(mde) = line.detectable.filter(|mde| *mde > 0.0) {
                rect.mde x=(axis.percent(-mde)) width=(width(-mde, mde))
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

fn row_words(line: &ForestLine) -> String {
    let [delta, range, detectable] = &line.shown;
    match line.percent {
        None => format!("{}: {}", line.row, line.verdict.text),
        Some(_) => format!("{}: {delta} %, range {range} %, MDE {detectable} %", line.row),
    }
}

/// Renders the waterfall chart as a table of bars. Each bar begins where the bar above ends.
pub fn bridge(title: &str, bridge: &Bridge) -> Markup {
    let ends = bridge.bars.iter().flat_map(|bar| [bar.span.0, bar.span.1]);
    let axis = Axis::new(AxisScale::Linear, ends.chain([0.0]));
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
        // No title, because the other cells of the line have the numbers.
        svg {
            rect.(class).dashed[is_one_sided] x=(percent(left))
                width=(percent((right - left).max(0.4))){}
        }
    }
}

/// Vertical position of the dots of the base, pixels.
const BASE_DOWN: u32 = 14;
/// Vertical position of the dots of the change, pixels.
const CHANGE_DOWN: u32 = 46;
const DOTS_HEIGHT: u32 = 60;

/// Renders the values of both sides under each layout, and a table of the values.
pub fn dots(dots: &Dots) -> Markup {
    let axis = Axis::new(
        AxisScale::Linear,
        dots.layouts.iter().flat_map(|(base, change)| [*base, *change]),
    );
    let row = |name: &str, cell: fn(f64, f64) -> String| {
        let cells = dots.layouts.iter().map(|(base, change)| cell(*base, *change));
        [name.to_owned()].into_iter().chain(cells).collect::<Vec<String>>()
    };
    let rows = [
        row("base", |base, _| number::count(base)),
        row("change", |_, change| number::count(change)),
        row("delta", |base, change| number::delta(change - base)),
    ];
    let numbers = (1..=dots.layouts.len()).map(|number| number.to_string());
    let heads: Vec<String> = ["layout".to_owned()].into_iter().chain(numbers).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
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
        div.wide tabindex="0" { (numbers_table(&heads, rows)) }
    }
}

const BAR_HEIGHT: u32 = 26;
/// Number of colours. With more parts, colours repeat.
const COLOURS: usize = 8;

/// Renders bars of 100 % with their parts, and a table of the shares of the parts.
pub fn bars(title: &str, bars: &[StackedBar]) -> Markup {
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
                    (number::whole(total_size(bar) / number::US))
                } } }
            }
        } }
    }
}

/// Returns the names of all parts, in the order in which they first occur.
fn part_names(bars: &[StackedBar]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (part, _) in bars.iter().flat_map(|bar| &bar.parts) {
        if !names.contains(&part.as_str()) {
            names.push(part);
        }
    }
    names
}

fn total_size(bar: &StackedBar) -> f64 {
    bar.parts.iter().map(|(_, size)| *size as f64).sum()
}

/// Returns the name of each part, and its start and width in percent of the bar.
fn part_shares(bar: &StackedBar) -> impl Iterator<Item = (&str, f64, f64)> {
    let total = total_size(bar);
    bar.parts.iter().scan(0.0, move |before, (name, size)| {
        let from = share_percent(*before, total);
        *before += *size as f64;
        Some((name.as_str(), from, share_percent(*before, total) - from))
    })
}

fn share_text(bar: &StackedBar, part: &str) -> String {
    let entry = part_shares(bar).find(|(name, ..)| *name == part);
    entry.map(|(.., share)| format!("{share:.2}")).unwrap_or_default()
}

/// Height of one function of a flame graph, with the gap below, pixels.
const ROW_HEIGHT: usize = 26;

/// Height of the function's name, pixels. The name is above the bars, so that no edge of a bar
/// crosses the text.
const NAME_HEIGHT: usize = 14;

/// Height of the bar of one side, pixels.
const SIDE_HEIGHT: usize = 5;

/// Width below which a bar has no name, in percent of the picture.
const MIN_NAMED_PERCENT: f64 = 2.5;

/// Number of shades of each of the two colours.
const SHADES: f64 = 5.0;

/// Renders a flame graph: each function is below its caller, and has a bar of the base above a bar
/// of the change. In a file, the graph begins `top` pixels below the upper edge.
pub fn flame(title: &str, flame: &Flame, top: Option<usize>) -> Markup {
    html! {
        svg.flame y=[top] width="100%" height=(flame_height(flame)) role="img" {
            title { (t(title)) }
            @for bar in &flame.bars { (draw_bar(bar)) }
        }
    }
}

/// Returns the height of a flame graph, pixels.
fn flame_height(flame: &Flame) -> usize {
    flame.bars.iter().map(|bar| (bar.depth + 1) * ROW_HEIGHT).max().unwrap_or_default()
}

fn draw_bar(bar: &FlameBar) -> Markup {
    // The side with the larger count is coloured, so that removed code has a colour, too.
    let (base_class, change_class) = match bar.delta_share < 0.0 {
        true => (shade_class(bar.delta_share), "same".to_owned()),
        false => ("then".to_owned(), shade_class(bar.delta_share)),
    };
    html! {
        svg x=(percent(bar.start)) y=(bar.depth * ROW_HEIGHT) width=(percent(bar.width))
            height=(NAME_HEIGHT + 2 * SIDE_HEIGHT) {
            title {
                (t(&bar.name)) ": " (t(&bar.numbers))
                @if let Some(own) = &bar.own_numbers { "; its own code " (t(own)) }
            }
            // The style places the two bars below the name.
            rect class=(base_class) width=(percent(bar.sides.base)) {}
            rect class=(change_class) width=(percent(bar.sides.change)) {}
            @if bar.width >= MIN_NAMED_PERCENT { text x="3" y="11" { (t(&bar.name)) } }
        }
    }
}

/// Returns the CSS class of a delta: `more1` to `more5`, `less1` to `less5`, or `same` for 0. The
/// square root makes small deltas visible.
fn shade_class(delta_share: f64) -> String {
    let shade = (delta_share.abs().sqrt() * SHADES).ceil().clamp(1.0, SHADES);
    match delta_share {
        0.0 => "same".to_owned(),
        more if more > 0.0 => format!("more{shade}"),
        _ => format!("less{shade}"),
    }
}

const STYLE: &str = concat!(include_str!("../theme.css"), include_str!("../flame.css"));
const SCRIPT: &str = concat!(include_str!("../flame.js"), include_str!("../flame-file.js"));

/// Height above the flame graph of a file, for two lines of text, pixels.
const TOP: usize = 52;
/// Height below the flame graph of a file, for two lines of text, pixels.
const BOTTOM: usize = 48;

/// Maximum number of functions that are named below the flame graph of a file.
const MAX_NAMED: usize = 3;

/// Style of the text in a file.
const FILE_STYLE: &str = concat!(
    "svg{background:var(--bg)}text{font:13px system-ui,sans-serif;fill:var(--fg)}",
    ".soft{fill:var(--soft)}#find{cursor:pointer;text-decoration:underline}",
);

/// Renders an SVG file that loads nothing. It has two lines of text above the flame graph, and the
/// largest functions and an explanation below. In a browser, its script zooms and searches; the
/// file can be read without the script.
pub fn flame_file(lines: [&str; 2], how: &str, picture: &Flame) -> String {
    let height = TOP + flame_height(picture) + BOTTOM;
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" width="1200" height=(height) {
            style { (PreEscaped(FILE_STYLE)) (PreEscaped(STYLE)) }
            (text_line("8", 20, "", lines[0]))
            (text_line("8", 40, "soft", lines[1]))
            text #find x="1192" y="20" text-anchor="end" {}
            (flame(lines[0], picture, Some(TOP)))
            (text_line("8", height - 29, "", &largest_functions(picture)))
            (text_line("8", height - 9, "soft", how))
            script { (PreEscaped("<![CDATA[\n")) (PreEscaped(SCRIPT)) (PreEscaped("]]>")) }
        }
    };
    shortened(&markup.into_string()) + "\n"
}

/// Names the functions whose own code differs most, because their bars may have no room for a name.
fn largest_functions(picture: &Flame) -> String {
    let mut bars: Vec<&FlameBar> =
        picture.bars.iter().filter(|bar| bar.delta_share != 0.0).collect();
    bars.sort_by(|one, other| other.delta_share.abs().total_cmp(&one.delta_share.abs()));
    let named =
        |bar: &&FlameBar| format!("{} {}", bar.name, bar.own_numbers.as_deref().unwrap_or(""));
    let named: Vec<String> = bars.iter().take(MAX_NAMED).map(named).collect();
    if named.is_empty() { String::new() } else { format!("largest: {}", named.join(", ")) }
}

fn text_line(x: &str, y: usize, class: &str, text: &str) -> Markup {
    html! { text x=(x) y=(y) class=[Some(class).filter(|class| !class.is_empty())] { (t(text)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_grow_with_the_delta_and_zero_has_none() {
        let classes = [1.0, -1.0, 0.001, -0.3, 0.0].map(shade_class);
        assert_eq!(classes, ["more5", "less5", "more1", "less3", "same"]);
    }
}
