//! The lines of a profile that say from where functions were called.

use std::collections::BTreeMap;

use super::fields::{decimal, is_function_name};
use crate::model::{Context, Path, ProfileLine};

/// Deeper stacks than the plugin follows.
const DEEPEST: u64 = 4096;

/// A line `path`, which is below those before it.
pub(super) fn path(fields: &[&str], last: Option<&Path>) -> Option<Path> {
    let ["path", context, depth, instructions, rep_iterations, calls, function] = fields else {
        return None;
    };
    let context = Context::ALL.into_iter().find(|known| known.name() == *context)?;
    let above = last.filter(|last| last.context == context).map_or(0, |last| last.depth + 1);
    let depth = decimal(depth).filter(|depth| *depth < DEEPEST)? as u32;
    (depth <= above && is_function_name(function)).then_some(())?;
    let [instructions, rep_iterations, calls] =
        [decimal(instructions)?, decimal(rep_iterations)?, decimal(calls)?];
    let function = (*function).to_owned();
    Some(Path { context, depth, function, calls, instructions, rep_iterations })
}

/// What is below another function than it was counted for, if that is more than one in a hundred.
pub(super) fn note(paths: &[Path], lines: &[ProfileLine], total: u64) -> Option<String> {
    let mut sums: BTreeMap<(Context, &str), [u64; 2]> = BTreeMap::new();
    for path in paths {
        let sum = &mut sums.entry((path.context, &path.function)).or_default()[0];
        *sum = sum.saturating_add(path.instructions).saturating_add(path.rep_iterations);
    }
    for line in lines.iter().filter(|_| !paths.is_empty()) {
        let sum = &mut sums.entry((line.context, &line.function)).or_default()[1];
        let counts = line.counts;
        *sum = sum.saturating_add(counts.instructions).saturating_add(counts.rep_iterations);
    }
    // What a program's functions executed is below one place: that of user mode.
    let is_kernels = |name: &str| !name.starts_with('[');
    let kernels = sums.iter().filter(|((_, name), _)| is_kernels(name));
    let apart: u64 = kernels.map(|(_, [paths, lines])| lines.saturating_sub(*paths)).sum();
    let note = "path: functions are below others than those that called them";
    (apart > total / 100).then(|| note.to_owned())
}

/// Whether they are all that the functions executed, in each Context.
pub(super) fn add_up(paths: &[Path], lines: &[ProfileLine]) -> bool {
    let mut sums: BTreeMap<Context, (u64, u64)> = BTreeMap::new();
    for path in paths {
        let sum = sums.entry(path.context).or_default();
        sum.0 = sum.0.saturating_add(path.instructions).saturating_add(path.rep_iterations);
    }
    for line in lines {
        let sum = sums.entry(line.context).or_default();
        let counts = line.counts;
        sum.1 = sum.1.saturating_add(counts.instructions).saturating_add(counts.rep_iterations);
    }
    paths.is_empty() || sums.values().all(|(of_paths, of_lines)| of_paths == of_lines)
}
