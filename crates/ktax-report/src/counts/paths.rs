//! From where the functions were called that carry a delta.

use super::branches::branches;
use crate::carried::{Carried, carrying};
use crate::number;
use crate::view::{Kind, Line, PathLine, Section, Table};
use ktax_model::{
    Effect, LITTLE_OF_DELTA_PERCENT, PathDelta, Row, Sides, callers, stack, without_below,
};
use ktax_stats::tables::share_percent;

/// The second is what decides beside instructions.
fn columns(by: Carried) -> [(&'static str, Kind); 5] {
    let second = if by == Carried::Wait { "delta spin-wait" } else { "delta REP" };
    [
        ("delta insn", Kind::Number),
        (second, Kind::Number),
        ("base calls", Kind::Number),
        ("change calls", Kind::Number),
        ("function", Kind::Name),
    ]
}

const MEANING: &str = "The function above called it; where that called several, a line leads to \
                       each. A delta, per operation, is that of the function and of all that it \
                       called. What is less than 1 % of the row's delta is left out. Where the \
                       compiler inlined a function on one side alone, what it calls is below its \
                       caller on both.";

/// One table for each changed row.
pub fn paths(rows: &[Row]) -> impl Iterator<Item = Section> {
    let changed = rows.iter().filter_map(|row| Some((row, carrying(row)?)));
    let changed = changed.map(|(row, effect)| (row, Carried::of(effect), moved(effect)));
    changed.filter(|(.., paths)| !paths.is_empty()).map(|(row, by, paths)| {
        let lines = paths.iter().zip(branches(&paths));
        let lines = lines.map(|(path, branch)| line(path, &branch, by, row.ops));
        let gives_way = vec![vec![if by == Carried::Wait { 0 } else { 1 }], vec![2]];
        Section::Table {
            title: format!("Call paths of {} that changed:", row.row),
            table: Table { gives_way, ..Table::of(columns(by)) }.with(lines),
            notes: vec![MEANING.to_owned()],
        }
    })
}

/// The paths whose delta is worth a line.
fn moved(effect: &Effect) -> Vec<PathDelta> {
    let carried = Carried::of(effect);
    let size = |path: &PathDelta| {
        carried.of_path(path).map_or(0, |Sides { base, change }| base.abs_diff(*change))
    };
    let delta = effect.counts().map_or(0, |Sides { base, change }| base.abs_diff(change));
    let least = delta.saturating_mul(LITTLE_OF_DELTA_PERCENT);
    without_below(&effect.paths, |path| size(path).saturating_mul(100) >= least.max(1))
}

/// A place that carries less of the row's delta, in percent, says little of it.
const MUCH_PERCENT: f64 = 20.0;
/// So many are named, by so many functions.
const MOST: usize = 2;
const FUNCTIONS: usize = 3;

/// The places that carry most, each without those below it that carry much themselves. Those that
/// differ because the CPU lacks a feature stand last.
pub fn most(effect: &Effect, ops: u64) -> Vec<PathLine> {
    let carried = Carried::of(effect);
    let Some(all) = effect.counts() else { return Vec::new() };
    let delta = |of: &Sides<u64>| of.change as f64 - of.base as f64;
    let delta_of = |path: &PathDelta| carried.of_path(path).map_or(0.0, delta);
    let share = |of: f64| share_percent(of, delta(&all));
    let paths = without_below(&effect.paths, |path| share(delta_of(path)) >= MUCH_PERCENT);
    let callers = callers(&paths);
    let mut rest: Vec<f64> = paths.iter().map(delta_of).collect();
    for (path, caller) in paths.iter().zip(&callers) {
        caller.iter().for_each(|caller| rest[*caller] -= delta_of(path));
    }
    let mut places: Vec<usize> = (0..paths.len()).collect();
    places.retain(|at| share(rest[*at]) >= MUCH_PERCENT);
    let lacking = |place: usize| effect.lacking(&paths[place].function);
    places.sort_by(|one, other| {
        let is_last = |place: &usize| lacking(*place).is_some();
        let by_share = share(rest[*other]).total_cmp(&share(rest[*one]));
        is_last(one).cmp(&is_last(other)).then(by_share)
    });
    places.truncate(MOST);
    let stacks: Vec<Vec<&str>> = places.iter().map(|at| stack(&paths, &callers, *at)).collect();
    let line = |(at, stack): (&usize, &Vec<&str>)| PathLine {
        path: named(stack, &stacks),
        delta: rest[*at] / ops.max(1) as f64,
        share_percent: share(rest[*at]),
        lacking: lacking(*at),
    };
    places.iter().zip(&stacks).map(line).collect()
}

/// The last functions of a stack, and before them the one that tells it from another with the same.
fn named(stack: &[&str], all: &[Vec<&str>]) -> String {
    let last = |stack: &[&str]| stack[stack.len().saturating_sub(FUNCTIONS)..].join(" → ");
    let (shown, twins) =
        (last(stack), all.iter().filter(|it| *it != stack && last(it) == last(stack)));
    let apart = |twin: &Vec<&str>| stack.iter().zip(twin).position(|(one, other)| one != other);
    match twins.filter_map(apart).max().and_then(|at| stack.get(at)) {
        Some(function) => format!("{function} → … → {shown}"),
        None => shown,
    }
}

fn line(path: &PathDelta, branch: &str, by: Carried, ops: u64) -> Line {
    let per_op = |count: u64| count as f64 / ops.max(1) as f64;
    let delta = |of: &Sides<u64>| match per_op(of.change) - per_op(of.base) {
        0.0 => String::new(),
        delta => number::delta(delta),
    };
    Line::of([
        delta(&path.instructions),
        delta(if by == Carried::Wait { &path.wait } else { &path.rep_iterations }),
        number::count(per_op(path.calls.base)),
        number::count(per_op(path.calls.change)),
        format!("{branch}{}", path.function),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use ktax_model::{Context, FunctionDelta, Verdict};

    fn effect(paths: &[(u32, &str, u64, u64)]) -> Effect {
        let path = |(depth, name, base, change): &(u32, &str, u64, u64)| {
            PathDelta::with_instructions(*depth, name, *base, *change)
        };
        Effect {
            metric: "instructions".to_owned(),
            base: 0.0,
            change: 0.0,
            delta: 0.0,
            percent: None,
            layout: 0,
            delta_range: (0.0, 0.0),
            spread: 0.0,
            detectable: None,
            samples: Sides { base: vec![paths[0].2], change: vec![paths[0].3] },
            verdict: Verdict::Slower,
            functions: Vec::new(),
            paths: paths.iter().map(path).collect(),
        }
    }

    #[test]
    fn what_a_caller_carries_itself_is_named_beside_what_it_calls() {
        let effect = effect(&[
            (0, "stat", 1000, 1100),
            (1, "alloc", 100, 200),
            (2, "memset", 0, 35),
            (3, "erms", 0, 30),
            (2, "other", 50, 55),
            (1, "walk", 500, 500),
        ]);
        let found = most(&effect, 10);
        let said: Vec<(&str, f64, f64)> =
            found.iter().map(|it| (it.path.as_str(), it.delta, it.share_percent)).collect();
        assert_eq!(said, [("stat → alloc", 6.5, 65.0), ("alloc → memset → erms", 3.0, 30.0)]);
    }

    #[test]
    fn a_place_of_a_cpu_that_lacks_a_feature_is_named_last() {
        let paths = [(0, "stat", 100, 250), (1, "memset_orig", 0, 100), (1, "walk", 0, 50)];
        let mut effect = effect(&paths);
        let nothing = Sides::default;
        let function = FunctionDelta {
            function: "memset_orig".to_owned(),
            context: Context::Process,
            instructions: Sides { base: 0, change: 100 },
            rep_iterations: nothing(),
            delta: 100.0,
            rep_delta: 0.0,
            wait: nothing(),
            transfers: nothing(),
            costly: BTreeMap::new(),
            msrs: BTreeMap::new(),
            modelled: BTreeMap::new(),
        };
        let named = |effect: &Effect| {
            let found = most(effect, 1).into_iter();
            found.map(|place| (place.path, place.lacking)).collect::<Vec<_>>()
        };
        let slow = "stat → memset_orig".to_owned();
        let walk = ("stat → walk".to_owned(), None);
        // Without its own counts nobody knows that one side alone executes it.
        assert_eq!(named(&effect), [(slow.clone(), None), walk.clone()]);
        effect.functions = vec![function];
        assert_eq!(named(&effect), [walk, (slow, Some("FSRS"))]);
    }

    #[test]
    fn two_stacks_that_end_alike_are_told_apart() {
        let one = vec!["open", "create", "alloc_a", "alloc", "memset", "erms"];
        let other = vec!["open", "create", "alloc_b", "alloc", "memset", "erms"];
        let all = [one.clone(), other.clone()];
        assert_eq!(named(&one, &all), "alloc_a → … → alloc → memset → erms");
        assert_eq!(named(&other, &all), "alloc_b → … → alloc → memset → erms");
        assert_eq!(named(&one, &all[..1]), "alloc → memset → erms");
        // One is below the other's end.
        assert_eq!(named(&one[2..], &all[1..]), "alloc_a → … → alloc → memset → erms");
    }
}
