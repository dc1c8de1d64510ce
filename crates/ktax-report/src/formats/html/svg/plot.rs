//! What all pictures with two axes share: the frame, the ticks, the labels.

use maud::{Markup, html};

use super::super::text::t;
use super::axis::Axis;
use crate::number;

/// Pixels above the frame and below it, where the labels of the axis across are.
const ABOVE: f64 = 26.0;
const BELOW: f64 = 34.0;

/// A value of an axis: whole where it is, as parameters are.
pub fn label(value: f64) -> String {
    let is_whole = value == libm::trunc(value) && value.abs() < 1e9;
    if is_whole { number::whole(value) } else { number::measured(value) }
}

/// A length down, for SVG.
pub fn pixels(value: f64) -> String {
    format!("{value:.1}")
}

/// A frame with two axes.
pub struct Plot {
    /// Across.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// Pixels of the frame.
    pub height: f64,
}

impl Plot {
    /// A place in the frame: across in percent, down in pixels.
    pub fn at(&self, x: f64, y: f64) -> (String, String) {
        (self.x.percent(x), pixels(self.down(y)))
    }

    /// How far down a value is, pixels.
    pub fn down(&self, y: f64) -> f64 {
        ABOVE + self.height - self.y.at(y) / 100.0 * self.height
    }

    /// A line from one point to another.
    pub fn line(&self, class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
        let ((x1, y1), (x2, y2)) = (self.at(from.0, from.1), self.at(to.0, to.1));
        html! { line.(class) x1=(x1) y1=(y1) x2=(x2) y2=(y2) {} }
    }

    /// The way from one point to another as a step: across first.
    pub fn step(&self, class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
        let corner = (to.0, from.1);
        html! { (self.line(class, from, corner)) (self.line(class, corner, to)) }
    }

    /// A line over the whole height.
    pub fn upright(&self, class: &str, x: f64) -> Markup {
        let x = self.x.percent(x);
        html! { line.(class) x1=(x) x2=(x) y1=(ABOVE) y2=(ABOVE + self.height) {} }
    }

    /// The picture: what is in the frame, with the axes around it.
    pub fn draw(&self, title: &str, labels: [&str; 2], inside: &Markup) -> Markup {
        let ticks = self.x.ticks().into_iter().map(|tick| (tick, label(tick), "mid"));
        self.draw_over(title, labels, &ticks.collect::<Vec<_>>(), inside)
    }

    /// The same with these ticks across: their places, names, and how the names lie.
    pub fn draw_over(
        &self,
        title: &str,
        labels: [&str; 2],
        ticks: &[(f64, String, &str)],
        inside: &Markup,
    ) -> Markup {
        let [across, up] = labels;
        let bottom = ABOVE + self.height;
        html! {
            svg.plot width="100%" height=(bottom + BELOW) role="img" {
                title { (t(title)) }
                @for tick in self.y.ticks() {
                    @let down = pixels(self.down(tick));
                    line.grid x1="0" x2="100%" y1=(down) y2=(down) {}
                    text.tick x="0" y=(down) dy="-3" { (label(tick)) }
                }
                @for (tick, name, lies) in ticks {
                    (self.upright("grid", *tick))
                    text.tick.(*lies) x=(self.x.percent(*tick)) y=(bottom + 13.0) { (t(name)) }
                }
                text.label x="0" y="10" { (t(up)) }
                text.label.end x="100%" y=(bottom + 29.0) { (t(across)) }
                (inside)
            }
        }
    }
}
