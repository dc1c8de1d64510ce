//! The picture of the page, as a file of its own.

use super::export::Export;
use crate::carried::Carried;
use crate::flame::{PathScale, flame_of};
use crate::formats::flame_file;
use crate::view::Flame;
use ktax_model::{Context, RowPaths, Sides};

pub(super) const EXPORT: Export = Export {
    name: "svg",
    about: "a picture of both sides: a differential flame graph",
    is_compared: true,
    is_of_instructions: false,
    has_sides: false,
    write: |paths, _| write(paths).into_bytes(),
};

const HOW: &str = "upper bar: base, blue where the function's own code executed more there; \
                   lower bar: change, red where it executes more; grey: layouts differ by as much";

/// Of the process alone: interrupts are not what the row costs.
fn write(paths: &RowPaths) -> String {
    let of_process = paths.contexts.get(&Context::Process).map_or(&[][..], Vec::as_slice);
    let by = Carried::of_metric(&paths.metric);
    let mut whole = Sides { base: 0, change: 0 };
    for of in of_process.iter().filter(|it| it.depth == 0).filter_map(|it| by.of_path(it)) {
        whole.base += of.base;
        whole.change += of.change;
    }
    let scale = PathScale { by, ops: paths.ops, spread: paths.spread };
    let said = format!("{} per operation ({}): {}", by.unit(), paths.operation, scale.said(&whole));
    let none = Flame { unit: by.unit(), bars: Vec::new() };
    let flame = flame_of(of_process, whole, scale).unwrap_or(none);
    flame_file([&paths.row, &said], HOW, &flame)
}
