//! Call paths: the callers of functions that carry a delta, and the stacks in which CPUs waited.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter::Peekable;
use std::mem;

use super::functions::{both_sides, nonzero_counts, plain};
use super::runs::{CountsRuns, Pair, missing_step, side_scale};
use ktax_model::{
    Basic, COUNTERS, Context, Costly, Counter, Counts, CountsEvidence, Effect,
    MIN_DELTA_SHARE_PERCENT, Metric, Path, PathDelta, Profile, ProfileLine, Result, Row, RowPaths,
    Side, Sides, WaitStack, Workload,
};

/// Minimum share of the row that a path needs on one Side to get a bar in the picture, per mille.
const MIN_BAR_PER_MILLE: u64 = 5;

/// Paths whose delta or share is large enough for a line or a bar. Callees are sorted by the size
/// of their delta.
pub(super) fn path_deltas(base: &Profile, change: &Profile, metric: &Metric) -> Vec<PathDelta> {
    let root = CallNode::from_profiles(base, change, metric.context).without_inlined();
    let threshold = PathThreshold {
        delta: root.delta_size(metric) * MIN_DELTA_SHARE_PERCENT,
        // Costly instructions have no picture.
        share: metric.costly().map_or(root.larger_count(metric) * MIN_BAR_PER_MILLE, |_| u64::MAX),
    };
    let mut deltas = Vec::new();
    if threshold.delta > 0 {
        root.list(0, metric.costly().as_slice(), &mut deltas, &mut |callees| {
            callees.retain(|(_, node)| threshold.is_met(node, metric));
            callees.sort_by_key(|(_, node)| std::cmp::Reverse(node.delta_size(metric)));
        });
    }
    deltas
}

/// Thresholds of a path.
struct PathThreshold {
    /// Smallest delta, times 100.
    delta: u64,
    /// Smallest count on one Side, times 1000.
    share: u64,
}

impl PathThreshold {
    fn is_met(&self, node: &CallNode, metric: &Metric) -> bool {
        node.delta_size(metric).saturating_mul(100) >= self.delta
            || node.larger_count(metric).saturating_mul(1000) >= self.share
    }
}

/// All call paths of a row in all Contexts, under the Layout of the Effect. `is_compared` moves the
/// callees of inlined functions, so that the Sides can be compared.
pub fn row_paths(
    runs: &dyn CountsRuns,
    row: &Row,
    effect: &Effect,
    is_compared: bool,
) -> Result<RowPaths> {
    let layout = effect.layout;
    let step_of = |side: Side| {
        let mut steps = runs.plan().method.steps.iter();
        let found = steps.find(|step| step.layout == layout && step.side == side);
        found.ok_or_else(|| missing_step(layout, side))
    };
    let operations = row.counts().and_then(|counts| counts.operations.as_ref());
    let [base, change] = Side::BOTH.map(|side| -> Result<Profile> {
        let profile = runs.profile(step_of(side)?, &row.row)?;
        Ok(side_scale(operations, side, row.ops).profile(profile))
    });
    let (base, change) = (base?, change?);
    let paths_of_context = |context: Context| {
        let mut paths = Vec::new();
        let size =
            |node: &CallNode| node.counts.base.executed().abs_diff(node.counts.change.executed());
        let root = CallNode::from_profiles(&base, &change, context);
        let root = if is_compared { root.without_inlined() } else { root };
        // The sort is stable, so equal differences stay in the order of their names.
        root.list(0, &Costly::ALL, &mut paths, &mut |callees| {
            callees.sort_by_key(|(_, node)| std::cmp::Reverse(size(node)));
        });
        (!paths.is_empty()).then_some((context, paths))
    };
    Ok(RowPaths {
        row: row.row.clone(),
        ops: row.ops,
        operation: row.operation.clone(),
        metric: effect.metric.clone(),
        spread: effect.spread,
        contexts: Context::ALL.into_iter().filter_map(paths_of_context).collect(),
    })
}

/// Name that the plugin gives to all user mode.
const USER: &str = "[user]";

/// Returns true if a profile's line is of a program or a library.
fn is_of_program(function: &str) -> bool {
    function.starts_with('[') && ![USER, "[kernel]", "[unknown]"].contains(&function)
}

