//! Effects of Metrics: values of both Sides, the functions and call paths that carry a delta, and
//! fallbacks: slow functions that a kernel uses only on a CPU that lacks a feature.
//!
//! Kernel versions choose a fallback by different features, so on one CPU one version may use a
//! fallback and another version may not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Context, Costly, Modelled, Msr, Side, Sides, Verdict, is_default};

/// Difference of one Metric between the Sides, per operation, in the Metric's unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    pub metric: String,
    /// Base's value in the Layout with the median delta. `change` is from the same Layout, so
    /// `delta` is exact.
    pub base: f64,
    pub change: f64,
    /// `change - base`.
    pub delta: f64,
    /// `delta` in percent of `base`; absent where `base` is 0 and `delta` is not.
    pub percent: Option<f64>,
    /// Index of the Layout with the median delta.
    pub layout: usize,
    /// Smallest and largest delta over the Layouts.
    pub delta_range: (f64, f64),
    /// Range of one Side's values over the Layouts: the larger of the two.
    pub spread: f64,
    /// Smallest absolute delta that would have been called a change: in the direction of the
    /// Verdict, or in both directions if the Verdict is no change. Absent with too few Layouts.
    pub detectable: Option<f64>,
    /// Raw counts of the Region, one for each Layout that was measured on both Sides.
    pub samples: Sides<Vec<u64>>,
    /// Verdict of this Metric alone.
    pub verdict: Verdict,
    /// Functions that carry the delta, the largest share first; empty unless the Verdict is a
    /// change.
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

    /// Raw counts in the Layout with the median delta; `None` if a file lacks this Layout.
    pub fn counts(&self) -> Option<Sides<u64>> {
        let count_in = |samples: &Vec<u64>| samples.get(self.layout).copied();
        Some(Sides { base: count_in(&self.samples.base)?, change: count_in(&self.samples.change)? })
    }
}

/// Contribution of one function to a delta, in the Layout of the Effect.
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
    /// Time that CPUs waited for each other in the function.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Sides<u64>,
    /// Cache lines that the function got from another CPU, by the model of coherence.
    #[serde(rename = "model_transfers", default, skip_serializing_if = "is_default")]
    pub transfers: Sides<u64>,
    /// Counts of costly instructions; only in an Effect of a costly instruction.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// Accesses by register; only in an Effect of `wrmsr` or `rdmsr`, if QEMU tells the registers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub msrs: BTreeMap<Msr, Sides<u64>>,
    /// Counts of the model of a machine; only in an Effect of a modelled event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub modelled: BTreeMap<Modelled, Sides<u64>>,
}

/// Smallest share of the row's delta that a call path must have to be listed, in percent. If a
/// function was inlined on one Side, its path has less and its caller's own code has more; the sum
/// in the common caller is small, so that the caller and all paths below are left out.
pub const MIN_DELTA_SHARE_PERCENT: u64 = 1;

/// Node of a call tree: a function below its caller, with the counts of both Sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathDelta {
    /// Number of callers above the function. The caller is the nearest earlier element of the list
    /// whose depth is less by one.
    pub depth: u32,
    /// The symbol without the compiler's suffixes.
    pub function: String,
    /// Number of calls of the function by this path in the Region.
    pub calls: Sides<u64>,
    /// Instructions in the Region, with all callees.
    pub instructions: Sides<u64>,
    /// REP iterations, with all callees.
    pub rep_iterations: Sides<u64>,
    /// Costly instructions, with all callees; in an Effect only those of the Effect's kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// Time that CPUs waited for each other, with all callees.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wait: Sides<u64>,
    /// Time that CPUs were idle after their process had left the CPU in this path.
    #[serde(default, skip_serializing_if = "is_default")]
    pub idle: Sides<u64>,
}

/// Function in which CPUs wait, with its callers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitStack {
    /// The function, then its callers.
    pub functions: Vec<String>,
    /// Time of waiting in the Region, in instructions.
    pub wait: Sides<u64>,
}

