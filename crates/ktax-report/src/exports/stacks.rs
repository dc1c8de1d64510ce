//! Paths as stacks: each function with all those above it.

use std::collections::{BTreeMap, BTreeSet};

use ktax_model::{Context, Costly, Own, PathDelta, RowPaths, Side, Sides, callers, own, stack};

/// A function where it is called, and what it executes there itself.
pub(super) struct Stack<'a> {
    /// Its Context first, the function last.
    pub functions: Vec<&'a str>,
    pub path: &'a PathDelta,
    pub own: Own,
}

/// All of a row, a caller before all that it calls.
pub(super) fn stacks(paths: &RowPaths) -> impl Iterator<Item = Stack<'_>> {
    paths.contexts.iter().flat_map(|(context, paths)| {
        let callers = callers(paths);
        paths.iter().zip(own(paths)).enumerate().map(move |(at, (path, own))| {
            let below = stack(paths, &callers, at);
            let functions = [root(*context)].into_iter().chain(below).collect();
            Stack { functions, path, own }
        })
    })
}

/// The kinds of costly instructions that the row executed.
pub(super) fn kinds(paths: &RowPaths) -> Vec<Costly> {
    let all = paths.contexts.values().flatten().flat_map(|path| path.costly.keys().copied());
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

/// How many of them, each Side.
pub(super) fn count(of: &BTreeMap<Costly, Sides<u64>>, kind: Costly, side: Side) -> u64 {
    of.get(&kind).map_or(0, |counts| *counts.get(side))
}

/// One of the counts of a function.
type CountOf = fn(&Own) -> &Sides<u64>;

/// What stands below a function for its time that is no instruction. No symbol has such a name.
pub(super) const TIMES: [(&str, CountOf); 2] =
    [("[spin-wait]", |own| &own.wait), ("[idle]", |own| &own.idle)];

/// Whether CPUs wait for each other anywhere, or processes have left them idle.
pub(super) fn has_times(paths: &RowPaths) -> bool {
    let is_time =
        |path: &PathDelta| [&path.wait, &path.idle].into_iter().any(|it| *it != Sides::default());
    paths.contexts.values().flatten().any(is_time)
}

/// What stands for a Context above all that it executes. No symbol has such a name.
fn root(context: Context) -> &'static str {
    match context {
        Context::Process => "[process]",
        Context::Interrupt => "[interrupt]",
        Context::Kthread => "[kthread]",
        Context::Awaited => "[awaited]",
    }
}