/// Counts of a function without those that call paths do not have: idle time, which is a path
/// itself, transfers and modelled events.
fn path_counts(counts: &Counts) -> Counts {
    let mut counts = *counts;
    for row in COUNTERS {
        if let Counter::Basic(Basic::Idle | Basic::Transfers) | Counter::Modelled(_) = row.counter {
            counts[row.counter] = 0;
        }
    }
    counts
}

/// Returns true if no count of the sum is above that of the total.
fn fits_in(sum: &Counts, total: &Counts) -> bool {
    COUNTERS.iter().all(|row| sum[row.counter] <= total[row.counter])
}

/// A function on a call path, with its callees.
#[derive(Default)]
struct CallNode {
    calls: Sides<u64>,
    /// Counts of this function and of its callees.
    pub(super) counts: Sides<Counts>,
    /// Boxed for small stack frames: profiles, and so the recursion over them, may be a thousand
    /// calls deep.
    callees: BTreeMap<String, Box<CallNode>>,
}

impl CallNode {
    /// Builds the tree of both profiles. The callees of the root are the functions without a
    /// caller.
    fn from_profiles(base: &Profile, change: &Profile, context: Context) -> CallNode {
        let mut root = CallNode::default();
        for (side, profile) in [(Side::Base, base), (Side::Change, change)] {
            let is_in_context = |path: &&Path| path.context == context;
            root.add_callees(0, side, &mut profile.paths.iter().filter(is_in_context).peekable());
            root.split_user(side, profile, context);
        }
        root
    }

    /// Adds the functions of programs and libraries as callees of `[user]`: the plugin does not
    /// follow calls in user mode.
    fn split_user(&mut self, side: Side, profile: &Profile, context: Context) {
        let Some(user) = self.callees.get_mut(USER) else { return };
        let lines: Vec<&ProfileLine> = profile
            .lines
            .iter()
            .filter(|line| line.context == context && is_of_program(&line.function))
            .collect();
        let mut sum = Counts::default();
        lines.iter().for_each(|line| sum += &path_counts(&line.counts));
        // With several vCPUs, the plugin sometimes counts for the wrong vCPU, and the sum of the
        // functions is above that of user mode.
        if !fits_in(&sum, user.counts.get(side)) {
            return;
        }
        for line in lines {
            let node = CallNode::new_boxed(side, 0, &path_counts(&line.counts));
            user.add(plain(&line.function).to_owned(), node);
        }
    }

    /// Makes a node with the counts of one Side. Not inlined, because its temporaries would be in
    /// each frame of the recursion.
    #[inline(never)]
    fn new_boxed(side: Side, calls: u64, counts: &Counts) -> Box<CallNode> {
        let mut node = Box::<CallNode>::default();
        *node.calls.get_mut(side) = calls;
        *node.counts.get_mut(side) = *counts;
        node
    }

