//! A line for each stack, as flame graph programs read it: `a;b;c 12`, and of both Sides, as they
//! read differences, `a;b;c 12 15`.

use super::export::{Export, sides};
use super::stacks::stacks;
use crate::model::{RowPaths, Side};

pub(super) const EXPORT: Export = Export {
    name: "folded",
    about: "a line for each stack with its instructions, for flame graphs",
    is_compared: false,
    is_of_instructions: true,
    has_sides: true,
    write: |paths, side| write(paths, side).into_bytes(),
};

fn write(paths: &RowPaths, side: Option<Side>) -> String {
    let sides = sides(side);
    let mut text = String::new();
    for stack in stacks(paths) {
        let counts: Vec<u64> =
            sides.iter().map(|side| *stack.own.instructions.get(*side)).collect();
        if counts.iter().any(|count| *count > 0) {
            text += &stack.functions.join(";");
            text.extend(counts.iter().map(|count| format!(" {count}")));
            text.push('\n');
        }
    }
    text
}