/// All call paths of a row, from one pair of Runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RowPaths {
    pub row: String,
    /// Operations in the Region.
    pub ops: u64,
    /// Name of one operation.
    pub operation: String,
    pub metric: String,
    /// Range of the Metric over the layouts, per operation.
    pub spread: f64,
    /// Call paths by Context: a caller before its callees, callees with the largest difference
    /// first.
    pub contexts: BTreeMap<Context, Vec<PathDelta>>,
}

/// Counts of a function itself, without its callees.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnCounts {
    pub instructions: Sides<u64>,
    pub rep_iterations: Sides<u64>,
    pub costly: BTreeMap<Costly, Sides<u64>>,
    /// Time that CPUs waited in the function.
    pub wait: Sides<u64>,
    /// Time that CPUs were idle after their process had left the CPU in the function.
    pub idle: Sides<u64>,
}

/// Index of each path's caller in `paths`; `None` for a root.
pub fn callers(paths: &[PathDelta]) -> Vec<Option<usize>> {
    let mut above: Vec<usize> = Vec::new();
    let caller = |(index, path): (usize, &PathDelta)| {
        // The depth of a path from a damaged file may exceed the number of callers.
        above.truncate(path.depth as usize);
        let caller = above.last().copied();
        above.push(index);
        caller
    };
    paths.iter().enumerate().map(caller).collect()
}

/// Function names of a call path from the root to the path at `index`.
pub fn path_names<'a>(
    paths: &'a [PathDelta],
    callers: &[Option<usize>],
    index: usize,
) -> Vec<&'a str> {
    let above = std::iter::successors(Some(index), |index| callers[*index]);
    let mut functions: Vec<&str> = above.map(|index| paths[index].function.as_str()).collect();
    functions.reverse();
    functions
}

/// Copies of the paths for which `is_worth` holds, and holds for all callers.
pub fn prune_paths(paths: &[PathDelta], is_worth: impl Fn(&PathDelta) -> bool) -> Vec<PathDelta> {
    kept_paths(paths, is_worth).into_iter().map(|index| paths[index].clone()).collect()
}

