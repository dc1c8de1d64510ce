//! From where functions are called, on both Sides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Context, Costly, Sides};

/// A place whose delta is a smaller share of the row's, in percent, is not worth a line. A function
/// that a compiler moved into its caller is less there and more above, so that their common caller
/// is no such place.
pub const LITTLE_OF_DELTA_PERCENT: u64 = 1;

/// A function below the one that calls it, and what both Sides execute there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathDelta {
    /// How many functions it is below: those before it in its list.
    pub depth: u32,
    /// The symbol without the compiler's suffixes.
    pub function: String,
    /// How often it was called there in the Region, each Side.
    pub calls: Sides<u64>,
    /// Instructions in the Region with those of all below it, each Side.
    pub instructions: Sides<u64>,
    /// REP iterations in the same way.
    pub rep_iterations: Sides<u64>,
    /// Costly instructions in the same way; of an Effect only those that it is of.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// Of several CPUs, in the same way: what they waited for each other.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub wait: Sides<u64>,
    /// And what they were idle after their processes had left them there.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub idle: Sides<u64>,
}

fn is_nothing(counts: &Sides<u64>) -> bool {
    *counts == Sides::default()
}

/// Functions, each called by the next one, and how long CPUs wait in the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitStack {
    /// Where they wait first, then who called that.
    pub functions: Vec<String>,
    /// In instructions of the Region, each Side.
    pub wait: Sides<u64>,
}

/// All call paths of a row, of one pair of Runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RowPaths {
    /// The row.
    pub row: String,
    /// Operations in the Region.
    pub ops: u64,
    /// What one operation is.
    pub operation: String,
    /// The Metric that decided the row.
    pub metric: String,
    /// How far layouts lie apart in it, per operation.
    pub spread: f64,
    /// A caller, then all that it calls, those that differ most first.
    pub contexts: BTreeMap<Context, Vec<PathDelta>>,
}

/// What a function executes itself, without those that it calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Own {
    /// Instructions, each Side.
    pub instructions: Sides<u64>,
    /// REP iterations, each Side.
    pub rep_iterations: Sides<u64>,
    /// Costly instructions, each Side.
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// What CPUs waited there, each Side.
    pub wait: Sides<u64>,
    /// What they were idle for it, each Side.
    pub idle: Sides<u64>,
}

/// Where the caller of each stands in the list.
pub fn callers(paths: &[PathDelta]) -> Vec<Option<usize>> {
    let mut above: Vec<usize> = Vec::new();
    let caller = |(at, path): (usize, &PathDelta)| {
        // A file that ktax did not write may leave out a caller.
        above.truncate(path.depth as usize);
        let caller = above.last().copied();
        above.push(at);
        caller
    };
    paths.iter().enumerate().map(caller).collect()
}

/// A function's name and those of all above it, itself last.
pub fn stack<'a>(paths: &'a [PathDelta], callers: &[Option<usize>], at: usize) -> Vec<&'a str> {
    let above = std::iter::successors(Some(at), |at| callers[*at]);
    let mut functions: Vec<&str> = above.map(|at| paths[at].function.as_str()).collect();
    functions.reverse();
    functions
}

/// Those that are worth it and whose callers are.
pub fn without_below(paths: &[PathDelta], is_worth: impl Fn(&PathDelta) -> bool) -> Vec<PathDelta> {
    kept(paths, is_worth).into_iter().map(|at| paths[at].clone()).collect()
}

/// Where these stand in the list.
pub fn kept(paths: &[PathDelta], is_worth: impl Fn(&PathDelta) -> bool) -> Vec<usize> {
    let mut left_out = None;
    let is_kept = |(_, path): &(usize, &PathDelta)| {
        left_out = left_out.filter(|depth| path.depth > *depth);
        if left_out.is_none() && !is_worth(path) {
            left_out = Some(path.depth);
        }
        left_out.is_none()
    };
    paths.iter().enumerate().filter(is_kept).map(|(at, _)| at).collect()
}

/// What each executes itself, if all that it calls is in the list, too.
pub fn own(paths: &[PathDelta]) -> Vec<Own> {
    let all = |path: &PathDelta| Own {
        instructions: path.instructions.clone(),
        rep_iterations: path.rep_iterations.clone(),
        costly: path.costly.clone(),
        wait: path.wait.clone(),
        idle: path.idle.clone(),
    };
    let mut own: Vec<Own> = paths.iter().map(all).collect();
    for (path, caller) in paths.iter().zip(callers(paths)) {
        if let Some(caller) = caller {
            own[caller].instructions.less(&path.instructions);
            own[caller].rep_iterations.less(&path.rep_iterations);
            own[caller].wait.less(&path.wait);
            own[caller].idle.less(&path.idle);
            for (kind, counts) in &path.costly {
                own[caller].costly.entry(*kind).or_default().less(counts);
            }
        }
    }
    own
}

impl Sides<u64> {
    fn less(&mut self, other: &Sides<u64>) {
        self.base = self.base.saturating_sub(other.base);
        self.change = self.change.saturating_sub(other.change);
    }
}

impl PathDelta {
    /// A path that has counts of instructions alone.
    pub fn with_instructions(depth: u32, function: &str, base: u64, change: u64) -> PathDelta {
        let none = || Sides { base: 0, change: 0 };
        PathDelta {
            depth,
            function: function.to_owned(),
            calls: none(),
            instructions: Sides { base, change },
            rep_iterations: none(),
            costly: BTreeMap::new(),
            wait: none(),
            idle: none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(depth: u32, count: u64) -> PathDelta {
        let both = |count: u64| Sides { base: count, change: 2 * count };
        let costly = [(Costly::Locked, both(count))].into();
        let (function, calls) = ("f".to_owned(), both(1));
        let [instructions, none] = [both(count), both(0)];
        let (wait, idle) = (instructions.clone(), none.clone());
        PathDelta { depth, function, calls, instructions, rep_iterations: none, costly, wait, idle }
    }

    #[test]
    fn what_a_function_executes_itself_is_without_those_that_it_calls() {
        let paths = [path(0, 100), path(1, 30), path(2, 10), path(1, 20), path(0, 7)];
        assert_eq!(callers(&paths), [None, Some(0), Some(1), Some(0), None]);
        let own = own(&paths);
        assert_eq!(
            own.iter().map(|it| it.instructions.base).collect::<Vec<_>>(),
            [50, 20, 10, 20, 7]
        );
        assert_eq!(own[0].instructions.change, 100);
        assert_eq!(own[1].costly[&Costly::Locked].base, 20);
        assert_eq!((own[0].wait.base, own[2].wait.change), (50, 20));
    }

    #[test]
    fn a_list_that_ktax_did_not_write_is_no_panic() {
        assert_eq!(
            callers(&[path(7, 1), path(4_000_000_000, 1), path(0, 1)]),
            [None, Some(0), None]
        );
        assert_eq!(own(&[path(0, 1), path(1, 5)])[0].instructions.base, 0);
    }
}
