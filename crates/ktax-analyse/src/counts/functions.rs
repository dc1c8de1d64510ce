//! Which functions carry a delta.

use std::collections::{BTreeMap, BTreeSet};

use super::gather::Pair;
use super::kinds::{costly, modelled, msrs};
use super::paths;
use super::plain::plain;
use super::source::CountsRuns;
use crate::error::{AnalyseError, Result};
use ktax_model::{
    CacheLine, Context, Counts, FunctionDelta, Metric, PathDelta, Profile, ProfileLine, Sample,
    Side, Sides, Workload, has_one_side, lacking,
};

/// Lines that travel are many, and these explain a row.
const MOST_CACHE_LINES: usize = 20;

/// The functions of one pair of Runs in the Metric's Context, whose deltas add up to the pair's,
/// and from where they are called.
pub(super) fn read(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pair: &Pair,
    metric: &Metric,
) -> Result<(Vec<FunctionDelta>, Vec<PathDelta>)> {
    let profile = |side: Side| -> Result<Profile> {
        let (step, sample) = (pair.steps.get(side), pair.measured.get(side));
        let profile = runs.profile(step, &workload.row)?;
        add_up(&profile, sample, metric).map_err(|(functions, sample)| AnalyseError::Sum {
            row: workload.row.clone(),
            boot: step.name(),
            functions,
            sample,
        })?;
        Ok(pair.scales.get(side).profile(profile))
    };
    let base = profile(Side::Base)?;
    let change = profile(Side::Change)?;
    let functions = deltas(&base, &change, workload.ops, metric);
    // Paths do not have what was modelled.
    let paths = match metric.modelled {
        None => paths::deltas(&base, &change, metric),
        Some(_) => Vec::new(),
    };
    Ok((functions, paths))
}

/// The functions of what a program of two sizes executes more at the larger one, of one Layout.
pub(super) fn read_larger(
    runs: &dyn CountsRuns,
    rows: &[String; 2],
    pair: &Pair,
    ops: u64,
    metric: &Metric,
) -> Result<Vec<FunctionDelta>> {
    let profiles =
        |row: &String| Sides::try_from_fn(|side| runs.profile(pair.steps.get(side), row));
    let Sides { base, change } = larger([&profiles(&rows[0])?, &profiles(&rows[1])?]);
    Ok(deltas(&base, &change, ops, metric))
}

/// What each Side executed more in each function at the larger size. Where that is less than
/// nothing, both Sides get as much more, so that their difference stays.
fn larger(sizes: [&Sides<Profile>; 2]) -> Sides<Profile> {
    let mut all: BTreeMap<(Context, &str), [Sides<Counts>; 2]> = BTreeMap::new();
    for (size, profiles) in sizes.into_iter().enumerate() {
        for side in Side::BOTH {
            for line in &profiles.get(side).lines {
                let key = (line.context, line.function.as_str());
                let sizes = all.entry(key).or_insert_with(|| [none(), none()]);
                *sizes[size].get_mut(side) += line.counts;
            }
        }
    }
    let mut larger = Sides { base: Profile::default(), change: Profile::default() };
    for ((context, function), [small, large]) in all {
        let missing = |side| small.get(side).with(large.get(side), u64::saturating_sub);
        let missing = missing(Side::Base).with(&missing(Side::Change), u64::max);
        for side in Side::BOTH {
            let mut counts = *large.get(side);
            counts += missing;
            counts -= *small.get(side);
            let function = function.to_owned();
            larger.get_mut(side).lines.push(ProfileLine { context, function, counts });
        }
    }
    larger
}

/// Which cache lines travelled, of one pair of Runs.
pub(super) fn cache_lines(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pair: &Pair,
) -> Result<Sides<Vec<CacheLine>>> {
    Sides::try_from_fn(|side| {
        let mut lines = runs.profile(pair.steps.get(side), &workload.row)?.cache_lines;
        lines.truncate(MOST_CACHE_LINES);
        Ok(lines)
    })
}

/// Both numbers, if the profile does not add up to the Sample.
fn add_up(
    profile: &Profile,
    sample: &Sample,
    metric: &Metric,
) -> std::result::Result<(), (u64, u64)> {
    let sum = of_context(profile, metric).map(|(_, counts)| (metric.count)(&counts)).sum();
    let expected = metric.raw(sample);
    if sum == expected { Ok(()) } else { Err((sum, expected)) }
}

fn of_context<'a>(
    profile: &'a Profile,
    metric: &Metric,
) -> impl Iterator<Item = (&'a str, Counts)> {
    let context = metric.context;
    let lines = profile.lines.iter().filter(move |line| line.context == context);
    lines.map(|line| (plain(&line.function), line.counts))
}