    /// Adds the next paths of this depth, with their callees.
    fn add_callees<'a>(
        &mut self,
        depth: u32,
        side: Side,
        paths: &mut Peekable<impl Iterator<Item = &'a Path>>,
    ) {
        while let Some(path) = paths.next_if(|path| path.depth == depth) {
            let mut callee = CallNode::new_boxed(side, path.calls, &path.counts);
            callee.add_callees(depth + 1, side, paths);
            *self.counts.get_mut(side) += callee.counts.get(side);
            self.add(plain(&path.function).to_owned(), callee);
        }
    }

    /// Adds a callee, or merges it with the callee of this name.
    fn add(&mut self, function: String, mut node: Box<CallNode>) {
        match self.callees.entry(function) {
            Entry::Vacant(entry) => drop(entry.insert(node)),
            Entry::Occupied(mut entry) => entry.get_mut().merge(&mut node),
        }
    }

    /// Adds the counts and the callees of another node of this function.
    fn merge(&mut self, other: &mut CallNode) {
        for side in Side::BOTH {
            *self.calls.get_mut(side) += other.calls.get(side);
            *self.counts.get_mut(side) += other.counts.get(side);
        }
        for (function, node) in mem::take(&mut other.callees) {
            self.add(function, node);
        }
    }

    /// Moves the callees of inlined functions to their callers, for comparisons. A function counts
    /// as inlined if only one Side calls it, and most of its callees' work is done by callees of
    /// its caller on the other Side.
    fn without_inlined(mut self) -> CallNode {
        self.lift_inlined();
        self
    }

    fn lift_inlined(&mut self) {
        let is_inlined = |node| Side::BOTH.into_iter().any(|side| self.has_inlined(node, side));
        let inlined = self.callees.iter().filter(|(_, node)| is_inlined(node));
        let inlined: Vec<String> = inlined.map(|(function, _)| function.clone()).collect();
        let mut moved = Vec::new();
        for function in inlined {
            let Some(node) = self.callees.get_mut(&function) else { continue };
            for (function, callee) in mem::take(&mut node.callees) {
                for side in Side::BOTH {
                    *node.counts.get_mut(side) -= callee.counts.get(side);
                }
                moved.push((function, callee));
            }
        }
        for (function, callee) in moved {
            self.add(function, callee);
        }
        self.callees.values_mut().for_each(|node| node.lift_inlined());
    }

    /// Returns true if a callee on one Side is inlined into this function on the other Side.
    fn has_inlined(&self, node: &CallNode, side: Side) -> bool {
        if node.is_called(side.other()) {
            return false;
        }
        let executed = |node: &CallNode, side: Side| node.counts.get(side).executed();
        // Work of the same callee of this function on the other Side alone, at most the callee's.
        let found_here = |function: &String, callee: &CallNode| {
            let same_callee = self.callees.get(function).filter(|node| !node.is_called(side));
            same_callee.map_or(0, |node| executed(node, side.other()).min(executed(callee, side)))
        };
        let (mut total, mut found) = (0_u64, 0_u64);
        for (function, callee) in &node.callees {
            total = total.saturating_add(executed(callee, side));
            found = found.saturating_add(found_here(function, callee));
        }
        found > total / 2
    }

    /// Returns true if a Side calls the function or has counts of it.
    fn is_called(&self, side: Side) -> bool {
        *self.calls.get(side) > 0 || *self.counts.get(side) != Counts::default()
    }

    /// Absolute difference between the Sides.
    fn delta_size(&self, metric: &Metric) -> u64 {
        metric.count(&self.counts.base).abs_diff(metric.count(&self.counts.change))
    }

    /// Larger count of both Sides.
    fn larger_count(&self, metric: &Metric) -> u64 {
        metric.count(&self.counts.base).max(metric.count(&self.counts.change))
    }

    /// Delta of this function. Not inlined, because its temporaries would be in each frame of the
    /// recursion.
    #[inline(never)]
    fn path_delta(&self, depth: u32, function: &str, kinds: &[Costly]) -> PathDelta {
        let both = |counter: Basic| both_sides(&self.counts, counter);
        PathDelta {
            depth,
            function: function.to_owned(),
            calls: self.calls.clone(),
            instructions: both(Basic::Instructions),
            rep_iterations: both(Basic::RepIterations),
            costly: nonzero_counts(kinds.iter().copied(), &self.counts),
            wait: both(Basic::Wait),
            idle: both(Basic::Idle),
        }
    }

    /// Lists all paths below this one, with costly instructions of these kinds. `select` filters
    /// and sorts the callees of one caller.
    fn list<'a>(
        &'a self,
        depth: u32,
        kinds: &[Costly],
        deltas: &mut Vec<PathDelta>,
        select: &mut impl FnMut(&mut Vec<(&'a String, &'a CallNode)>),
    ) {
        let mut callees: Vec<(&String, &CallNode)> =
            self.callees.iter().map(|(function, node)| (function, &**node)).collect();
        select(&mut callees);
        for (function, node) in callees {
            deltas.push(node.path_delta(depth, function, kinds));
            node.list(depth + 1, kinds, deltas, select);
        }
    }
}

/// Maximum number of stacks that are kept, those with the longest waits.
const MAX_STACKS: usize = 40;

