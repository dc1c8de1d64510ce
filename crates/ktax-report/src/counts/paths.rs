//! Tables of call paths: the paths that carry a delta, and all costs of a row.

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

const PATHS_MEANING: &str = "Each function is below its caller; if a caller has several callees, a \
                             line leads to each. Deltas are per operation and include callees. \
                             Paths with less than 1 % of the row's delta are left out. If the \
                             compiler inlined a function on one side only, the functions that it \
                             calls are below its caller on both sides.";

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
            insn.drop_order(0);
            columns.number("delta spin-wait", |(path, _)| delta(&path.wait));
        } else {
            columns.number("delta REP", |(path, _)| delta(&path.rep_iterations)).drop_order(0);
        }
        columns
            .number("base calls", |(path, _)| number::count(per_op(path.calls.base)))
            .drop_order(1);
        columns.number("change calls", |(path, _)| number::count(per_op(path.calls.change)));
        columns.name("function", |(path, branch)| format!("{branch}{}", path.function));
        let title = format!("Call paths of {} that changed:", row.row);
        columns.table().with_note(title, PATHS_MEANING)
    })
}

/// Returns the paths with at least [`LITTLE_OF_DELTA_PERCENT`] of the row's delta.
fn moved_paths(effect: &Effect) -> Vec<PathDelta> {
    let carried = CountKind::from_effect(effect);
    let size = |path: &PathDelta| {
        carried.path_counts(path).map_or(0, |Sides { base, change }| base.abs_diff(*change))
    };
    let delta = effect.counts().map_or(0, |Sides { base, change }| base.abs_diff(change));
    let min_size = delta.saturating_mul(MIN_DELTA_SHARE_PERCENT);
    prune_paths(&effect.paths, |path| size(path).saturating_mul(100) >= min_size.max(1))
}

/// Share of the row's delta, in percent, below which a path is not named.
const MIN_NAMED_PERCENT: f64 = 20.0;
/// Maximum number of paths that are named.
const MAX_PATHS: usize = 2;
/// Number of functions in the name of a path.
const NAMED_FUNCTIONS: usize = 3;

/// Returns the paths that carry most. A path's delta does not include callees that have at least
/// [`MIN_NAMED_PERCENT`] themselves. Paths that only one side takes because the CPU lacks a feature
/// come last.
pub fn largest_paths(effect: &Effect, ops: u64) -> Vec<PathLine> {
    let carried = CountKind::from_effect(effect);
    let Some(total) = effect.counts() else { return Vec::new() };
    let delta = |counts: &Sides<u64>| counts.change as f64 - counts.base as f64;
    let path_delta = |path: &PathDelta| carried.path_counts(path).map_or(0.0, delta);
    let share = |part: f64| share_percent(part, delta(&total));
    let paths = prune_paths(&effect.paths, |path| share(path_delta(path)) >= MIN_NAMED_PERCENT);
    let callers = callers(&paths);
    let mut own_deltas: Vec<f64> = paths.iter().map(path_delta).collect();
    for (path, caller) in paths.iter().zip(&callers) {
        caller.iter().for_each(|caller| own_deltas[*caller] -= path_delta(path));
    }
    let mut named: Vec<usize> = (0..paths.len()).collect();
    named.retain(|index| share(own_deltas[*index]) >= MIN_NAMED_PERCENT);
    let lacking = |index: usize| effect.missing_feature(&paths[index].function);
    named.sort_by(|one, other| {
        let is_last = |index: &usize| lacking(*index).is_some();
        let by_share = share(own_deltas[*other]).total_cmp(&share(own_deltas[*one]));
        is_last(one).cmp(&is_last(other)).then(by_share)
    });
    named.truncate(MAX_PATHS);
    let stacks: Vec<Vec<&str>> =
        named.iter().map(|index| path_names(&paths, &callers, *index)).collect();
    let line = |(index, stack): (&usize, &Vec<&str>)| PathLine {
        path: stack_name(stack, &stacks),
        delta: own_deltas[*index] / ops.max(1) as f64,
        share_percent: share(own_deltas[*index]),
        lacking: lacking(*index),
    };
    named.iter().zip(&stacks).map(line).collect()
}

