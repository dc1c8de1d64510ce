//! From where the functions were called that carry a delta.

use std::collections::BTreeMap;
use std::iter::Peekable;

use super::plain::plain;
use crate::model::{Counts, Metric, Path, PathDelta, Profile, Side, Sides};

/// A place whose delta is a smaller share of the row's, in percent, is not worth a line, and
/// neither is anything below it. A function that a compiler moved into its caller is less there and
/// more above, so that their common caller is no such place.
const LITTLE_PERCENT: u64 = 1;

/// A function below its caller, and all that it calls.
#[derive(Default)]
struct Place {
    calls: Sides<u64>,
    counts: Sides<Counts>,
    below: BTreeMap<String, Place>,
}

/// The places whose delta of the Metric is worth a line, those of a caller below it, largest first.
pub(super) fn deltas(base: &Profile, change: &Profile, metric: &Metric) -> Vec<PathDelta> {
    let mut root = Place::default();
    for (side, profile) in [(Side::Base, base), (Side::Change, change)] {
        let of_context = |path: &&Path| path.context == metric.context;
        root.add_below(0, side, &mut profile.paths.iter().filter(of_context).peekable());
    }
    let least = root.size(metric) * LITTLE_PERCENT;
    let mut deltas = Vec::new();
    if least > 0 {
        root.list(0, least, metric, &mut deltas);
    }
    deltas
}

impl Place {
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

    /// `least` is a hundred times what a place must differ by.
    fn list(&self, depth: u32, least: u64, metric: &Metric, to: &mut Vec<PathDelta>) {
        let is_much = |place: &Place| place.size(metric) * 100 >= least;
        let mut below: Vec<(&String, &Place)> =
            self.below.iter().filter(|(_, place)| is_much(place)).collect();
        below.sort_by_key(|(_, place)| std::cmp::Reverse(place.size(metric)));
        for (function, place) in below {
            let Sides { base, change } = &place.counts;
            let [instructions, rep_iterations] = [
                [base.instructions, change.instructions],
                [base.rep_iterations, change.rep_iterations],
            ]
            .map(|[base, change]| Sides { base, change });
            let (function, calls) = (function.clone(), place.calls.clone());
            to.push(PathDelta { depth, function, calls, instructions, rep_iterations });
            place.list(depth + 1, least, metric, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Context, METRICS};

    fn profile(paths: &[(u32, &str, u64, u64)]) -> Profile {
        let path = |(depth, function, calls, instructions): &(u32, &str, u64, u64)| Path {
            context: Context::Process,
            depth: *depth,
            function: (*function).to_owned(),
            calls: *calls,
            instructions: *instructions,
            rep_iterations: 0,
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
    fn a_function_that_its_caller_has_swallowed_is_no_difference() {
        let base =
            [(0, "entry", 1, 10), (1, "write", 1, 50), (2, "copy", 1, 30), (1, "read", 1, 5)];
        let change = [(0, "entry", 1, 10), (1, "write", 1, 80), (1, "read", 1, 9)];
        assert_eq!(listed(&base, &change), ["entry +4 +0", "-read +4 +0"]);
    }

    #[test]
    fn what_compilers_append_to_a_name_makes_no_other_place() {
        let base = [(0, "entry", 1, 10), (1, "write.isra.0", 1, 50)];
        let change = [(0, "entry", 1, 10), (1, "write", 1, 55)];
        assert_eq!(listed(&base, &change), ["entry +5 +0", "-write +5 +0"]);
        assert_eq!(listed(&base, &base), [""; 0]);
    }
}
