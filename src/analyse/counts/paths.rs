//! From where the functions were called that carry a delta.

use std::collections::BTreeMap;

use super::plain::plain;
use crate::model::{Context, Counts, Metric, PathDelta, Profile, Side, Sides};

/// A place whose delta is a smaller share of the row's, in percent, is not worth a line, and
/// neither is anything below it. A function that a compiler moved into its caller is less there and
/// more above, so that their common caller is no such place.
const LITTLE_PERCENT: u64 = 1;

/// A function below its caller, and all that it calls.
#[derive(Default)]
struct Place {
    calls: [u64; 2],
    counts: [Counts; 2],
    below: BTreeMap<String, Place>,
}

/// The places whose delta of the Metric is worth a line, those of a caller below it, largest first.
pub(super) fn deltas(base: &Profile, change: &Profile, metric: &Metric) -> Vec<PathDelta> {
    let mut root = Place::default();
    for (side, profile) in [base, change].into_iter().enumerate() {
        root.add(side, profile, metric.context);
    }
    root.add_up();
    let least = root.size(metric) * LITTLE_PERCENT;
    let mut deltas = Vec::new();
    if least > 0 {
        root.list(0, least, metric, &mut deltas);
    }
    deltas
}

impl Place {
    fn add(&mut self, side: usize, profile: &Profile, context: Context) {
        let mut callers: Vec<&str> = Vec::new();
        for path in profile.paths.iter().filter(|path| path.context == context) {
            callers.truncate(path.depth as usize);
            callers.push(plain(&path.function));
            let place = callers
                .iter()
                .fold(&mut *self, |place, name| place.below.entry((*name).to_owned()).or_default());
            place.calls[side] += path.calls;
            place.counts[side] += Counts {
                instructions: path.instructions,
                rep_iterations: path.rep_iterations,
                ..Counts::default()
            };
        }
    }

    /// Makes its counts those of all below it, too.
    fn add_up(&mut self) {
        for place in self.below.values_mut() {
            place.add_up();
            for (sum, counts) in self.counts.iter_mut().zip(place.counts) {
                *sum += counts;
            }
        }
    }

    fn size(&self, metric: &Metric) -> u64 {
        (metric.count)(&self.counts[0]).abs_diff((metric.count)(&self.counts[1]))
    }

    /// `least` is a hundred times what a place must differ by.
    fn list(&self, depth: u32, least: u64, metric: &Metric, to: &mut Vec<PathDelta>) {
        let is_much = |place: &Place| place.size(metric) * 100 >= least;
        let mut below: Vec<(&String, &Place)> =
            self.below.iter().filter(|(_, place)| is_much(place)).collect();
        below.sort_by_key(|(_, place)| std::cmp::Reverse(place.size(metric)));
        for (function, place) in below {
            let of = |side: Side| usize::from(side == Side::Change);
            to.push(PathDelta {
                depth,
                function: function.clone(),
                calls: Sides::of(|side| place.calls[of(side)]),
                instructions: Sides::of(|side| place.counts[of(side)].instructions),
                rep_iterations: Sides::of(|side| place.counts[of(side)].rep_iterations),
            });
            place.list(depth + 1, least, metric, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{METRICS, Path};

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