/// Waits and idle time of several CPUs, from one pair of Runs.
pub(super) fn waits(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pair: &Pair,
) -> Result<CountsEvidence> {
    let profiles = Sides::try_from_fn(|side| runs.profile(pair.steps.get(side), &workload.row))?;
    let lines = |side| profiles.get(side).lines.as_slice();
    let waits = Sides::from_fn(|side| sums_by_function(lines(side), |counts| counts[Basic::Wait]));
    let executed = Sides::from_fn(|side| {
        let mut executed = sums_by_function(lines(side), Counts::executed);
        executed.retain(|function, _| {
            Side::BOTH.iter().any(|side| waits.get(*side).contains_key(function))
        });
        executed
    });
    let cpu_time = Sides::from_fn(|side| {
        let parallel = pair.samples.get(side).parallel.as_ref();
        parallel.map(|parallel| parallel.sum()).unwrap_or_default()
    });
    Ok(CountsEvidence {
        waits: Some(waits),
        waiting_functions_work: Some(executed),
        cpu_time: Some(cpu_time),
        wait_stacks: stacks(&profiles, Basic::Wait),
        idle_stacks: stacks(&profiles, Basic::Idle),
        ..CountsEvidence::default()
    })
}

/// Sums by function over all Contexts; functions with a sum of 0 are left out.
fn sums_by_function(
    lines: &[ProfileLine],
    count: impl Fn(&Counts) -> u64,
) -> BTreeMap<String, u64> {
    let mut functions: BTreeMap<String, u64> = BTreeMap::new();
    for line in lines.iter().filter(|line| count(&line.counts) > 0) {
        *functions.entry(plain(&line.function).to_owned()).or_default() += count(&line.counts);
    }
    functions
}

