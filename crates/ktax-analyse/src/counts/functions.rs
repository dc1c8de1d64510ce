//! Functions that carry a delta.

use std::collections::{BTreeMap, BTreeSet};

use super::paths;
use super::runs::{CountsRuns, Pair};
use ktax_model::{
    Basic, CacheLine, Context, Counter, Counts, Error, FunctionDelta, Metric, Msr, MsrLine,
    PathDelta, Profile, ProfileLine, Result, Sample, Side, Sides, Workload, has_one_side, lacking,
};

/// Most cache lines that are kept: many travel, and these explain a row.
const MOST_CACHE_LINES: usize = 20;

/// Functions of one pair of Runs in the Metric's Context, whose deltas add up to the pair's delta;
/// and the paths from which they are called.
pub(super) fn functions_and_paths(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pair: &Pair,
    metric: &Metric,
) -> Result<(Vec<FunctionDelta>, Vec<PathDelta>)> {
    let profile = |side: Side| -> Result<Profile> {
        let (step, sample) = (pair.steps.get(side), pair.measured.get(side));
        let profile = runs.profile(step, &workload.row)?;
        add_up(&profile, sample, metric).map_err(|(functions, sample)| {
            let source = format!("the functions of {} in boot {}", workload.row, step.name());
            let sums = format!("add up to {functions} instructions, the sample says {sample}");
            let next = "run `ktax doctor`, then measure again into a new directory";
            Error::host(format!("{source} {sums}")).next(next)
        })?;
        Ok(pair.scales.get(side).profile(profile))
    };
    let base = profile(Side::Base)?;
    let change = profile(Side::Change)?;
    let functions = function_deltas(&base, &change, workload.ops, metric);
    // Paths do not have modelled events.
    let paths = match metric.modelled() {
        None => paths::path_deltas(&base, &change, metric),
        Some(_) => Vec::new(),
    };
    Ok((functions, paths))
}

/// Functions that a program of two sizes executes more at the larger size, in one Layout.
pub(super) fn functions_at_larger_size(
    runs: &dyn CountsRuns,
    rows: &[String; 2],
    pair: &Pair,
    ops: u64,
    metric: &Metric,
) -> Result<Vec<FunctionDelta>> {
    let profiles =
        |row: &String| Sides::try_from_fn(|side| runs.profile(pair.steps.get(side), row));
    let Sides { base, change } = larger_size_counts([&profiles(&rows[0])?, &profiles(&rows[1])?]);
    Ok(function_deltas(&base, &change, ops, metric))
}

/// Counts of each function at the larger size beyond those at the smaller one. Where the difference
/// is negative, both Sides get the same addition, so that the delta between them stays.
fn larger_size_counts(sizes: [&Sides<Profile>; 2]) -> Sides<Profile> {
    let mut by_function: BTreeMap<(Context, &str), [Sides<Counts>; 2]> = BTreeMap::new();
    for (size, profiles) in sizes.into_iter().enumerate() {
        for side in Side::BOTH {
            for line in &profiles.get(side).lines {
                let key = (line.context, line.function.as_str());
                let sizes =
                    by_function.entry(key).or_insert_with(|| [zero_counts(), zero_counts()]);
                *sizes[size].get_mut(side) += &line.counts;
            }
        }
    }
    let mut larger = Sides { base: Profile::default(), change: Profile::default() };
    for ((context, function), [small, large]) in by_function {
        let missing = |side| small.get(side).with(large.get(side), u64::saturating_sub);
        let missing = missing(Side::Base).with(&missing(Side::Change), u64::max);
        for side in Side::BOTH {
            let mut counts = *large.get(side);
            counts += &missing;
            counts -= small.get(side);
            let function = function.to_owned();
            larger.get_mut(side).lines.push(ProfileLine { context, function, counts });
        }
    }
    larger
}

/// Cache lines that travelled most in one pair of Runs.
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

/// Checks that the profile adds up to the Sample; the error has both sums.
fn add_up(profile: &Profile, sample: &Sample, metric: &Metric) -> Result<(), (u64, u64)> {
    let sum = lines_in_context(profile, metric).map(|(_, counts)| metric.count(&counts)).sum();
    let expected = metric.raw(sample);
    if sum == expected { Ok(()) } else { Err((sum, expected)) }
}

