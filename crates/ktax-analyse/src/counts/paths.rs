//! From where the functions were called that carry a delta.

use super::gather::no_step;
use super::place::Place;
use super::scale::scale_of;
use super::source::CountsRuns;
use crate::error::Result;
use ktax_model::{
    Context, Costly, Counts, Effect, LITTLE_OF_DELTA_PERCENT, Metric, PathDelta, Profile, Row,
    RowPaths, Side,
};

/// A place that has a smaller share of the row on both Sides, in parts of a thousand, is not worth
/// a bar either, and neither is anything below it.
const NARROW_PER_MILLE: u64 = 5;

/// The places that are worth a line or a bar by the Metric, those of a caller below it, those with
/// the largest delta first.
pub(super) fn deltas(base: &Profile, change: &Profile, metric: &Metric) -> Vec<PathDelta> {
    let root = Place::of(base, change, metric.context).without_inlined();
    let least = Least {
        delta: root.size(metric) * LITTLE_OF_DELTA_PERCENT,
        // No picture is drawn of costly instructions.
        whole: metric.costly.map_or(root.whole(metric) * NARROW_PER_MILLE, |_| u64::MAX),
    };
    let mut deltas = Vec::new();
    if least.delta > 0 {
        root.list(0, metric.costly.as_slice(), &mut deltas, &mut |below| {
            below.retain(|(_, place)| least.is_met(place, metric));
            below.sort_by_key(|(_, place)| std::cmp::Reverse(place.size(metric)));
        });
    }
    deltas
}

/// What a place must have: a hundred times the delta, or a thousand times the whole.
struct Least {
    delta: u64,
    whole: u64,
}

impl Least {
    fn is_met(&self, place: &Place, metric: &Metric) -> bool {
        place.size(metric).saturating_mul(100) >= self.delta
            || place.whole(metric).saturating_mul(1000) >= self.whole
    }
}

/// All places of a row, in the Layout of the Effect, of all Contexts: as they were called, or as
/// they are compared.
///
/// # Errors
/// A Run or its profile cannot be read.
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
        found.ok_or_else(|| no_step(layout, side))
    };
    let operations = row.counts().and_then(|counts| counts.operations.as_ref());
    let [base, change] = Side::BOTH.map(|side| -> Result<Profile> {
        let profile = runs.profile(step_of(side)?, &row.row)?;
        Ok(scale_of(operations, side, row.ops).profile(profile))
    });
    let (base, change) = (base?, change?);
    let of_context = |context: Context| {
        let mut paths = Vec::new();
        let size = |place: &Place| {
            let of = |counts: &Counts| counts.instructions + counts.rep_iterations;
            of(&place.counts.base).abs_diff(of(&place.counts.change))
        };
        let root = Place::of(&base, &change, context);
        let root = if is_compared { root.without_inlined() } else { root };
        // Stable: those that differ by as much stay in the order of their names.
        root.list(0, &Costly::ALL, &mut paths, &mut |below| {
            below.sort_by_key(|(_, place)| std::cmp::Reverse(size(place)));
        });
        (!paths.is_empty()).then_some((context, paths))
    };
    Ok(RowPaths {
        row: row.row.clone(),
        ops: row.ops,
        operation: row.operation.clone(),
        metric: effect.metric.clone(),
        spread: effect.spread,
        contexts: Context::ALL.into_iter().filter_map(of_context).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{CostlyCounts, METRICS, Path};

    fn profile(paths: &[(u32, &str, u64, u64)]) -> Profile {
        let path = |(depth, function, calls, instructions): &(u32, &str, u64, u64)| Path {
            context: Context::Process,
            depth: *depth,
            function: (*function).to_owned(),
            calls: *calls,
            instructions: *instructions,
            rep_iterations: 0,
            costly: CostlyCounts::default(),
            wait: 0,
            idle: 0,
        };
        Profile { paths: paths.iter().map(path).collect(), ..Profile::default() }
    }

    fn listed(base: &[(u32, &str, u64, u64)], change: &[(u32, &str, u64, u64)]) -> Vec<String> {
        let deltas = deltas(&profile(base), &profile(change), &METRICS[0]);
        let say = |it: &PathDelta| {
            let delta = it.instructions.change as i64 - it.instructions.base as i64;
            let calls = it.calls.change as i64 - it.calls.base as i64;
            format!("{}{} {delta:+} {calls:+}", "-".repeat(it.depth as usize), it.function)
        };
        deltas.iter().map(say).collect()
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
        // What is gone is found, too.
        assert_eq!(listed(&change, &base)[2], "--hook -8 -2");
    }

    #[test]
    fn what_an_inlined_function_calls_is_compared_with_what_its_caller_calls() {
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
        // The caller called it before, or calls little of it: then that is new.
        let before = [&base[..], &[(1, "copy", 1, 10)]].concat();
        assert_eq!(listed(&before, &change)[1], "-dup -640 -1");
        let little = [(0, "fork", 1, 130), (1, "free", 1, 30)];
        assert_eq!(listed(&base, &little)[1], "-dup -640 -1");
        // One call of the same is not what was inlined.
        let one = [(0, "fork", 1, 90), (1, "copy", 1, 9), (1, "new", 1, 20), (2, "copy", 4, 500)];
        let one = listed(&base, &one);
        assert!(
            ["-dup -640 -1", "-new +520 +1"].iter().all(|it| one.iter().any(|line| line == it))
        );
    }

    #[test]
    fn what_is_compared_is_the_same_from_either_side() {
        let base = [(0, "p", 1, 5), (1, "b", 1, 10), (2, "n", 1, 300)];
        let change = [(0, "p", 1, 5), (1, "n", 1, 300), (1, "a", 1, 5), (2, "b", 1, 10)];
        let there = listed(&base, &change);
        let back = listed(&change, &base);
        assert_eq!(there, ["p +5 +0", "-a +5 +1", "-b +0 +0", "-n +0 +0"]);
        assert_eq!(back, ["p -5 +0", "-a -5 -1", "-b +0 +0", "-n +0 +0"]);
    }

    #[test]
    fn as_deep_as_a_profile_may_be() {
        let deep: Vec<_> = (0..1000).map(|depth| (depth, "f", 1, 1)).collect();
        let listed = listed(&deep, &[(0, "f", 1, 1)]);
        assert_eq!(listed[0], "f -999 +0");
    }

    #[test]
    fn what_differs_by_little_is_there_if_it_is_wide() {
        let base = [(0, "entry", 1, 1000), (1, "wide", 1, 200), (1, "narrow", 1, 3)];
        let change = [(0, "entry", 1, 1300), (1, "wide", 1, 202), (1, "narrow", 1, 5)];
        assert_eq!(listed(&base, &change), ["entry +304 +0", "-wide +2 +0"]);
    }

    #[test]
    fn what_compilers_append_to_a_name_makes_no_other_place() {
        let base = [(0, "entry", 1, 10), (1, "write.isra.0", 1, 50)];
        let change = [(0, "entry", 1, 10), (1, "write", 1, 55)];
        assert_eq!(listed(&base, &change), ["entry +5 +0", "-write +5 +0"]);
        assert_eq!(listed(&base, &base), [""; 0]);
    }
}
