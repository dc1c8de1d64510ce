use maud::{Markup, html};

use super::axis::{Axis, Spread};
use super::plot::{Plot, pixels};
use crate::view::Trail;
use ktax_model::PairRatio;

const HEIGHT: f64 = 160.0;

/// Ratios in the order of time; the numbers are folded away.
pub fn trail(title: &str, trail: &Trail) -> Markup {
    let ends = trail.ratio.map(|it| [it.low, it.high.unwrap_or(it.estimate)]);
    let ratios = trail.pairs.iter().map(|pair| pair.ratio);
    let plot = Plot {
        x: Axis::of(Spread::Linear, trail.pairs.iter().map(|pair| f64::from(pair.pair) + 1.0)),
        y: Axis::of(Spread::Linear, ratios.chain(ends.into_iter().flatten()).chain([1.0])),
        height: HEIGHT,
    };
    let inside = html! {
        @if let Some([low, high]) = ends {
            @let (top, bottom) = (plot.down(high), plot.down(low));
            rect.interval x="0" width="100%" y=(pixels(top)) height=(pixels(bottom - top)) {}
        }
        line.zero x1="0" x2="100%" y1=(pixels(plot.down(1.0))) y2=(pixels(plot.down(1.0))) {}
        @for look in looks(trail) { (plot.upright("look", look)) }
        @for pair in &trail.pairs {
            @let (x, y) = plot.at(f64::from(pair.pair) + 1.0, pair.ratio);
            circle.change[!pair.is_control].control[pair.is_control] cx=(x) cy=(y) r="3.5" {}
        }
    };
    html! {
        (plot.draw(title, ["pair", "ratio"], &inside))
        (numbers(&trail.pairs))
    }
}

/// A look is after so many pairs of the change: where the last of them stands.
fn looks(trail: &Trail) -> Vec<f64> {
    let of_change: Vec<&PairRatio> = trail.pairs.iter().filter(|it| !it.is_control).collect();
    let at = |look: &usize| Some(f64::from(of_change.get(look.checked_sub(1)?)?.pair) + 1.5);
    trail.looks.iter().filter_map(at).collect()
}

fn numbers(pairs: &[PairRatio]) -> Markup {
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
