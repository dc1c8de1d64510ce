//! From where the functions were called that carry a delta.

use crate::model::{
    Effect, LITTLE_OF_DELTA_PERCENT, PathDelta, Row, Sides, callers, stack, without_below,
};
use crate::report::carried::{Carried, carrying};
use crate::report::number;
use crate::report::view::{Kind, Line, PathLine, Section, Table};
use crate::stats::tables::share_percent;

const COLUMNS: [(&str, Kind); 5] = [
    ("delta insn", Kind::Number),
    ("delta REP", Kind::Number),
    ("base calls", Kind::Number),
    ("change calls", Kind::Number),
    ("function", Kind::Name),
];

const MEANING: &str = "Each function is below the one that called it, further to the right where \
                       that called others, too. Its delta, per operation, is that of all that it \
                       called. What is less than 1 % of the row's delta is left out. Where the \
                       compiler inlined a function on one side alone, what it calls is below its \
                       caller on both.";

/// One table for each changed row.
pub fn paths(rows: &[Row]) -> impl Iterator<Item = Section> {
    let changed = rows.iter().filter_map(|row| Some((row, moved(carrying(row)?))));
    changed.filter(|(_, paths)| !paths.is_empty()).map(|(row, paths)| Section::Table {
        title: format!("{}, from where it is called:", row.row),
        table: Table { gives_way: vec![vec![1], vec![2]], ..Table::of(COLUMNS) }
            .with(paths.iter().zip(indents(&paths)).map(|(path, by)| line(path, by, row.ops))),
        notes: vec![MEANING.to_owned()],
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

/// The places that carry most, as deep as they still do.
pub fn most(effect: &Effect, ops: u64) -> Vec<PathLine> {
    let carried = Carried::of(effect);
    let Some(all) = effect.counts() else { return Vec::new() };
    let delta = |of: &Sides<u64>| of.change as f64 - of.base as f64;
    let delta_of = |path: &PathDelta| carried.of_path(path).map_or(0.0, delta);
    let share = |path: &PathDelta| share_percent(delta_of(path), delta(&all));
    let paths = without_below(&effect.paths, |path| share(path) >= MUCH_PERCENT);
    let callers = callers(&paths);
    let is_deepest = |at: &usize| !callers.contains(&Some(*at));
    let mut places: Vec<usize> = (0..paths.len()).filter(is_deepest).collect();
    places.sort_by(|one, other| share(&paths[*other]).total_cmp(&share(&paths[*one])));
    places.truncate(MOST);
    let stacks: Vec<Vec<&str>> = places.iter().map(|at| stack(&paths, &callers, *at)).collect();
    let line = |(at, stack): (&usize, &Vec<&str>)| PathLine {
        path: named(stack, &stacks),
        delta: delta_of(&paths[*at]) / ops.max(1) as f64,
        share_percent: share(&paths[*at]),
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

/// How far each is indented: as far as its caller, unless that has others, too.
fn indents(paths: &[PathDelta]) -> Vec<usize> {
    let callers = callers(paths);
    let mut called = vec![0; paths.len()];
    callers.iter().flatten().for_each(|caller| called[*caller] += 1);
    let mut indents: Vec<usize> = Vec::with_capacity(paths.len());
    for caller in callers {
        let indent = caller.map_or(0, |it| indents[it] + usize::from(called[it] > 1));
        indents.push(indent);
    }
    indents
}

fn line(path: &PathDelta, indent: usize, ops: u64) -> Line {
    let per_op = |count: u64| count as f64 / ops.max(1) as f64;
    let delta = |of: &Sides<u64>| match per_op(of.change) - per_op(of.base) {
        0.0 => String::new(),
        delta => number::delta(delta),
    };
    Line::of([
        delta(&path.instructions),
        delta(&path.rep_iterations),
        number::count(per_op(path.calls.base)),
        number::count(per_op(path.calls.change)),
        format!("{}{}", "· ".repeat(indent), path.function),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn only_who_called_several_moves_them_to_the_right() {
        let none = || Sides { base: 0, change: 0 };
        let path = |depth: u32| PathDelta {
            depth,
            function: "f".into(),
            calls: none(),
            instructions: none(),
            rep_iterations: none(),
            costly: Default::default(),
        };
        let of = |depths: &[u32]| indents(&depths.iter().map(|it| path(*it)).collect::<Vec<_>>());
        assert_eq!(of(&[0, 1, 2, 2, 3, 1, 2]), [0, 1, 2, 2, 2, 1, 1]);
        assert_eq!(of(&[0, 0, 1]), [0, 0, 0]);
        // What a file says that ktax did not write.
        assert_eq!(of(&[7, 4_000_000_000, 0]), [0, 0, 0]);
        assert_eq!(of(&[]), [0; 0]);
    }
}
