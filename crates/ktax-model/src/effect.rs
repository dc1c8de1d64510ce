//! Effects of Metrics: values of both Sides, the functions and call paths that carry a delta, and
//! slow ways that a kernel takes only on a CPU that lacks a feature.
//!
//! Kernels choose such ways by different features, so one version may take the slow way on a CPU on
//! which another one does not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Context, Costly, Modelled, Msr, Side, Sides, Verdict, is_default};

/// Difference of one Metric between the Sides, per operation, in the Metric's unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    pub metric: String,
    /// Value in the Layout with the median delta; `change` is from that Layout too, so `delta` is
    /// exact.
    pub base: f64,
    pub change: f64,
    /// `change - base`.
    pub delta: f64,
    /// `delta` in percent of `base`; absent where `base` is 0 and `delta` is not.
    pub percent: Option<f64>,
    /// Index of that Layout.
    pub layout: usize,
    /// Smallest and largest paired delta over the Layouts.
    pub delta_range: (f64, f64),
    /// Range of one Side's values over the Layouts: the larger of the two.
    pub spread: f64,
    /// Smallest delta, without its sign, that the rule would call a change: in the Verdict's
    /// direction, or in either. Absent with too few Layouts.
    pub detectable: Option<f64>,
    /// Raw region counts by Layout, for Layouts with both Sides.
    pub samples: Sides<Vec<u64>>,
    /// Verdict of this Metric alone.
    pub verdict: Verdict,
    /// Functions that carry the delta, the largest first; empty unless the Verdict is a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionDelta>,
    /// Call paths, a caller before its callees; empty unless the Verdict is a change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathDelta>,
}

impl Effect {
    /// Value of a Side, per operation.
    pub fn value(&self, side: Side) -> f64 {
        if side == Side::Base { self.base } else { self.change }
    }

    /// Raw counts in its Layout; `None` if a file has no such Layout.
    pub fn counts(&self) -> Option<Sides<u64>> {
        let count_in = |samples: &Vec<u64>| samples.get(self.layout).copied();
        Some(Sides { base: count_in(&self.samples.base)?, change: count_in(&self.samples.change)? })
    }
}

/// Contribution of one function to a delta, in the Effect's Layout and Context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionDelta {
    /// The symbol without the compiler's suffixes; `[user]` is user mode.
    pub function: String,
    pub context: Context,
    /// Instructions in the Region.
    pub instructions: Sides<u64>,
    /// REP iterations in the Region.
    pub rep_iterations: Sides<u64>,
    /// Instructions per operation, change minus base.
    pub delta: f64,
    /// REP iterations per operation, change minus base.
    pub rep_delta: f64,
    /// Time that several CPUs waited for each other there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Sides<u64>,
    /// Cache lines that it got from another CPU, by the model of coherence.
    #[serde(rename = "model_transfers", default, skip_serializing_if = "is_default")]
    pub transfers: Sides<u64>,
    /// Counts of costly instructions, for Effects of those kinds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// Accesses of each register, if the Effect is of `wrmsr` or `rdmsr` and they are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub msrs: BTreeMap<Msr, Sides<u64>>,
    /// Counts of a machine's model, for Effects of those kinds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modelled: BTreeMap<Modelled, Sides<u64>>,
}

/// Places with a smaller share of the row's delta, in percent, are left out. A function that was
/// inlined is less there and more in its caller, so their common caller is left out.
pub const LITTLE_OF_DELTA_PERCENT: u64 = 1;

/// A function below its caller, with the counts of both Sides there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathDelta {
    /// Number of functions above it, which are those before it in the list.
    pub depth: u32,
    /// The symbol without the compiler's suffixes.
    pub function: String,
    /// Number of calls there in the Region.
    pub calls: Sides<u64>,
    /// Instructions in the Region, with those of all below it.
    pub instructions: Sides<u64>,
    /// REP iterations, with those of all below it.
    pub rep_iterations: Sides<u64>,
    /// Costly instructions, with those of all below it; in an Effect only of its kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// Time that several CPUs waited for each other there and below.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Sides<u64>,
    /// Time that CPUs were idle after their processes had left them there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle: Sides<u64>,
}

/// A function that waits, with its callers and the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitStack {
    /// The function, then its callers.
    pub functions: Vec<String>,
    /// In instructions of the Region.
    pub wait: Sides<u64>,
}

/// All call paths of a row, of one pair of Runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RowPaths {
    pub row: String,
    /// Operations in the Region.
    pub ops: u64,
    /// One operation, in words.
    pub operation: String,
    pub metric: String,
    /// Range of the Metric over the layouts, per operation.
    pub spread: f64,
    /// A caller before its callees; the largest difference first.
    pub contexts: BTreeMap<Context, Vec<PathDelta>>,
}

/// Counts of a function itself, without its callees.
#[derive(Debug, Clone, PartialEq)]
pub struct Own {
    pub instructions: Sides<u64>,
    pub rep_iterations: Sides<u64>,
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// Time that CPUs waited there.
    pub wait: Sides<u64>,
    /// Time that CPUs were idle for it.
    pub idle: Sides<u64>,
}

/// Index of each path's caller in the list; `None` for a root.
pub fn callers(paths: &[PathDelta]) -> Vec<Option<usize>> {
    let mut above: Vec<usize> = Vec::new();
    let caller = |(index, path): (usize, &PathDelta)| {
        // A file that ktax did not write may lack a caller.
        above.truncate(path.depth as usize);
        let caller = above.last().copied();
        above.push(index);
        caller
    };
    paths.iter().enumerate().map(caller).collect()
}

