//! Pictures in SVG. Horizontal lengths are in percent of the width, so that a picture fits a phone,
//! a screen and a sheet of paper without being scaled. Vertical lengths are in pixels.
//!
//! This file has the marks, the axes, the frame of all pictures with two axes, and these pictures.

mod rows;

pub use rows::{bars, bridge, dots, flame, flame_file, forest};

use maud::{Markup, html};

use crate::formats::html::section::verdict_class;
use crate::formats::html::t;
use crate::number;
use crate::view::{ChainCosts, Curves, KernelLevels, KernelPoint, PairTrail, SideCurve};
use ktax_model::PairRatio;

/// Marks of verdicts: name, and outline around the origin.
const MARKS: [(&str, &str); 7] = [
    ("slower", "M-4-5L6 0L-4 5z"),
    ("faster", "M4-5L-6 0L4 5z"),
    ("below", "M0-5L5 0L0 5L-5 0z"),
    ("none", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"),
    ("unsure", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"),
    ("failed", "M-4-4L4 4M4-4L-4 4"),
    ("alone", "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0"),
];

/// Renders the definitions of all marks and line ends, which pictures use by name.
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

/// Renders a mark at `x` percent and `y` pixels.
pub fn mark(name: &str, x: &str, y: impl std::fmt::Display) -> Markup {
    html! { use href={ "#m-" (name) } x=(x) y=(y.to_string()) {} }
}

/// Renders the numbers of a picture as a table; rows begin with their name.
pub fn numbers_table(heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Markup {
    html! { table {
        thead { tr { @for (index, head) in heads.iter().enumerate() {
            @match index {
                0 => th.l { (t(head)) },
                _ => th { (t(head)) },
            }
        } } }
        tbody { @for row in rows { tr { @for (index, cell) in row.iter().enumerate() {
            @match index {
                0 => th scope="row" { (t(cell)) },
                _ => td { (t(cell)) },
            }
        } } } }
    } }
}

/// Pixels above and below the frame, for the labels of the axes.
const ABOVE: f64 = 26.0;
const BELOW: f64 = 34.0;

/// Formats a value for the label of an axis; whole numbers have no decimals.
pub fn label(value: f64) -> String {
    let is_whole = value == libm::trunc(value) && value.abs() < 1e9;
    if is_whole { number::whole(value) } else { number::measured(value) }
}

/// Formats a vertical length for SVG.
pub fn pixels(value: f64) -> String {
    format!("{value:.1}")
}

/// Frame with two axes.
pub struct Plot {
    pub x: Axis,
    pub y: Axis,
    /// Height of the frame, pixels.
    pub height: f64,
}

impl Plot {
    /// Returns the position of two values in the frame.
    fn point(&self, x: f64, y: f64) -> SvgPoint {
        (self.x.percent(x), pixels(self.down(y)))
    }

    /// Returns the distance of a value from the top, pixels.
    pub fn down(&self, y: f64) -> f64 {
        ABOVE + self.height - self.y.position(y) / 100.0 * self.height
    }

    /// Renders a vertical line over the height of the frame.
    pub fn vertical_line(&self, class: &str, x: f64) -> Markup {
        let x = self.x.percent(x);
        html! { line.(class) x1=(x) x2=(x) y1=(ABOVE) y2=(ABOVE + self.height) {} }
    }

    /// Renders the picture: the content `inside` the frame, and the axes.
    pub fn draw(&self, title: &str, labels: [&str; 2], inside: &Markup) -> Markup {
        let ticks = self.x.ticks().into_iter().map(|tick| (tick, label(tick), "mid"));
        self.draw_with_ticks(title, labels, &ticks.collect::<Vec<_>>(), inside)
    }

    /// Renders the picture with these ticks of the horizontal axis: value, label, and the CSS class
    /// that aligns the label.
    pub fn draw_with_ticks(
        &self,
        title: &str,
        labels: [&str; 2],
        ticks: &[(f64, String, &str)],
        inside: &Markup,
    ) -> Markup {
        let [x_label, y_label] = labels;
        let bottom = ABOVE + self.height;
        html! {
            svg.plot width="100%" height=(bottom + BELOW) role="img" {
                title { (t(title)) }
                @for tick in self.y.ticks() {
                    @let down = pixels(self.down(tick));
                    line.grid x1="0" x2="100%" y1=(down) y2=(down) {}
                    text.tick x="0" y=(down) dy="-3" { (label(tick)) }
                }
                @for (tick, name, align) in ticks {
                    (self.vertical_line("grid", *tick))
                    text.tick.(*align) x=(self.x.percent(*tick)) y=(bottom + 13.0) { (t(name)) }
                }
                text.label x="0" y="10" { (t(y_label)) }
                text.label.end x="100%" y=(bottom + 29.0) { (t(x_label)) }
                (inside)
            }
        }
    }
}

/// Position for SVG: horizontal in percent, vertical in pixels.
type SvgPoint = (String, String);

fn line(class: &str, (x1, y1): (&str, &str), (x2, y2): (&str, &str)) -> Markup {
    html! { line.(class) x1=(x1) y1=(y1) x2=(x2) y2=(y2) {} }
}

/// Renders a step from each point to the next: a horizontal line, then a vertical line.
fn step_lines(class: &str, points: &[SvgPoint]) -> Markup {
    html! { @for pair in points.windows(2) {
        @let [(x1, y1), (x2, y2)] = [&pair[0], &pair[1]];
        (line(class, (x1, y1), (x2, y1)))
        (line(class, (x2, y1), (x2, y2)))
    } }
}

/// Margin at both ends of an axis, percent.
const MARGIN: f64 = 3.0;

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AxisScale {
    Linear,
    /// Logarithmic, for values above 0.
    Log,
    /// Linear up to this absolute value and logarithmic above it.
    Symlog(f64),
}

/// Axis from one value to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    scale: AxisScale,
    ends: (f64, f64),
}

impl Axis {
    /// Returns an axis that includes all finite values.
    pub fn new(scale: AxisScale, values: impl IntoIterator<Item = f64>) -> Axis {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let positions = finite.map(|value| scaled(scale, value));
        let no_values = (f64::INFINITY, f64::NEG_INFINITY);
        let ends = positions.fold(no_values, |(low, high), end| (low.min(end), high.max(end)));
        let ends = match ends {
            (low, high) if low > high => (0.0, 1.0),
            (low, high) if low == high => (low - 0.5, high + 0.5),
            ends => ends,
        };
        Axis { scale, ends }
    }

    /// Returns the position of a value, from 0 to 100.
    pub fn position(&self, value: f64) -> f64 {
        let (low, high) = self.ends;
        let share = (scaled(self.scale, value) - low) / (high - low);
        MARGIN + share.clamp(0.0, 1.0) * (100.0 - 2.0 * MARGIN)
    }

    /// Formats the position of a value for SVG: `12.34%`.
    pub fn percent(&self, value: f64) -> String {
        percent(self.position(value))
    }

    /// Returns round values for labels.
    pub fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.ends;
        match self.scale {
            AxisScale::Linear => linear_ticks(low, high),
            AxisScale::Log => power_ticks(low, high),
            AxisScale::Symlog(limit) => {
                let is_on = |value: &f64| (low..=high).contains(&scaled(self.scale, *value));
                let ticks_with =
                    |digits: &[f64]| symmetric_values(limit, digits).filter(is_on).collect();
                let powers: Vec<f64> = ticks_with(&[1.0]);
                let mut ticks =
                    if powers.len() > 4 { powers } else { ticks_with(&[1.0, 2.0, 5.0]) };
                ticks.sort_by(f64::total_cmp);
                ticks
            }
        }
    }
}

/// Formats a horizontal length for SVG.
pub fn percent(value: f64) -> String {
    let mut text = format!("{value:.2}");
    text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    text + "%"
}

fn scaled(scale: AxisScale, value: f64) -> f64 {
    match scale {
        AxisScale::Linear => value,
        AxisScale::Log => libm::log10(value.max(f64::MIN_POSITIVE)),
        AxisScale::Symlog(limit) => libm::log1p(value.abs() / limit).copysign(value),
    }
}

/// Returns 0, and with both signs these digits times powers of ten, from about `limit` on.
fn symmetric_values(limit: f64, digits: &[f64]) -> impl Iterator<Item = f64> {
    let start = libm::floor(libm::log10(limit)) as i32;
    let powers = (start..start + 12).map(|power| libm::pow(10.0, f64::from(power)));
    let sizes = powers.flat_map(move |power| digits.iter().map(move |digit| digit * power));
    sizes.flat_map(|size| [size, -size]).chain([0.0])
}

/// Returns ticks in steps of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 4.0;
    let power = libm::pow(10.0, libm::floor(libm::log10(rough)));
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).take(9).map(|number| number as f64 * step).collect()
}