fn lines_in_context<'a>(
    profile: &'a Profile,
    metric: &Metric,
) -> impl Iterator<Item = (&'a str, Counts)> {
    let context = metric.context;
    let lines = profile.lines.iter().filter(move |line| line.context == context);
    lines.map(|line| (plain(&line.function), line.counts))
}

/// Functions that differ in the Metric's Context, the largest difference first. Functions that
/// differ because the CPU lacks a feature are last.
pub(crate) fn function_deltas(
    base: &Profile,
    change: &Profile,
    ops: u64,
    metric: &Metric,
) -> Vec<FunctionDelta> {
    let mut functions: BTreeMap<&str, Sides<Counts>> = BTreeMap::new();
    for (function, counts) in lines_in_context(base, metric) {
        functions.entry(function).or_insert_with(zero_counts).base += &counts;
    }
    for (function, counts) in lines_in_context(change, metric) {
        functions.entry(function).or_insert_with(zero_counts).change += &counts;
    }
    let size =
        |sides: &Sides<Counts>| metric.count(&sides.base).abs_diff(metric.count(&sides.change));
    // Functions that differ in other counts are shown with the headline.
    let is_other = |sides: &Sides<Counts>| !metric.is_of_kind() && sides.base != sides.change;
    functions.retain(|_, sides| size(sides) > 0 || is_other(sides));
    let mut deltas: Vec<(&str, Sides<Counts>)> = functions.into_iter().collect();
    let one_sided: BTreeSet<&str> = deltas
        .iter()
        .filter(|(_, counts)| has_one_side(&both_sides(counts, Basic::Instructions)))
        .map(|(function, _)| *function)
        .collect();
    let is_last = |function: &str| lacking(function, |name| one_sided.contains(name)).is_some();
    // The sort is stable: equal deltas stay in the order of their names.
    deltas.sort_by_key(|(function, sides)| (is_last(function), std::cmp::Reverse(size(sides))));
    let mut msrs = msrs_by_function(&Sides { base, change }, metric);
    let with_msrs = |(function, sides)| FunctionDelta {
        msrs: msrs.remove(function).unwrap_or_default(),
        ..function_delta(function, &sides, ops, metric)
    };
    deltas.into_iter().map(with_msrs).collect()
}

fn function_delta(
    function: &str,
    sides: &Sides<Counts>,
    ops: u64,
    metric: &Metric,
) -> FunctionDelta {
    let both = |counter: Basic| both_sides(sides, counter);
    let per_op = |counts: &Sides<u64>| (counts.change as f64 - counts.base as f64) / ops as f64;
    FunctionDelta {
        function: function.to_owned(),
        context: metric.context,
        instructions: both(Basic::Instructions),
        rep_iterations: both(Basic::RepIterations),
        delta: per_op(&both(Basic::Instructions)),
        rep_delta: per_op(&both(Basic::RepIterations)),
        wait: both(Basic::Wait),
        transfers: both(Basic::Transfers),
        costly: nonzero_counts(metric.costly(), sides),
        msrs: BTreeMap::new(),
        modelled: nonzero_counts(metric.modelled(), sides),
    }
}

fn zero_counts() -> Sides<Counts> {
    Sides { base: Counts::default(), change: Counts::default() }
}

/// A count of both Sides.
pub(super) fn both_sides(counts: &Sides<Counts>, counter: impl Into<Counter>) -> Sides<u64> {
    let counter = counter.into();
    Sides::from_fn(|side| counts.get(side)[counter])
}

/// Counts of both Sides by counter, without counters that neither Side has.
pub(super) fn nonzero_counts<C: Into<Counter> + Copy + Ord>(
    counters: impl IntoIterator<Item = C>,
    counts: &Sides<Counts>,
) -> BTreeMap<C, Sides<u64>> {
    let pairs = counters.into_iter().map(|counter| (counter, both_sides(counts, counter)));
    pairs.filter(|(_, counts)| *counts != Sides::default()).collect()
}

