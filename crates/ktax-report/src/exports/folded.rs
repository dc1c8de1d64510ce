//! A line for each stack, as flame graph programs read it: `a;b;c 12`, and of both Sides, as they
//! read differences, `a;b;c 12 15`. What CPUs wait in a function, and are idle, is below it.

use super::export::{Export, sides};
use super::stacks::{TIMES, stacks};
use ktax_model::{RowPaths, Side};

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
        let times = TIMES.map(|(name, time)| (Some(name), time(&stack.own)));
        for (below, counts) in [(None, &stack.own.instructions)].into_iter().chain(times) {
            let counts: Vec<u64> = sides.iter().map(|side| *counts.get(*side)).collect();
            if counts.iter().any(|count| *count > 0) {
                let functions: Vec<&str> = stack.functions.iter().copied().chain(below).collect();
                text += &functions.join(";");
                text.extend(counts.iter().map(|count| format!(" {count}")));
                text.push('\n');
            }
        }
    }
    text
}
