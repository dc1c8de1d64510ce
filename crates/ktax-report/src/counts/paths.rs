//! Tables of call paths: those that carry a delta, and where a whole row goes.

use std::collections::BTreeMap;

use crate::effect::{CountKind, carrying};
use crate::number;
use crate::view::{Columns, PathLine, Section};
use ktax_host::text::counted;
use ktax_model::{
    Context, Effect, MIN_DELTA_SHARE_PERCENT, PathDelta, Row, RowPaths, Side, Sides, callers,
    own_counts, path_names, prune_paths,
};
use ktax_stats::tables::share_percent;

const PATHS_MEANING: &str = "The function above called it; where that called several, a line \
                             leads to each. A delta, per operation, is that of the function and \
                             of all that it called. What is less than 1 % of the row's delta is \
                             left out. Where the compiler inlined a function on one side alone, \
                             what it calls is below its caller on both.";

/// Tables of the call paths that changed, one for each changed row.
pub fn changed_paths(rows: &[Row]) -> impl Iterator<Item = Section> {
    let changed = rows.iter().filter_map(|row| Some((row, carrying(row)?)));
    let changed =
        changed.map(|(row, effect)| (row, CountKind::from_effect(effect), moved_paths(effect)));
    changed.filter(|(.., paths)| !paths.is_empty()).map(|(row, by, paths)| {
        let is_wait = by == CountKind::Wait;
        let branches = branches(&paths);
        let lines: Vec<(&PathDelta, &String)> = paths.iter().zip(&branches).collect();
        let per_op = |count: u64| number::per_op(count, row.ops);
        let delta = |counts: &Sides<u64>| match per_op(counts.change) - per_op(counts.base) {
            0.0 => String::new(),
            delta => number::delta(delta),
        };
        let mut columns = Columns::new(&lines);
        let insn = columns.number("delta insn", |(path, _)| delta(&path.instructions));
        if is_wait {
            insn.away(0);
            columns.number("delta spin-wait", |(path, _)| delta(&path.wait));
        } else {
            columns.number("delta REP", |(path, _)| delta(&path.rep_iterations)).away(0);
        }
        columns.number("base calls", |(path, _)| number::count(per_op(path.calls.base))).away(1);
        columns.number("change calls", |(path, _)| number::count(per_op(path.calls.change)));
        columns.name("function", |(path, branch)| format!("{branch}{}", path.function));
        let title = format!("Call paths of {} that changed:", row.row);
        columns.table().noted(title, PATHS_MEANING)
    })
}

/// Returns the paths whose delta is worth a line.
fn moved_paths(effect: &Effect) -> Vec<PathDelta> {
    let carried = CountKind::from_effect(effect);
    let size = |path: &PathDelta| {
        carried.path_counts(path).map_or(0, |Sides { base, change }| base.abs_diff(*change))
    };
    let delta = effect.counts().map_or(0, |Sides { base, change }| base.abs_diff(change));
    let least = delta.saturating_mul(MIN_DELTA_SHARE_PERCENT);
    prune_paths(&effect.paths, |path| size(path).saturating_mul(100) >= least.max(1))
}

/// Share of the row's delta, in percent, below which a place says little.
const MUCH_PERCENT: f64 = 20.0;
/// Number of places that are named, and of functions in a name.
const MOST_PATHS: usize = 2;
const NAMED_FUNCTIONS: usize = 3;

/// Returns the places that carry most, each without those below it that carry much themselves.
/// Those that differ because the CPU lacks a feature stand last.
pub fn largest_paths(effect: &Effect, ops: u64) -> Vec<PathLine> {
    let carried = CountKind::from_effect(effect);
    let Some(all) = effect.counts() else { return Vec::new() };
    let delta = |counts: &Sides<u64>| counts.change as f64 - counts.base as f64;
    let delta_of = |path: &PathDelta| carried.path_counts(path).map_or(0.0, delta);
    let share = |part: f64| share_percent(part, delta(&all));
    let paths = prune_paths(&effect.paths, |path| share(delta_of(path)) >= MUCH_PERCENT);
    let callers = callers(&paths);
    let mut rest: Vec<f64> = paths.iter().map(delta_of).collect();
    for (path, caller) in paths.iter().zip(&callers) {
        caller.iter().for_each(|caller| rest[*caller] -= delta_of(path));
    }
    let mut places: Vec<usize> = (0..paths.len()).collect();
    places.retain(|index| share(rest[*index]) >= MUCH_PERCENT);
    let lacking = |place: usize| effect.missing_feature(&paths[place].function);
    places.sort_by(|one, other| {
        let is_last = |place: &usize| lacking(*place).is_some();
        let by_share = share(rest[*other]).total_cmp(&share(rest[*one]));
        is_last(one).cmp(&is_last(other)).then(by_share)
    });
    places.truncate(MOST_PATHS);
    let stacks: Vec<Vec<&str>> =
        places.iter().map(|index| path_names(&paths, &callers, *index)).collect();
    let line = |(index, stack): (&usize, &Vec<&str>)| PathLine {
        path: named(stack, &stacks),
        delta: rest[*index] / ops.max(1) as f64,
        share_percent: share(rest[*index]),
        lacking: lacking(*index),
    };
    places.iter().zip(&stacks).map(line).collect()
}

