//! The profile format of callgrind, for `callgrind_annotate` and KCachegrind. It has functions and
//! calls between two of them, not whole paths.

use std::collections::BTreeMap;

use crate::exports::{Export, costly_kinds, has_times, kind_count, sides, stacks};
use ktax_model::{Costly, RowPaths, Side, Sides};

pub(super) const CALLGRIND: Export = Export {
    name: "callgrind",
    about: "functions and calls, for KCachegrind and callgrind_annotate",
    is_compared: false,
    is_of_instructions: false,
    has_sides: true,
    write: |paths, side| write(paths, side).into_bytes(),
};

/// Context and name of a function.
type Function<'a> = (&'a str, &'a str);

#[derive(Default)]
struct Node<'a> {
    own: Vec<u64>,
    calls: BTreeMap<&'a str, Calls>,
}

/// Calls of a callee, and what it and all below it executed for this caller.
#[derive(Default)]
struct Calls {
    calls: u64,
    all: Vec<u64>,
}

/// Writes the profile. There are no lines: all is in line 0, and the file is the Context.
fn write(paths: &RowPaths, side: Option<Side>) -> String {
    let sides = sides(side);
    let costly = costly_kinds(paths);
    let events: Vec<String> = sides
        .iter()
        .flat_map(|one| events(side.is_none(), *one, has_times(paths), &costly))
        .collect();
    let mut text = format!(
        "# callgrind format\nversion: 1\ncreator: ktax {}\ncmd: {}\npositions: line\nevents: {}\n",
        env!("CARGO_PKG_VERSION"),
        paths.row,
        events.join(" ")
    );
    for ((context, function), node) in nodes(paths, &sides, &costly) {
        text += &format!("\nfl={context}\nfn={function}\n0 {}\n", spaced(&node.own));
        for (callee, Calls { calls, all }) in node.calls {
            // Entries of thunks are not counted, and readers take 0 calls for none.
            text += &format!("cfn={callee}\ncalls={} 0\n0 {}\n", calls.max(1), spaced(&all));
        }
    }
    text
}

/// Names the events, in letters and digits.
fn events(has_side: bool, side: Side, has_times: bool, costly: &[Costly]) -> Vec<String> {
    let prefix = match (has_side, side) {
        (false, _) => "",
        (true, Side::Base) => "Base",
        (true, Side::Change) => "Change",
    };
    let costly = costly.iter().map(|kind| kind.name().split('-').map(capital).collect::<String>());
    let times = ["SpinWait", "Idle"].into_iter().filter(|_| has_times);
    let events = ["Instructions", "RepIterations"].into_iter().chain(times);
    let events = events.map(str::to_owned).chain(costly);
    events.map(|event| format!("{prefix}{event}")).collect()
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

fn nodes<'a>(
    paths: &'a RowPaths,
    sides: &[Side],
    costly: &[Costly],
) -> BTreeMap<Function<'a>, Node<'a>> {
    let mut nodes: BTreeMap<Function<'a>, Node<'a>> = BTreeMap::new();
    let most = if has_times(paths) { 4 } else { 2 };
    for stack in stacks(paths) {
        let counts = |fixed: [&Sides<u64>; 4], more: &BTreeMap<Costly, Sides<u64>>| -> Vec<u64> {
            let side_counts = |side: &Side| {
                let costly = costly.iter().map(|kind| kind_count(more, *kind, *side));
                let counts = fixed.map(|counts| *counts.get(*side)).into_iter().take(most);
                counts.chain(costly).collect::<Vec<_>>()
            };
            sides.iter().flat_map(side_counts).collect()
        };
        let [context, .., function] = stack.functions[..] else { continue };
        let own = &stack.own;
        let times = [&own.wait, &own.idle];
        let own = counts([&own.instructions, &own.rep_iterations, times[0], times[1]], &own.costly);
        add(&mut nodes.entry((context, function)).or_default().own, &own);
        // The Context calls nothing: it is the file.
        let [_, .., caller, _] = stack.functions[..] else { continue };
        let calls = nodes.entry((context, caller)).or_default().calls.entry(function).or_default();
        let most = sides.iter().map(|side| *stack.path.calls.get(*side)).max();
        calls.calls = calls.calls.saturating_add(most.unwrap_or_default());
        let path = stack.path;
        let times = [&path.wait, &path.idle];
        let insns = [&path.instructions, &path.rep_iterations];
        let all = counts([insns[0], insns[1], times[0], times[1]], &path.costly);
        add(&mut calls.all, &all);
    }
    nodes
}

fn add(to: &mut Vec<u64>, counts: &[u64]) {
    to.resize(counts.len(), 0);
    to.iter_mut().zip(counts).for_each(|(to, count)| *to = to.saturating_add(*count));
}

fn spaced(counts: &[u64]) -> String {
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}