/// The functions that differ in the Metric's Context, largest difference of the Metric first. Last
/// stand those that differ because the CPU lacks a feature.
pub(crate) fn deltas(
    base: &Profile,
    change: &Profile,
    ops: u64,
    metric: &Metric,
) -> Vec<FunctionDelta> {
    let mut functions: BTreeMap<&str, Sides<Counts>> = BTreeMap::new();
    for (function, counts) in of_context(base, metric) {
        functions.entry(function).or_insert_with(none).base += counts;
    }
    for (function, counts) in of_context(change, metric) {
        functions.entry(function).or_insert_with(none).change += counts;
    }
    let size =
        |sides: &Sides<Counts>| (metric.count)(&sides.base).abs_diff((metric.count)(&sides.change));
    // What else differs beside these is in the headline's.
    let is_other = |sides: &Sides<Counts>| !metric.is_of_kind() && sides.base != sides.change;
    functions.retain(|_, sides| size(sides) > 0 || is_other(sides));
    let mut deltas: Vec<(&str, Sides<Counts>)> = functions.into_iter().collect();
    let one_sided: BTreeSet<&str> = deltas
        .iter()
        .filter(|(_, Sides { base, change })| {
            let (base, change) = (base.instructions, change.instructions);
            has_one_side(&Sides { base, change })
        })
        .map(|(function, _)| *function)
        .collect();
    let is_last = |function: &str| lacking(function, |name| one_sided.contains(name)).is_some();
    // Stable: equal deltas stay in the order of their names.
    deltas.sort_by_key(|(function, sides)| (is_last(function), std::cmp::Reverse(size(sides))));
    let mut msrs = msrs(&Sides { base, change }, metric);
    let with_msrs = |(function, sides)| FunctionDelta {
        msrs: msrs.remove(function).unwrap_or_default(),
        ..delta(function, &sides, ops, metric)
    };
    deltas.into_iter().map(with_msrs).collect()
}

fn delta(function: &str, sides: &Sides<Counts>, ops: u64, metric: &Metric) -> FunctionDelta {
    let Sides { base, change } = sides;
    let per_op = |base: u64, change: u64| (change as f64 - base as f64) / ops as f64;
    FunctionDelta {
        function: function.to_owned(),
        context: metric.context,
        instructions: Sides { base: base.instructions, change: change.instructions },
        rep_iterations: Sides { base: base.rep_iterations, change: change.rep_iterations },
        delta: per_op(base.instructions, change.instructions),
        rep_delta: per_op(base.rep_iterations, change.rep_iterations),
        wait: Sides { base: base.wait, change: change.wait },
        transfers: Sides { base: base.transfers, change: change.transfers },
        costly: costly(metric.costly, sides),
        msrs: BTreeMap::new(),
        modelled: modelled(metric.modelled, sides),
    }
}

fn none() -> Sides<Counts> {
    Sides { base: Counts::default(), change: Counts::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::METRICS;

    fn profile(lines: &[(Context, &str, u64, u64)]) -> Profile {
        let line = |&(context, function, instructions, rep_iterations): &(_, &str, _, _)| {
            let counts = Counts { instructions, rep_iterations, ..Counts::default() };
            ProfileLine { context, function: function.to_owned(), counts }
        };
        Profile { lines: lines.iter().map(line).collect(), ..Profile::default() }
    }

    #[test]
    fn clones_merge_and_only_differences_of_the_process_remain() {
        use Context::{Interrupt, Process};
        let base = profile(&[
            (Process, "same", 50, 0),
            (Process, "f.isra.0", 10, 0),
            (Process, "f.cold", 5, 0),
            (Process, "rep", 7, 100),
            (Interrupt, "tick", 9, 0),
        ]);
        let change = profile(&[
            (Process, "same", 50, 0),
            (Process, "f.constprop.0", 19, 0),
            (Process, "rep", 7, 140),
            (Process, "b_new", 4, 0),
            (Interrupt, "tick", 90, 0),
        ]);
        let by_rep = deltas(&base, &change, 2, &METRICS[1]);
        assert_eq!(by_rep[0].function, "rep");
        let deltas = deltas(&base, &change, 2, &METRICS[0]);
        let seen: Vec<_> = deltas.iter().map(|d| (d.function.as_str(), d.delta)).collect();
        // f: 19 - (10 + 5) = 4; both 4 / 2 operations, in the order of their names.
        assert_eq!(seen, [("b_new", 2.0), ("f", 2.0), ("rep", 0.0)]);
        assert_eq!(deltas[2].rep_delta, 20.0); // (140 - 100) / 2
    }
}