/// The last functions of a stack, and the one that tells it from others with that end.
fn named(stack: &[&str], all: &[Vec<&str>]) -> String {
    let last = |stack: &[&str]| stack[stack.len().saturating_sub(NAMED_FUNCTIONS)..].join(" → ");
    let (shown, twins) =
        (last(stack), all.iter().filter(|other| *other != stack && last(other) == last(stack)));
    let apart = |twin: &Vec<&str>| stack.iter().zip(twin).position(|(one, other)| one != other);
    match twins.filter_map(apart).max().and_then(|index| stack.get(index)) {
        Some(function) => format!("{function} → … → {shown}"),
        None => shown,
    }
}

/// Share of the row on both sides, in percent, below which functions are summed up.
const LEAST_OF_FUNCTION: f64 = 0.5;
/// Share of the row on both sides, in percent, below which a path is left out with all below it.
const LEAST_OF_PATH: f64 = 1.0;
/// Share of the instructions, in percent, below which REP iterations and waits have no tables.
const LEAST_OF_OTHERS: f64 = 1.0;

const COST_PATHS_MEANING: &str = "The function above called it; where that called several, a line \
                                  leads to each. A count has that of all that it called. What has \
                                  less than 1 % of the row on both sides is left out.";

/// Tables of where a row goes, whether or not it changed, by function and by call path: of
/// instructions, and of REP iterations and waits where those are much.
pub fn row_costs(paths: &RowPaths) -> Vec<Section> {
    let all = |context: &Context| paths.contexts.get(context).map_or(&[][..], Vec::as_slice);
    let context_costs = |context: &Context| {
        let paths_of = all(context);
        let insn = top_counts(CountKind::Instructions, paths_of);
        let is_much = |by: &CountKind| {
            let counts = top_counts(*by, paths_of);
            let share = |side: Side| share_of(*counts.get(side), *insn.get(side));
            Side::BOTH.into_iter().any(|side| share(side) >= LEAST_OF_OTHERS)
        };
        let others = [CountKind::Rep, CountKind::Wait].into_iter().filter(is_much);
        let tables = [CountKind::Instructions].into_iter().chain(others);
        let tables = tables.map(|by| Costs { row: paths, context: *context, paths: paths_of, by });
        tables.flat_map(|costs| [costs.functions(), costs.paths()]).collect::<Vec<_>>()
    };
    let decides = |context: &&Context| context.is_deciding() && !all(context).is_empty();
    Context::ALL.iter().filter(decides).flat_map(context_costs).collect()
}

/// Counts of one context of a row.
struct Costs<'a> {
    row: &'a RowPaths,
    context: Context,
    paths: &'a [PathDelta],
    by: CountKind,
}

/// Sum over the functions that nothing calls.
pub fn top_counts(by: CountKind, paths: &[PathDelta]) -> Sides<u64> {
    let top = paths.iter().filter(|path| path.depth == 0).filter_map(|path| by.path_counts(path));
    top.fold(Sides::default(), |sum, counts| sum_counts(&sum, counts))
}

fn sum_counts(one: &Sides<u64>, other: &Sides<u64>) -> Sides<u64> {
    Sides::from_fn(|side| one.get(side).saturating_add(*other.get(side)))
}

fn share_of(part: u64, whole: u64) -> f64 {
    share_percent(part as f64, whole.max(1) as f64)
}