/// Names of a function and of all above it, itself last.
pub fn stack<'a>(paths: &'a [PathDelta], callers: &[Option<usize>], index: usize) -> Vec<&'a str> {
    let above = std::iter::successors(Some(index), |index| callers[*index]);
    let mut functions: Vec<&str> = above.map(|index| paths[index].function.as_str()).collect();
    functions.reverse();
    functions
}

/// Paths that are worth it and whose callers are.
pub fn without_below(paths: &[PathDelta], is_worth: impl Fn(&PathDelta) -> bool) -> Vec<PathDelta> {
    kept(paths, is_worth).into_iter().map(|index| paths[index].clone()).collect()
}

/// Indices of paths that are worth it and whose callers are.
pub fn kept(paths: &[PathDelta], is_worth: impl Fn(&PathDelta) -> bool) -> Vec<usize> {
    let mut left_out = None;
    let is_kept = |(_, path): &(usize, &PathDelta)| {
        left_out = left_out.filter(|depth| path.depth > *depth);
        if left_out.is_none() && !is_worth(path) {
            left_out = Some(path.depth);
        }
        left_out.is_none()
    };
    paths.iter().enumerate().filter(is_kept).map(|(index, _)| index).collect()
}

/// Counts of each function itself, if the list has all its callees.
pub fn own(paths: &[PathDelta]) -> Vec<Own> {
    let mut own_counts: Vec<Own> = paths.iter().map(PathDelta::counts).collect();
    for (path, caller) in paths.iter().zip(callers(paths)) {
        if let Some(caller) = caller {
            own_counts[caller].instructions.less(&path.instructions);
            own_counts[caller].rep_iterations.less(&path.rep_iterations);
            own_counts[caller].wait.less(&path.wait);
            own_counts[caller].idle.less(&path.idle);
            for (kind, counts) in &path.costly {
                own_counts[caller].costly.entry(*kind).or_default().less(counts);
            }
        }
    }
    own_counts
}

impl Sides<u64> {
    fn less(&mut self, other: &Sides<u64>) {
        self.base = self.base.saturating_sub(other.base);
        self.change = self.change.saturating_sub(other.change);
    }
}

impl PathDelta {
    /// Counts with those of all below it.
    pub fn counts(&self) -> Own {
        Own {
            instructions: self.instructions.clone(),
            rep_iterations: self.rep_iterations.clone(),
            costly: self.costly.clone(),
            wait: self.wait.clone(),
            idle: self.idle.clone(),
        }
    }

    /// Path with counts of instructions alone.
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

/// A slow way, with the feature that makes it unnecessary.
#[derive(Debug)]
pub struct Fallback {
    pub function: &'static str,
    pub feature: &'static str,
    /// Functions that it replaces, separated by spaces.
    instead_of: &'static str,
}

const fn way(function: &'static str, feature: &'static str, instead_of: &'static str) -> Fallback {
    Fallback { function, feature, instead_of }
}

/// Slow ways of x86-64, Linux 5.x and 6.x.
const FALLBACKS: [Fallback; 5] = [
    way("memset_orig", "FSRS", "memset __memset memset_erms"),
    way("memcpy_orig", "FSRM", "memcpy __memcpy memcpy_erms"),
    way(
        "rep_movs_alternative",
        "FSRM",
        "copy_user_enhanced_fast_string copy_user_generic_string copy_user_short_string",
    ),
    way("rep_stos_alternative", "FSRS", "clear_user_erms clear_user_original clear_user_rep_good"),
    way("clear_page_orig", "ERMS", "clear_page_erms clear_page_rep"),
];

/// Returns the missing feature because of which only one Side takes the slow way, if this function
/// is the slow way or one that it replaces. `is_one_sided` is true for functions that only one Side
/// executed.
pub fn lacking(function: &str, is_one_sided: impl Fn(&str) -> bool) -> Option<&'static str> {
    let has = |way: &&Fallback| {
        way.function == function || way.instead_of.split(' ').any(|name| name == function)
    };
    let way = FALLBACKS.iter().find(has).filter(|way| is_one_sided(way.function));
    way.map(|way| way.feature)
}

/// True if only one Side executed the function.
pub fn has_one_side(counts: &Sides<u64>) -> bool {
    (counts.base == 0) != (counts.change == 0)
}

impl Effect {
    /// Slow ways that only one Side takes, because the CPU lacks a feature.
    pub fn fallbacks(&self) -> impl Iterator<Item = &'static Fallback> {
        FALLBACKS.iter().filter(|fallback| self.has_one_side(fallback.function))
    }

    /// Returns the feature that the CPU lacks, if this function differs because only one Side takes
    /// the slow way.
    pub fn lacking(&self, function: &str) -> Option<&'static str> {
        lacking(function, |name| self.has_one_side(name))
    }

    fn has_one_side(&self, function: &str) -> bool {
        let found = self.functions.iter().find(|delta| delta.function == function);
        found.is_some_and(|delta| has_one_side(&delta.instructions))
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
            own.iter().map(|function| function.instructions.base).collect::<Vec<_>>(),
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

    #[test]
    fn a_slow_way_of_one_side_and_what_it_replaces_are_for_want_of_a_feature() {
        let only = |name: &str| name == "memset_orig";
        for (function, expected) in [
            ("memset_orig", Some("FSRS")),
            ("memset_erms", Some("FSRS")),
            ("memcpy_orig", None),
            ("clear_page_erms", None),
            ("vfs_read", None),
        ] {
            assert_eq!(lacking(function, only), expected, "{function}");
        }
        // If both take the slow way, the kernels and not the CPU are the reason.
        assert_eq!(lacking("memset_orig", |_| false), None);
        assert!(!has_one_side(&Sides { base: 3, change: 4 }));
        assert!(!has_one_side(&Sides { base: 0, change: 0 }));
        assert!(has_one_side(&Sides { base: 0, change: 4 }));
    }
}