fn power_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.ceil() as i32, high.floor() as i32);
    let powers: Vec<f64> = (first..=last).take(9).map(|power| 10_f64.powi(power)).collect();
    match powers.len() {
        0 | 1 => vec![libm::pow(10.0, low), libm::pow(10.0, high)],
        _ => powers,
    }
}

const CURVES_HEIGHT: f64 = 200.0;

/// Renders both sides on logarithmic axes, and their numbers.
pub fn curves(title: &str, curves: &Curves) -> Markup {
    // 0 has no logarithm; only the table shows it.
    let points = |curve: &SideCurve| -> Vec<(f64, f64)> {
        curve.points.iter().copied().filter(|(x, y)| *x > 0.0 && *y > 0.0).collect()
    };
    let all: Vec<(f64, f64)> = curves.curves.iter().flat_map(points).collect();
    let plot = Plot {
        x: Axis::new(AxisScale::Log, all.iter().map(|point| point.0)),
        y: Axis::new(AxisScale::Log, all.iter().map(|point| point.1)),
        height: CURVES_HEIGHT,
    };
    let inside = html! {
        @for curve in &curves.curves {
            @let points = points(curve).into_iter().map(|(x, y)| plot.point(x, y));
            @let points = points.collect::<Vec<SvgPoint>>();
            @for pair in points.windows(2) {
                @let [(x1, y1), (x2, y2)] = [&pair[0], &pair[1]];
                (line(curve.name, (x1, y1), (x2, y2)))
            }
            @for (x, y) in &points { circle.(curve.name) cx=(x) cy=(y) r="3.5" {} }
        }
        @for crossing in &curves.crossings { (plot.vertical_line("crossing", *crossing)) }
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
/// Width (percent) and height (pixels) of a label. Labels that are nearer to each other would
/// overlap.
const LABEL_SIZE: (f64, f64) = (25.0, 13.0);
/// Maximum number of labels, for which the picture has room.
const MAX_LABELS: usize = 6;

/// Renders the cost over kernels. Levels are not connected, because they are not comparable.
pub fn levels(title: &str, levels: &KernelLevels) -> Markup {
    let points = || levels.levels.iter().flat_map(|level| &level.points);
    let last = levels.kernels.len().saturating_sub(1);
    let plot = Plot {
        x: Axis::new(AxisScale::Linear, [0.0, last as f64]),
        y: Axis::new(AxisScale::Linear, points().map(|point| point.cost)),
        height: LEVELS_HEIGHT,
    };
    let inside = html! {
        @for (number, level) in levels.levels.iter().enumerate() {
            @let side = if number % 2 == 0 { "change" } else { "base" };
            @let points = level.points.iter();
            @let spots = points.map(|point| plot.point(point.kernel as f64, point.cost));
            @let spots = spots.collect::<Vec<SvgPoint>>();
            (step_lines(side, &spots))
            @for (point, (x, y)) in level.points.iter().zip(&spots) {
                g {
                    title { (t(&point.hover)) }
                    @match point.step {
                        Some(verdict) => (mark(verdict_class(verdict), x, y)),
                        None => circle.(side) cx=(x) cy=(y) r="3" {},
                    }
                }
            }
        }
        @for (point, down) in step_labels(&plot, points()) {
            // A label in the right half is to the left of its point, where it has room.
            @let is_right = point.kernel * 2 > last;
            text.carrier.end[is_right] x=(plot.x.percent(point.kernel as f64)) y=(pixels(down)) {
                (t(&point.label))
            }
        }
    };
    let name = |index: usize| levels.kernels.get(index).cloned().unwrap_or_default();
    let ends = [(0.0, name(0), "start"), (last as f64, name(last), "end")];
    plot.draw_with_ticks(title, ["kernels", levels.unit], &ends, &inside)
}

/// Returns the labelled steps and the vertical position of each label, above its point. Labels do
/// not overlap.
fn step_labels<'a>(
    plot: &Plot,
    points: impl Iterator<Item = &'a KernelPoint>,
) -> Vec<(&'a KernelPoint, f64)> {
    let mut placed: Vec<(&KernelPoint, f64)> = Vec::new();
    for point in points.filter(|point| !point.label.is_empty()).take(MAX_LABELS) {
        let x = |point: &KernelPoint| plot.x.position(point.kernel as f64);
        let mut down = plot.down(point.cost) - 9.0;
        let overlaps = |down: f64| {
            placed.iter().any(|(other, taken)| {
                (x(other) - x(point)).abs() < LABEL_SIZE.0 && (taken - down).abs() < LABEL_SIZE.1
            })
        };
        while overlaps(down) {
            down -= LABEL_SIZE.1;
        }
        placed.push((point, down));
    }
    placed
}

const STEPS_HEIGHT: f64 = 180.0;

/// Renders the cost along a chain. Where the cost steps there is the name of the element that
/// carries the step.
pub fn steps(title: &str, steps: &ChainCosts) -> Markup {
    let plot = Plot {
        x: Axis::new(AxisScale::Linear, [0.0, steps.last as f64]),
        y: Axis::new(AxisScale::Linear, steps.points.iter().map(|point| point.1)),
        height: STEPS_HEIGHT,
    };
    let inside = html! {
        @let spots = steps.points.iter().map(|(index, cost)| plot.point(*index as f64, *cost));
        @let spots = spots.collect::<Vec<SvgPoint>>();
        (step_lines("change", &spots))
        @for (x, y) in &spots { circle.change cx=(x) cy=(y) r="3" {} }
        @for index in &steps.skipped {
            (mark("failed", &plot.x.percent(*index as f64), plot.height + 20.0))
        }
        @for (index, (to, name)) in steps.carriers.iter().enumerate() {
            // A label in the right half is to the left of its point, where it has room.
            @let is_right = *to * 2 > steps.last;
            text.carrier.end[is_right] x=(plot.x.percent(*to as f64)) y=(38 + 14 * index) {
                (t(name))
            }
        }
    };
    let rows =
        steps.points.iter().map(|(index, cost)| vec![index.to_string(), number::count(*cost)]);
    html! {
        (plot.draw(title, [steps.elements, steps.unit], &inside))
        details.numbers {
            summary { "All measured points" }
            (numbers_table(&[&format!("after {}", steps.elements), steps.unit], rows))
        }
    }
}

const TRAIL_HEIGHT: f64 = 160.0;

/// Renders the ratios of pairs in the order of time; a table of the ratios is folded away.
pub fn trail(title: &str, trail: &PairTrail) -> Markup {
    let ends = trail.ratio.map(|ratio| [ratio.low, ratio.high.unwrap_or(ratio.estimate)]);
    let ratios = trail.pairs.iter().map(|pair| pair.ratio);
    let plot = Plot {
        x: Axis::new(AxisScale::Linear, trail.pairs.iter().map(|pair| f64::from(pair.pair) + 1.0)),
        y: Axis::new(AxisScale::Linear, ratios.chain(ends.into_iter().flatten()).chain([1.0])),
        height: TRAIL_HEIGHT,
    };
    let inside = html! {
        @if let Some([low, high]) = ends {
            @let (top, bottom) = (plot.down(high), plot.down(low));
            rect.interval x="0" width="100%" y=(pixels(top)) height=(pixels(bottom - top)) {}
        }
        line.zero x1="0" x2="100%" y1=(pixels(plot.down(1.0))) y2=(pixels(plot.down(1.0))) {}
        @for look in look_positions(trail) { (plot.vertical_line("look", look)) }
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

/// Returns the position of each interim look on the axis of pairs: after the change pair whose
/// number the look has.
fn look_positions(trail: &PairTrail) -> Vec<f64> {
    let change_pairs: Vec<&PairRatio> =
        trail.pairs.iter().filter(|pair| !pair.is_control).collect();
    let position =
        |look: &usize| Some(f64::from(change_pairs.get(look.checked_sub(1)?)?.pair) + 1.5);
    trail.looks.iter().filter_map(position).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_includes_its_values_and_has_round_ticks() {
        let axis = Axis::new(AxisScale::Linear, [0.0, 100.0]);
        assert_eq!(
            [0.0, 50.0, 100.0, 1e9].map(|value| axis.percent(value)),
            ["3%", "50%", "97%", "97%"]
        );
        assert_eq!(axis.ticks(), [0.0, 50.0, 100.0]);
        let axis = Axis::new(AxisScale::Log, [1.0, 10_000.0]);
        assert_eq!(axis.percent(100.0), "50%");
        assert_eq!(axis.ticks(), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        let axis = Axis::new(AxisScale::Symlog(0.1), [-1.0, 1.0, 24.0]);
        assert_eq!(axis.ticks(), [-1.0, -0.1, 0.0, 0.1, 1.0, 10.0]);
        assert!(
            axis.position(-0.5) < axis.position(0.0) && axis.position(0.01) > axis.position(0.0)
        );
    }

    #[test]
    fn nan_and_infinity_are_left_out_of_an_axis() {
        for values in [vec![], vec![f64::NAN], vec![5.0], vec![0.0, 0.0], vec![f64::INFINITY]] {
            for scale in [AxisScale::Linear, AxisScale::Log, AxisScale::Symlog(0.1)] {
                let axis = Axis::new(scale, values.clone());
                assert!((0.0..=100.0).contains(&axis.position(5.0)), "{values:?}");
                assert!(axis.ticks().len() < 30, "{values:?}");
            }
        }
    }
}