impl Costs<'_> {
    fn title(&self, what: &str) -> String {
        let RowPaths { row, operation, .. } = self.row;
        let whose = match self.context {
            Context::Process => String::new(),
            other => format!(" of {}", other.words()),
        };
        format!("Where {row} goes, {} per operation ({operation}){whose}, {what}:", self.by.unit())
    }

    /// Table that begins with the counts of these lines and their shares.
    fn columns<'l, L: Copy>(
        &self,
        lines: &'l [L],
        counts: impl Fn(L) -> Sides<u64>,
    ) -> Columns<'l, L> {
        let unit = self.by.head();
        let whole = top_counts(self.by, self.paths);
        let mut columns = Columns::new(lines);
        for side in Side::BOTH {
            let per_op = |line| number::per_op(*counts(line).get(side), self.row.ops);
            let head = format!("{} {unit}", side.name());
            columns.number(&head, |line| number::count(per_op(line)));
        }
        for side in Side::BOTH {
            let share = |line| share_of(*counts(line).get(side), *whole.get(side));
            let head = format!("{} %", side.name());
            columns.number(&head, |line| number::with_decimals(share(line), 2, false));
        }
        columns.give_way([&[2], &[0]]);
        columns
    }

    fn is_at_least(&self, counts: &Sides<u64>, percent: f64) -> bool {
        let whole = top_counts(self.by, self.paths);
        Side::BOTH.into_iter().any(|side| share_of(*counts.get(side), *whole.get(side)) >= percent)
    }

    /// Table of what each function executes itself; the lines add up to the row.
    fn functions(&self) -> Section {
        let mut functions: BTreeMap<&str, Sides<u64>> = BTreeMap::new();
        for (path, own) in self.paths.iter().zip(own_counts(self.paths)) {
            let sum = functions.entry(&path.function).or_default();
            *sum = sum_counts(sum, self.by.own_counts(&own));
        }
        functions.retain(|_, counts| *counts != Sides::default());
        let is_large = |counts: &Sides<u64>| self.is_at_least(counts, LEAST_OF_FUNCTION);
        let (mut large, small): (Vec<_>, Vec<_>) =
            functions.into_iter().partition(|(_, counts)| is_large(counts));
        // Stable: those that have as much stay in the order of their names.
        large.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.base.max(counts.change)));
        let rest = small.iter().fold(Sides::default(), |sum, (_, counts)| sum_counts(&sum, counts));
        let name = format!("… {}", counted(small.len(), "more function"));
        let lines = large.iter().map(|(name, counts)| (*name, counts));
        let lines: Vec<(&str, &Sides<u64>)> =
            lines.chain((!small.is_empty()).then_some((name.as_str(), &rest))).collect();
        let mut columns = self.columns(&lines, |(_, counts)| counts.clone());
        columns.name("function", |(name, _)| name);
        columns.table().titled(self.title("by function"))
    }

    /// Table of what each function executes with all that it calls, below its callers.
    fn paths(&self) -> Section {
        let is_wide = |path: &PathDelta| {
            self.by.path_counts(path).is_some_and(|counts| self.is_at_least(counts, LEAST_OF_PATH))
        };
        let kept = prune_paths(self.paths, is_wide);
        let branches = branches(&kept);
        let lines: Vec<(&PathDelta, &String)> = kept.iter().zip(&branches).collect();
        let counts = |path| self.by.path_counts(path).cloned().unwrap_or_default();
        let mut columns = self.columns(&lines, |(path, _)| counts(path));
        columns.number("change calls", |(path, _)| {
            // Calls of user mode and of thunks are not counted.
            let calls = Some(number::per_op(path.calls.change, self.row.ops));
            calls.filter(|calls| *calls > 0.0).map(number::count)
        });
        columns.name("function", |(path, branch)| format!("{branch}{}", path.function));
        columns.give_way([&[4], &[2], &[0]]);
        columns.table().noted(self.title("by call path"), COST_PATHS_MEANING)
    }
}

/// Returns the tree prefix of each function. An only callee stands right below its caller, so a
/// chain of calls takes no width; to each of several a line leads.
fn branches(paths: &[PathDelta]) -> Vec<String> {
    let callers = callers(paths);
    let place = |caller: Option<usize>| caller.map_or(0, |index| index + 1);
    // Callees still to come, by caller; the first entry is for functions without a caller.
    let mut to_come = vec![0; paths.len() + 1];
    callers.iter().for_each(|caller| to_come[place(*caller)] += 1);
    let is_alone: Vec<bool> = to_come.iter().map(|count| *count == 1).collect();
    // Prefix of the callees of each function.
    let mut below = vec![String::new(); paths.len() + 1];
    let mut branches = Vec::with_capacity(paths.len());
    for (index, caller) in callers.iter().enumerate() {
        let caller = place(*caller);
        to_come[caller] -= 1;
        let (here, next) = match (is_alone[caller], to_come[caller]) {
            (true, _) => ("", ""),
            (false, 0) => ("└ ", "  "),
            (false, _) => ("├ ", "│ "),
        };
        below[index + 1] = format!("{}{next}", below[caller]);
        branches.push(format!("{}{here}", below[caller]));
    }
    branches
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
        let found = largest_paths(&effect, 10);
        let shown: Vec<(&str, f64, f64)> = found
            .iter()
            .map(|place| (place.path.as_str(), place.delta, place.share_percent))
            .collect();
        assert_eq!(shown, [("stat → alloc", 6.5, 65.0), ("alloc → memset → erms", 3.0, 30.0)]);
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
            let found = largest_paths(effect, 1).into_iter();
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

    fn drawn(depths: &[u32]) -> Vec<String> {
        let path = |depth: &u32| PathDelta::with_instructions(*depth, "f", 0, 0);
        branches(&depths.iter().map(path).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_leads_to_each_of_several_and_to_none_that_is_alone() {
        let several = drawn(&[0, 1, 2, 3, 3, 4, 2, 3]);
        assert_eq!(several, ["", "", "├ ", "│ ├ ", "│ └ ", "│   ", "└ ", "  "]);
        // Several that nothing calls.
        assert_eq!(drawn(&[0, 1, 0]), ["├ ", "│ ", "└ "]);
        // The end of a chain and what comes next below its caller's caller.
        assert_eq!(drawn(&[0, 1, 2, 1]), ["", "├ ", "│ ", "└ "]);
    }

    #[test]
    fn a_list_that_ktax_did_not_write_is_no_panic() {
        assert_eq!(drawn(&[7, 4_000_000_000, 0]), ["├ ", "│ ", "└ "]);
        assert_eq!(drawn(&[]), [""; 0]);
    }
}