/// Stacks with the largest count on either Side, the largest first.
fn stacks(profiles: &Sides<Profile>, counter: Basic) -> Vec<WaitStack> {
    let mut found: BTreeMap<Vec<&str>, Sides<u64>> = BTreeMap::new();
    for side in Side::BOTH {
        let mut callers: Vec<&str> = Vec::new();
        for path in &profiles.get(side).paths {
            callers.truncate(path.depth as usize);
            callers.push(plain(&path.function));
            if path.counts[counter] > 0 {
                let sum = found.entry(callers.iter().rev().copied().collect()).or_default();
                let sum = sum.get_mut(side);
                *sum = sum.saturating_add(path.counts[counter]);
            }
        }
    }
    let mut found: Vec<(Vec<&str>, Sides<u64>)> = found.into_iter().collect();
    // The sort is stable, so equal stacks stay in the order of their names.
    found.sort_by_key(|(_, wait)| std::cmp::Reverse(wait.base.max(wait.change)));
    found.truncate(MAX_STACKS);
    let stack = |(functions, wait): (Vec<&str>, Sides<u64>)| WaitStack {
        functions: functions.into_iter().map(str::to_owned).collect(),
        wait,
    };
    found.into_iter().map(stack).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::METRICS;

    fn profile(paths: &[(u32, &str, u64, u64)]) -> Profile {
        let path = |(depth, function, calls, instructions): &(u32, &str, u64, u64)| Path {
            context: Context::Process,
            depth: *depth,
            function: (*function).to_owned(),
            calls: *calls,
            counts: Counts::from_instructions(*instructions, 0),
        };
        Profile { paths: paths.iter().map(path).collect(), ..Profile::default() }
    }

    fn listed(base: &[(u32, &str, u64, u64)], change: &[(u32, &str, u64, u64)]) -> Vec<String> {
        let deltas = path_deltas(&profile(base), &profile(change), &METRICS[0]);
        let text = |path: &PathDelta| {
            let delta = path.instructions.change as i64 - path.instructions.base as i64;
            let calls = path.calls.change as i64 - path.calls.base as i64;
            format!("{}{} {delta:+} {calls:+}", "-".repeat(path.depth as usize), path.function)
        };
        deltas.iter().map(text).collect()
    }

    #[test]
    fn a_new_function_is_found_below_each_caller() {
        let base = [(0, "entry", 1, 10), (1, "write", 1, 50), (1, "read", 1, 40)];
        let change = [
            (0, "entry", 1, 10),
            (1, "read", 1, 41),
            (2, "hook", 2, 8),
            (1, "write", 1, 50),
            (2, "hook", 1, 4),
        ];
        let expected =
            ["entry +13 +0", "-read +9 +0", "--hook +8 +2", "-write +4 +0", "--hook +4 +1"];
        assert_eq!(listed(&base, &change), expected);
        // A removed function is found too.
        assert_eq!(listed(&change, &base)[2], "--hook -8 -2");
    }

    #[test]
    fn callees_of_an_inlined_function_are_compared_with_those_of_its_caller() {
        let base = [
            (0, "fork", 1, 90),
            (1, "dup", 1, 20),
            (2, "copy", 4, 500),
            (3, "alloc", 4, 90),
            (2, "free", 1, 30),
        ];
        let change = [(0, "fork", 1, 130), (1, "copy", 4, 540), (2, "alloc", 4, 90)];
        let expected =
            ["fork +30 +0", "-copy +40 +0", "--alloc +0 +0", "-free -30 -1", "-dup -20 -1"];
        assert_eq!(listed(&base, &change), expected);
        assert_eq!(listed(&change, &base)[1], "-copy -40 +0");
        // If the caller called the callee before, or does little of the callee's work, the function
        // is new and was not inlined.
        let before = [&base[..], &[(1, "copy", 1, 10)]].concat();
        assert_eq!(listed(&before, &change)[1], "-dup -640 -1");
        let little = [(0, "fork", 1, 130), (1, "free", 1, 30)];
        assert_eq!(listed(&base, &little)[1], "-dup -640 -1");
        // A caller that calls the same function on both Sides has not inlined it.
        let one = [(0, "fork", 1, 90), (1, "copy", 1, 9), (1, "new", 1, 20), (2, "copy", 4, 500)];
        let one = listed(&base, &one);
        assert!(
            ["-dup -640 -1", "-new +520 +1"]
                .iter()
                .all(|wanted| one.iter().any(|line| line == wanted))
        );
    }

    #[test]
    fn paths_are_symmetric_in_base_and_change() {
        let base = [(0, "p", 1, 5), (1, "b", 1, 10), (2, "n", 1, 300)];
        let change = [(0, "p", 1, 5), (1, "n", 1, 300), (1, "a", 1, 5), (2, "b", 1, 10)];
        let forward = listed(&base, &change);
        let backward = listed(&change, &base);
        assert_eq!(forward, ["p +5 +0", "-a +5 +1", "-b +0 +0", "-n +0 +0"]);
        assert_eq!(backward, ["p -5 +0", "-a -5 -1", "-b +0 +0", "-n +0 +0"]);
    }

    #[test]
    fn a_profile_of_1000_calls_depth_is_listed() {
        let deep: Vec<_> = (0..1000).map(|depth| (depth, "f", 1, 1)).collect();
        let listed = listed(&deep, &[(0, "f", 1, 1)]);
        assert_eq!(listed[0], "f -999 +0");
    }

    #[test]
    fn a_wide_path_with_a_small_delta_is_listed() {
        let base = [(0, "entry", 1, 1000), (1, "wide", 1, 200), (1, "narrow", 1, 3)];
        let change = [(0, "entry", 1, 1300), (1, "wide", 1, 202), (1, "narrow", 1, 5)];
        assert_eq!(listed(&base, &change), ["entry +304 +0", "-wide +2 +0"]);
    }

    #[test]
    fn compiler_suffixes_do_not_make_another_path() {
        let base = [(0, "entry", 1, 10), (1, "write.isra.0", 1, 50)];
        let change = [(0, "entry", 1, 10), (1, "write", 1, 55)];
        assert_eq!(listed(&base, &change), ["entry +5 +0", "-write +5 +0"]);
        assert_eq!(listed(&base, &base), [""; 0]);
    }

    fn path(depth: u32, function: &str, wait: u64) -> Path {
        Path {
            context: Context::Process,
            depth,
            function: function.to_owned(),
            calls: 1,
            counts: Counts::single(Basic::Wait, wait),
        }
    }

    #[test]
    fn wait_stacks_have_callers_and_merge_clones() {
        let paths = vec![
            path(0, "entry", 0),
            path(1, "alloc_fd", 0),
            path(2, "slowpath", 70),
            path(1, "close_fd", 0),
            path(2, "slowpath.isra.0", 20),
            path(2, "slowpath", 5),
        ];
        let base = Profile { paths, ..Profile::default() };
        let found = stacks(&Sides { base, change: Profile::default() }, Basic::Wait);
        let listed: Vec<(String, u64)> =
            found.iter().map(|stack| (stack.functions.join(" < "), stack.wait.base)).collect();
        let expected = [("slowpath < alloc_fd < entry", 70), ("slowpath < close_fd < entry", 25)];
        assert_eq!(listed, expected.map(|(stack, wait)| (stack.to_owned(), wait)));
    }
}