/// Names a stack by its last functions. If another stack in `all` has the same last functions, the
/// name begins with the function at which the two differ: `alloc_a → … → memset → erms`.
fn stack_name(stack: &[&str], all: &[Vec<&str>]) -> String {
    let end = |stack: &[&str]| stack[stack.len().saturating_sub(NAMED_FUNCTIONS)..].join(" → ");
    let (name, same_end) =
        (end(stack), all.iter().filter(|other| *other != stack && end(other) == end(stack)));
    let difference =
        |other: &Vec<&str>| stack.iter().zip(other).position(|(one, other)| one != other);
    match same_end.filter_map(difference).max().and_then(|index| stack.get(index)) {
        Some(function) => format!("{function} → … → {name}"),
        None => name,
    }
}

/// Share of the row, in percent, below which a function is summed up with others if both sides are
/// below it.
const MIN_FUNCTION_PERCENT: f64 = 0.5;
/// Share of the row, in percent, below which a path is left out with its callees if both sides are
/// below it.
const MIN_PATH_PERCENT: f64 = 1.0;
/// REP iterations (and waits), in percent of the instructions, below which they have no tables.
const MIN_KIND_PERCENT: f64 = 1.0;

const COST_PATHS_MEANING: &str = "Each function is below its caller; if a caller has several \
                                  callees, a line leads to each. Counts include callees. Paths \
                                  with less than 1 % of the row on both sides are left out.";

/// Tables of all costs of a row, changed or not, by function and by call path: of instructions, and
/// of REP iterations and waits if these are at least [`MIN_KIND_PERCENT`] of the instructions.
pub fn row_costs(paths: &RowPaths) -> Vec<Section> {
    let paths_in = |context: &Context| paths.contexts.get(context).map_or(&[][..], Vec::as_slice);
    let context_costs = |context: &Context| {
        let context_paths = paths_in(context);
        let insn = top_counts(CountKind::Instructions, context_paths);
        let is_shown = |by: &CountKind| {
            let counts = top_counts(*by, context_paths);
            let share = |side: Side| percent(*counts.get(side), *insn.get(side));
            Side::BOTH.into_iter().any(|side| share(side) >= MIN_KIND_PERCENT)
        };
        let others = [CountKind::Rep, CountKind::Wait].into_iter().filter(is_shown);
        let kinds = [CountKind::Instructions].into_iter().chain(others);
        let tables = kinds.map(|by| ContextCosts {
            row: paths,
            context: *context,
            paths: context_paths,
            by,
        });
        tables.flat_map(|costs| [costs.functions(), costs.paths()]).collect::<Vec<_>>()
    };
    let decides = |context: &&Context| context.is_deciding() && !paths_in(context).is_empty();
    Context::ALL.iter().filter(decides).flat_map(context_costs).collect()
}

/// Costs of one kind in one context of a row.
struct ContextCosts<'a> {
    row: &'a RowPaths,
    context: Context,
    paths: &'a [PathDelta],
    by: CountKind,
}

/// Returns the sum over the functions without a caller, which includes all their callees.
pub fn top_counts(by: CountKind, paths: &[PathDelta]) -> Sides<u64> {
    let top = paths.iter().filter(|path| path.depth == 0).filter_map(|path| by.path_counts(path));
    top.fold(Sides::default(), |sum, counts| sum_counts(&sum, counts))
}

fn sum_counts(one: &Sides<u64>, other: &Sides<u64>) -> Sides<u64> {
    Sides::from_fn(|side| one.get(side).saturating_add(*other.get(side)))
}

fn percent(part: u64, total: u64) -> f64 {
    share_percent(part as f64, total.max(1) as f64)
}