/// Registers that each function accessed, if the Metric counts such instructions.
fn msrs_by_function<'a>(
    profiles: &Sides<&'a Profile>,
    metric: &Metric,
) -> BTreeMap<&'a str, BTreeMap<Msr, Sides<u64>>> {
    let mut functions: BTreeMap<&str, BTreeMap<Msr, Sides<u64>>> = BTreeMap::new();
    for side in Side::BOTH {
        let lines = profiles.get(side).msrs.iter();
        let is_of =
            |line: &&MsrLine| line.context == metric.context && Some(line.kind) == metric.costly();
        for line in lines.filter(is_of) {
            let msrs = functions.entry(plain(&line.function)).or_default();
            let count = msrs.entry(line.msr).or_default().get_mut(side);
            *count = count.saturating_add(line.count);
        }
    }
    functions
}

/// Suffixes that compilers append to a symbol, each with or without a number: inter-procedural
/// clones, split parts, link-time renames. Two builds rarely agree on them, and they mean the same
/// function.
const SUFFIXES: [&str; 6] = ["cold", "constprop", "isra", "llvm", "lto_priv", "part"];

/// The symbol without the compiler's suffixes: `f` for `f.constprop.0.isra.0.cold`.
pub fn plain(mut symbol: &str) -> &str {
    while let Some(shorter) = without_one_suffix(symbol) {
        symbol = shorter;
    }
    symbol
}

fn without_one_suffix(symbol: &str) -> Option<&str> {
    let (mut head, mut word) = symbol.rsplit_once('.')?;
    if !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) {
        (head, word) = head.rsplit_once('.')?;
    }
    (!head.is_empty() && SUFFIXES.contains(&word)).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{Costly, METRICS, metric};

    fn profile(lines: &[(Context, &str, u64, u64)]) -> Profile {
        let line = |&(context, function, instructions, rep_iterations): &(_, &str, _, _)| {
            let counts = Counts::dispatched(instructions, rep_iterations);
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
        let by_rep = function_deltas(&base, &change, 2, &METRICS[1]);
        assert_eq!(by_rep[0].function, "rep");
        let deltas = function_deltas(&base, &change, 2, &METRICS[0]);
        let seen: Vec<_> = deltas.iter().map(|d| (d.function.as_str(), d.delta)).collect();
        // f: 19 - (10 + 5) = 4; both 4 / 2 operations, in the order of their names.
        assert_eq!(seen, [("b_new", 2.0), ("f", 2.0), ("rep", 0.0)]);
        assert_eq!(deltas[2].rep_delta, 20.0); // (140 - 100) / 2
    }

    #[test]
    fn registers_are_of_the_metrics_kind_context_and_function() {
        let line = |context, kind, msr, function: &str| MsrLine {
            context,
            kind,
            msr: Msr(msr),
            count: 5,
            function: function.to_owned(),
        };
        let base = Profile::default();
        let change = Profile {
            msrs: vec![
                line(Context::Process, Costly::Wrmsr, 0x10, "f"),
                line(Context::Process, Costly::Wrmsr, 0x10, "f.isra.0"),
                line(Context::Process, Costly::Wrmsr, 0x11, "g"),
                line(Context::Process, Costly::Rdmsr, 0x12, "f"),
                line(Context::Interrupt, Costly::Wrmsr, 0x13, "f"),
            ],
            ..Profile::default()
        };
        let metric = metric(Costly::Wrmsr.name()).unwrap();
        let found = msrs_by_function(&Sides { base: &base, change: &change }, metric);
        assert_eq!(found["f"], [(Msr(0x10), Sides { base: 0, change: 10 })].into());
    }

    #[test]
    fn suffixes_go_however_many_there_are() {
        for (symbol, expected) in [
            ("do_fork", "do_fork"),
            ("f.isra.0", "f"),
            ("f.constprop.0.isra.12", "f"),
            ("f.part.0.cold", "f"),
            ("f.cold.3", "f"),
            ("f.llvm.1234567890", "f"),
            ("f.lto_priv.0", "f"),
            ("[user]", "[user]"),
            ("f.12", "f.12"), // a number of something else
            ("__key.cold_start", "__key.cold_start"),
            (".cold", ".cold"), // nothing would remain
            ("f.", "f."),
        ] {
            assert_eq!(plain(symbol), expected, "{symbol}");
        }
    }
}
