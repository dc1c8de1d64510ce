//! From where the functions were called that carry a delta.

use std::collections::BTreeMap;
use std::iter::Peekable;

use super::gather::no_step;
use super::kinds::costly;
use super::plain::plain;
use super::source::CountsRuns;
use crate::analyse::error::Result;
use crate::model::{
    Context, Costly, Counts, Effect, LITTLE_OF_DELTA_PERCENT, Metric, Path, PathDelta, Profile,
    Row, RowPaths, Side, Sides,
};

/// A place that has a smaller share of the row on both Sides, in parts of a thousand, is not worth
/// a bar either, and neither is anything below it.
const NARROW_PER_MILLE: u64 = 5;

/// A function below its caller, and all that it calls.
#[derive(Default)]
struct Place {
    calls: Sides<u64>,
    counts: Sides<Counts>,
    below: BTreeMap<String, Place>,
}

/// The places that are worth a line or a bar by the Metric, those of a caller below it, those with
/// the largest delta first.
pub(super) fn deltas(base: &Profile, change: &Profile, metric: &Metric) -> Vec<PathDelta> {
    let root = Place::of(base, change, metric.context);
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

/// All places of a row, in the Layout of the Effect, of all Contexts.
///
/// # Errors
/// A Run or its profile cannot be read.
pub fn row_paths(runs: &dyn CountsRuns, row: &Row, effect: &Effect) -> Result<RowPaths> {
    let layout = effect.layout;
    let step_of = |side: Side| {
        let mut steps = runs.plan().method.steps.iter();
        let found = steps.find(|step| step.layout == layout && step.side == side);
        found.ok_or_else(|| no_step(layout, side))
    };
    let [base, change] =
        Side::BOTH.map(|side| -> Result<Profile> { Ok(runs.profile(step_of(side)?, &row.row)?) });
    let (base, change) = (base?, change?);
    let of_context = |context: Context| {
        let mut paths = Vec::new();
        let size = |place: &Place| {
            let of = |counts: &Counts| counts.instructions + counts.rep_iterations;
            of(&place.counts.base).abs_diff(of(&place.counts.change))
        };
        // Stable: those that differ by as much stay in the order of their names.
        Place::of(&base, &change, context).list(0, &Costly::ALL, &mut paths, &mut |below| {
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

impl Place {
    /// What is called by none, which is above all.
    fn of(base: &Profile, change: &Profile, context: Context) -> Place {
        let mut root = Place::default();
        for (side, profile) in [(Side::Base, base), (Side::Change, change)] {
            let of_context = |path: &&Path| path.context == context;
            root.add_below(0, side, &mut profile.paths.iter().filter(of_context).peekable());
        }
        root
    }

    /// Adds the next paths as long as they are that deep, and their counts to its own.
    fn add_below<'a>(
        &mut self,
        depth: u32,
        side: Side,
        paths: &mut Peekable<impl Iterator<Item = &'a Path>>,
    ) {
        while let Some(path) = paths.next_if(|path| path.depth == depth) {
            let own = Counts {
                instructions: path.instructions,
                rep_iterations: path.rep_iterations,
                costly: path.costly,
                ..Counts::default()
            };
            let mut below = Place::default();
            *below.calls.get_mut(side) = path.calls;
            *below.counts.get_mut(side) = own;
            below.add_below(depth + 1, side, paths);
            *self.counts.get_mut(side) += *below.counts.get(side);
            self.below.entry(plain(&path.function).to_owned()).or_default().merge(below);
        }
    }

    fn merge(&mut self, other: Place) {
        for side in Side::BOTH {
            *self.calls.get_mut(side) += other.calls.get(side);
            *self.counts.get_mut(side) += *other.counts.get(side);
        }
        for (function, place) in other.below {
            self.below.entry(function).or_default().merge(place);
        }
    }

    fn size(&self, metric: &Metric) -> u64 {
        (metric.count)(&self.counts.base).abs_diff((metric.count)(&self.counts.change))
    }

    /// The larger of both Sides.
    fn whole(&self, metric: &Metric) -> u64 {
        (metric.count)(&self.counts.base).max((metric.count)(&self.counts.change))
    }

    /// All below it, with costly instructions of these kinds; `choose` says which of a caller's,
    /// and in which order.
    fn list<'a>(
        &'a self,
        depth: u32,
        kinds: &[Costly],
        to: &mut Vec<PathDelta>,
        choose: &mut impl FnMut(&mut Vec<(&'a String, &'a Place)>),
    ) {
        let mut below: Vec<(&String, &Place)> = self.below.iter().collect();
        choose(&mut below);
        for (function, place) in below {
            let Sides { base, change } = &place.counts;
            let [instructions, rep_iterations] = [
                [base.instructions, change.instructions],
                [base.rep_iterations, change.rep_iterations],
            ]
            .map(|[base, change]| Sides { base, change });
            let (function, calls) = (function.clone(), place.calls.clone());
            let costly = costly(kinds.iter().copied(), &place.counts);
            to.push(PathDelta { depth, function, calls, instructions, rep_iterations, costly });
            place.list(depth + 1, kinds, to, choose);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CostlyCounts, METRICS};

    fn profile(paths: &[(u32, &str, u64, u64)]) -> Profile {
        let path = |(depth, function, calls, instructions): &(u32, &str, u64, u64)| Path {
            context: Context::Process,
            depth: *depth,
            function: (*function).to_owned(),
            calls: *calls,
            instructions: *instructions,
            rep_iterations: 0,
            costly: CostlyCounts::default(),
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