impl ContextCosts<'_> {
    fn title(&self, grouping: &str) -> String {
        let RowPaths { row, operation, .. } = self.row;
        let context = match self.context {
            Context::Process => String::new(),
            other => format!(" of {}", other.words()),
        };
        let unit = self.by.unit();
        format!("Costs of {row}, {unit} per operation ({operation}){context}, {grouping}:")
    }

    /// Begins a table with the columns of counts and shares.
    fn columns<'l, L: Copy>(
        &self,
        lines: &'l [L],
        counts: impl Fn(L) -> Sides<u64>,
    ) -> Columns<'l, L> {
        let unit = self.by.head();
        let total = top_counts(self.by, self.paths);
        let mut columns = Columns::new(lines);
        for side in Side::BOTH {
            let per_op = |line| number::per_op(*counts(line).get(side), self.row.ops);
            let head = format!("{} {unit}", side.name());
            columns.number(&head, |line| number::count(per_op(line)));
        }
        for side in Side::BOTH {
            let share = |line| percent(*counts(line).get(side), *total.get(side));
            let head = format!("{} %", side.name());
            columns.number(&head, |line| number::with_decimals(share(line), 2, false));
        }
        columns.set_drop_groups([&[2], &[0]]);
        columns
    }

    /// Tells whether counts are at least this share of the row on any side.
    fn is_at_least(&self, counts: &Sides<u64>, min_percent: f64) -> bool {
        let total = top_counts(self.by, self.paths);
        let share = |side| percent(*counts.get(side), *total.get(side));
        Side::BOTH.into_iter().any(|side| share(side) >= min_percent)
    }

    /// Table of functions with counts without callees. The lines add up to the row.
    fn functions(&self) -> Section {
        let mut functions: BTreeMap<&str, Sides<u64>> = BTreeMap::new();
        for (path, own) in self.paths.iter().zip(own_counts(self.paths)) {
            let sum = functions.entry(&path.function).or_default();
            *sum = sum_counts(sum, self.by.own_counts(&own));
        }
        functions.retain(|_, counts| *counts != Sides::default());
        let is_large = |counts: &Sides<u64>| self.is_at_least(counts, MIN_FUNCTION_PERCENT);
        let (mut large, small): (Vec<_>, Vec<_>) =
            functions.into_iter().partition(|(_, counts)| is_large(counts));
        // A stable sort: functions with equal counts stay in the order of their names.
        large.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.base.max(counts.change)));
        let rest = small.iter().fold(Sides::default(), |sum, (_, counts)| sum_counts(&sum, counts));
        let name = format!("… {}", counted(small.len(), "more function"));
        let lines = large.iter().map(|(name, counts)| (*name, counts));
        let lines: Vec<(&str, &Sides<u64>)> =
            lines.chain((!small.is_empty()).then_some((name.as_str(), &rest))).collect();
        let mut columns = self.columns(&lines, |(_, counts)| counts.clone());
        columns.name("function", |(name, _)| name);
        columns.table().with_title(self.title("by function"))
    }

    /// Table of call paths with counts that include callees.
    fn paths(&self) -> Section {
        let is_large = |path: &PathDelta| {
            self.by
                .path_counts(path)
                .is_some_and(|counts| self.is_at_least(counts, MIN_PATH_PERCENT))
        };
        let kept = prune_paths(self.paths, is_large);
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
        columns.set_drop_groups([&[4], &[2], &[0]]);
        columns.table().with_note(self.title("by call path"), COST_PATHS_MEANING)
    }
}

