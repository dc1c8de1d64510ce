use maud::{Markup, html};

use super::super::table::name;
use super::super::text::t;
use super::axis::{Axis, Spread, percent};
use crate::view::{BarKind, Bridge, BridgeBar};

/// A table of bars, each of which begins where the one above ends.
pub fn bridge(title: &str, bridge: &Bridge) -> Markup {
    let ends = bridge.bars.iter().flat_map(|bar| [bar.span.0, bar.span.1]);
    let axis = Axis::of(Spread::Linear, ends.chain([0.0]));
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
                        @if let Some(word) = word(bar.kind) { " " small { (word) } }
                    }
                    td { (t(&bar.shown)) }
                    td { (drawn(bar, &axis)) }
                    td { (t(&bar.from_to)) }
                    @if has_other { td { (t(&bar.other)) } }
                }
            } }
        }
    }
}

fn word(kind: BarKind) -> Option<&'static str> {
    match kind {
        BarKind::New => Some("new"),
        BarKind::Gone => Some("gone"),
        BarKind::Side | BarKind::Both => None,
    }
}

fn drawn(bar: &BridgeBar, axis: &Axis) -> Markup {
    let (from, to) = bar.span;
    let (left, right) = (axis.at(from.min(to)), axis.at(from.max(to)));
    let class = match bar.kind {
        BarKind::Side => "side",
        _ if to < from => "faster",
        _ => "slower",
    };
    let is_one_sided = matches!(bar.kind, BarKind::New | BarKind::Gone);
    html! {
        // It has no words: the cells beside it say the same.
        svg {
            rect.(class).dashed[is_one_sided] x=(percent(left))
                width=(percent((right - left).max(0.4))){}
        }
    }
}