/// Indices of the paths for which `is_worth` holds, and holds for all callers.
pub fn kept_paths(paths: &[PathDelta], is_worth: impl Fn(&PathDelta) -> bool) -> Vec<usize> {
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

/// Counts of each path without its callees. `paths` must have all callees.
pub fn own_counts(paths: &[PathDelta]) -> Vec<OwnCounts> {
    let mut own_counts: Vec<OwnCounts> = paths.iter().map(PathDelta::counts).collect();
    for (path, caller) in paths.iter().zip(callers(paths)) {
        if let Some(caller) = caller {
            own_counts[caller].instructions.subtract(&path.instructions);
            own_counts[caller].rep_iterations.subtract(&path.rep_iterations);
            own_counts[caller].wait.subtract(&path.wait);
            own_counts[caller].idle.subtract(&path.idle);
            for (kind, counts) in &path.costly {
                own_counts[caller].costly.entry(*kind).or_default().subtract(counts);
            }
        }
    }
    own_counts
}

impl Sides<u64> {
    fn subtract(&mut self, other: &Sides<u64>) {
        self.base = self.base.saturating_sub(other.base);
        self.change = self.change.saturating_sub(other.change);
    }
}

impl PathDelta {
    /// Counts with all callees.
    pub fn counts(&self) -> OwnCounts {
        OwnCounts {
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

/// Slow function, with the CPU feature that makes it unnecessary.
#[derive(Debug)]
pub struct Fallback {
    pub function: &'static str,
    pub feature: &'static str,
    /// Functions that other CPUs use in its place, separated by spaces.
    replaced: &'static str,
}

const fn fallback(
    function: &'static str,
    feature: &'static str,
    replaced: &'static str,
) -> Fallback {
    Fallback { function, feature, replaced }
}

/// Fallbacks of Linux 5.x and 6.x for x86-64.
const FALLBACKS: [Fallback; 5] = [
    fallback("memset_orig", "FSRS", "memset __memset memset_erms"),
    fallback("memcpy_orig", "FSRM", "memcpy __memcpy memcpy_erms"),
    fallback(
        "rep_movs_alternative",
        "FSRM",
        "copy_user_enhanced_fast_string copy_user_generic_string copy_user_short_string",
    ),
    fallback(
        "rep_stos_alternative",
        "FSRS",
        "clear_user_erms clear_user_original clear_user_rep_good",
    ),
    fallback("clear_page_orig", "ERMS", "clear_page_erms clear_page_rep"),
];

/// CPU feature whose absence makes only one Side use a fallback, if `function` is this fallback or
/// a function that it replaces. `is_on_one_side` is true for functions that only one Side executed.
pub fn missing_feature(
    function: &str,
    is_on_one_side: impl Fn(&str) -> bool,
) -> Option<&'static str> {
    let has_function = |fallback: &&Fallback| {
        let mut replaced = fallback.replaced.split(' ');
        fallback.function == function || replaced.any(|name| name == function)
    };
    let found = FALLBACKS.iter().find(has_function);
    let found = found.filter(|fallback| is_on_one_side(fallback.function));
    found.map(|fallback| fallback.feature)
}

/// True if only one Side executed the function.
pub fn is_one_sided(counts: &Sides<u64>) -> bool {
    (counts.base == 0) != (counts.change == 0)
}

impl Effect {
    /// Fallbacks that only one Side uses, because the CPU lacks a feature.
    pub fn fallbacks(&self) -> impl Iterator<Item = &'static Fallback> {
        FALLBACKS.iter().filter(|fallback| self.is_one_sided(fallback.function))
    }

    /// CPU feature whose absence makes only one Side use a fallback, if `function` is this fallback
    /// or a function that it replaces.
    pub fn missing_feature(&self, function: &str) -> Option<&'static str> {
        missing_feature(function, |name| self.is_one_sided(name))
    }

    fn is_one_sided(&self, function: &str) -> bool {
        let found = self.functions.iter().find(|delta| delta.function == function);
        found.is_some_and(|delta| is_one_sided(&delta.instructions))
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
    fn own_counts_are_without_callees() {
        let paths = [path(0, 100), path(1, 30), path(2, 10), path(1, 20), path(0, 7)];
        assert_eq!(callers(&paths), [None, Some(0), Some(1), Some(0), None]);
        let own = own_counts(&paths);
        assert_eq!(
            own.iter().map(|function| function.instructions.base).collect::<Vec<_>>(),
            [50, 20, 10, 20, 7]
        );
        assert_eq!(own[0].instructions.change, 100);
        assert_eq!(own[1].costly[&Costly::Locked].base, 20);
        assert_eq!((own[0].wait.base, own[2].wait.change), (50, 20));
    }

    #[test]
    fn paths_without_callers_do_not_panic() {
        assert_eq!(
            callers(&[path(7, 1), path(4_000_000_000, 1), path(0, 1)]),
            [None, Some(0), None]
        );
        assert_eq!(own_counts(&[path(0, 1), path(1, 5)])[0].instructions.base, 0);
    }

    #[test]
    fn a_fallback_of_one_side_and_its_replacement_name_the_missing_feature() {
        let is_on_one_side = |name: &str| name == "memset_orig";
        for (function, expected) in [
            ("memset_orig", Some("FSRS")),
            ("memset_erms", Some("FSRS")),
            ("memcpy_orig", None),
            ("clear_page_erms", None),
            ("vfs_read", None),
        ] {
            assert_eq!(missing_feature(function, is_on_one_side), expected, "{function}");
        }
        // If both Sides use the fallback, a difference comes from the kernels.
        assert_eq!(missing_feature("memset_orig", |_| false), None);
        assert!(!is_one_sided(&Sides { base: 3, change: 4 }));
        assert!(!is_one_sided(&Sides { base: 0, change: 0 }));
        assert!(is_one_sided(&Sides { base: 0, change: 4 }));
    }
}