/// Returns the tree prefix of each function. A function that is its caller's only callee is not
/// indented, so that a chain of calls takes no width. To each of several callees a line leads.
fn branches(paths: &[PathDelta]) -> Vec<String> {
    let callers = callers(paths);
    // Entry 0 is for functions without a caller.
    let entry = |caller: Option<usize>| caller.map_or(0, |index| index + 1);
    // Number of callees without a prefix yet, by caller.
    let mut pending = vec![0; paths.len() + 1];
    callers.iter().for_each(|caller| pending[entry(*caller)] += 1);
    let has_one_callee: Vec<bool> = pending.iter().map(|count| *count == 1).collect();
    // Prefix of the callees, by caller.
    let mut callee_prefix = vec![String::new(); paths.len() + 1];
    let mut branches = Vec::with_capacity(paths.len());
    for (index, caller) in callers.iter().enumerate() {
        let caller = entry(*caller);
        pending[caller] -= 1;
        let (own, callees) = match (has_one_callee[caller], pending[caller]) {
            (true, _) => ("", ""),
            (false, 0) => ("└ ", "  "),
            (false, _) => ("├ ", "│ "),
        };
        callee_prefix[index + 1] = format!("{}{callees}", callee_prefix[caller]);
        branches.push(format!("{}{own}", callee_prefix[caller]));
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
    fn callers_with_large_own_deltas_are_named_with_their_callees() {
        let effect = effect(&[
            (0, "stat", 1000, 1100),
            (1, "alloc", 100, 200),
            (2, "memset", 0, 35),
            (3, "erms", 0, 30),
            (2, "other", 50, 55),
            (1, "walk", 500, 500),
        ]);
        let lines = largest_paths(&effect, 10);
        let texts: Vec<(&str, f64, f64)> =
            lines.iter().map(|line| (line.path.as_str(), line.delta, line.share_percent)).collect();
        assert_eq!(texts, [("stat → alloc", 6.5, 65.0), ("alloc → memset → erms", 3.0, 30.0)]);
    }

    #[test]
    fn paths_of_missing_cpu_features_are_named_last() {
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
            found.map(|line| (line.path, line.lacking)).collect::<Vec<_>>()
        };
        let slow = "stat → memset_orig".to_owned();
        let walk = ("stat → walk".to_owned(), None);
        // Without the function's counts, ktax cannot know that only one side executes it.
        assert_eq!(named(&effect), [(slow.clone(), None), walk.clone()]);
        effect.functions = vec![function];
        assert_eq!(named(&effect), [walk, (slow, Some("FSRS"))]);
    }

    #[test]
    fn names_of_stacks_with_the_same_end_differ() {
        let one = vec!["open", "create", "alloc_a", "alloc", "memset", "erms"];
        let other = vec!["open", "create", "alloc_b", "alloc", "memset", "erms"];
        let all = [one.clone(), other.clone()];
        assert_eq!(stack_name(&one, &all), "alloc_a → … → alloc → memset → erms");
        assert_eq!(stack_name(&other, &all), "alloc_b → … → alloc → memset → erms");
        assert_eq!(stack_name(&one, &all[..1]), "alloc → memset → erms");
        // The first stack begins at a deeper function.
        assert_eq!(stack_name(&one[2..], &all[1..]), "alloc_a → … → alloc → memset → erms");
    }

    fn prefixes(depths: &[u32]) -> Vec<String> {
        let path = |depth: &u32| PathDelta::with_instructions(*depth, "f", 0, 0);
        branches(&depths.iter().map(path).collect::<Vec<_>>())
    }

    #[test]
    fn lines_lead_to_several_callees_and_not_to_a_single_callee() {
        let several = prefixes(&[0, 1, 2, 3, 3, 4, 2, 3]);
        assert_eq!(several, ["", "", "├ ", "│ ├ ", "│ └ ", "│   ", "└ ", "  "]);
        // Two functions without a caller.
        assert_eq!(prefixes(&[0, 1, 0]), ["├ ", "│ ", "└ "]);
        // A chain of two calls, and another callee of the first function.
        assert_eq!(prefixes(&[0, 1, 2, 1]), ["", "├ ", "│ ", "└ "]);
    }

    #[test]
    fn inconsistent_depths_do_not_panic() {
        assert_eq!(prefixes(&[7, 4_000_000_000, 0]), ["├ ", "│ ", "└ "]);
        assert_eq!(prefixes(&[]), [""; 0]);
    }
}
