//! Functions that carry a delta, and the work of a user's program, from the profiles of both Sides.
//!
//! A profile has the number of calls of each function on each path. A function that the kernel's
//! dispatcher calls is a system call, so the names and counts of system calls are exact, also with
//! QEMU 7.2. The `syscall` instructions of user mode are counted separately. Those without a
//! function are system calls that a filter refused or that do not exist.

use std::collections::{BTreeMap, BTreeSet};

use super::paths;
use super::runs::{CountsRuns, Pair};
use ktax_model::{
    Basic, CacheLine, Context, Costly, Counter, Counts, Error, FunctionDelta, Metric, Msr, MsrLine,
    Path, PathDelta, Profile, ProfileLine, ProgramWork, Result, Sample, Side, Sides,
    TransferredBytes, Verdict, WorkDifference, WorkEvidence, Workload, is_one_sided,
    missing_feature,
};
use ktax_stats::exact::are_separate;

/// Maximum number of cache lines that are kept: many lines move between CPUs, and the first few
/// explain a row.
const MAX_CACHE_LINES: usize = 20;

/// Functions and call paths of one pair of Runs in the Metric's Context. The deltas of the
/// functions add up to the pair's delta.
pub(super) fn functions_and_paths(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pair: &Pair,
    metric: &Metric,
) -> Result<(Vec<FunctionDelta>, Vec<PathDelta>)> {
    let profile = |side: Side| -> Result<Profile> {
        let (step, sample) = (pair.steps.get(side), pair.measured.get(side));
        let profile = runs.profile(step, &workload.row)?;
        check_sum(&profile, sample, metric).map_err(|(functions, sample)| {
            let source = format!("the functions of {} in boot {}", workload.row, step.name());
            let sums = format!("add up to {functions} instructions, but the sample has {sample}");
            let next = "run `ktax doctor`, then measure again in a new directory";
            Error::host(format!("{source} {sums}")).next(next)
        })?;
        Ok(pair.scales.get(side).profile(profile))
    };
    let base = profile(Side::Base)?;
    let change = profile(Side::Change)?;
    let functions = function_deltas(&base, &change, workload.ops, metric);
    // Profiles do not count modelled events by path.
    let paths = match metric.modelled() {
        None => paths::path_deltas(&base, &change, metric),
        Some(_) => Vec::new(),
    };
    Ok((functions, paths))
}

/// Deltas (change − base) of the extra work at the larger of two sizes, by function, under one
/// Layout.
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

/// Counts of each function at the larger size minus those at the smaller size. If a difference is
/// negative, the same number is added on both Sides, which keeps the delta between the Sides.
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
        let deficit = |side| small.get(side).zip_with(large.get(side), u64::saturating_sub);
        let addition = deficit(Side::Base).zip_with(&deficit(Side::Change), u64::max);
        for side in Side::BOTH {
            let mut counts = *large.get(side);
            counts += &addition;
            counts -= small.get(side);
            let function = function.to_owned();
            larger.get_mut(side).lines.push(ProfileLine { context, function, counts });
        }
    }
    larger
}

/// Cache lines that moved most often between CPUs in one pair of Runs.
pub(super) fn cache_lines(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pair: &Pair,
) -> Result<Sides<Vec<CacheLine>>> {
    Sides::try_from_fn(|side| {
        let mut lines = runs.profile(pair.steps.get(side), &workload.row)?.cache_lines;
        lines.truncate(MAX_CACHE_LINES);
        Ok(lines)
    })
}

/// Checks that the counts of a profile add up to the Sample's count. The error is the sum and the
/// Sample's count.
fn check_sum(profile: &Profile, sample: &Sample, metric: &Metric) -> Result<(), (u64, u64)> {
    let counts = lines_in_context(profile, metric).map(|(_, counts)| metric.count(&counts));
    let sum = counts.fold(0, u64::saturating_add);
    let expected = metric.raw_count(sample);
    if sum == expected { Ok(()) } else { Err((sum, expected)) }
}

/// Counts by function name, with compilers' suffixes removed, in the Metric's Context.
fn lines_in_context<'a>(
    profile: &'a Profile,
    metric: &Metric,
) -> impl Iterator<Item = (&'a str, Counts)> {
    let context = metric.context;
    let lines = profile.lines.iter().filter(move |line| line.context == context);
    lines.map(|line| (plain(&line.function), line.counts))
}

/// Functions that differ in the Metric's Context, the largest difference first. Functions that only
/// one Side executes because the CPU lacks a feature are last.
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
    // The headline also lists functions that differ in another count, such as REP iterations.
    let differs_otherwise =
        |sides: &Sides<Counts>| !metric.is_costly_or_modelled() && sides.base != sides.change;
    functions.retain(|_, sides| size(sides) > 0 || differs_otherwise(sides));
    let mut deltas: Vec<(&str, Sides<Counts>)> = functions.into_iter().collect();
    let one_sided: BTreeSet<&str> = deltas
        .iter()
        .filter(|(_, counts)| is_one_sided(&both_sides(counts, Basic::Instructions)))
        .map(|(function, _)| *function)
        .collect();
    let is_last =
        |function: &str| missing_feature(function, |name| one_sided.contains(name)).is_some();
    // The sort is stable, so equal deltas stay in the order of their names.
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

/// Count of one counter on both Sides.
pub(super) fn both_sides(counts: &Sides<Counts>, counter: impl Into<Counter>) -> Sides<u64> {
    let counter = counter.into();
    Sides::from_fn(|side| counts.get(side)[counter])
}

/// Counts of both Sides by counter, without counters that are 0 on both Sides.
pub(super) fn nonzero_counts<C: Into<Counter> + Copy + Ord>(
    counters: impl IntoIterator<Item = C>,
    counts: &Sides<Counts>,
) -> BTreeMap<C, Sides<u64>> {
    let pairs = counters.into_iter().map(|counter| (counter, both_sides(counts, counter)));
    pairs.filter(|(_, counts)| *counts != Sides::default()).collect()
}

/// MSRs that each function accessed; empty unless the Metric counts `rdmsr` or `wrmsr`.
fn msrs_by_function<'a>(
    profiles: &Sides<&'a Profile>,
    metric: &Metric,
) -> BTreeMap<&'a str, BTreeMap<Msr, Sides<u64>>> {
    let mut functions: BTreeMap<&str, BTreeMap<Msr, Sides<u64>>> = BTreeMap::new();
    for side in Side::BOTH {
        let lines = profiles.get(side).msrs.iter();
        let is_of_metric =
            |line: &&MsrLine| line.context == metric.context && Some(line.kind) == metric.costly();
        for line in lines.filter(is_of_metric) {
            let msrs = functions.entry(plain(&line.function)).or_default();
            let count = msrs.entry(line.msr).or_default().get_mut(side);
            *count = count.saturating_add(line.count);
        }
    }
    functions
}

/// Suffixes that compilers append to a symbol, with or without a number: inter-procedural clones,
/// split parts, link-time renames. They differ between builds of the same function.
const SUFFIXES: [&str; 6] = ["cold", "constprop", "isra", "llvm", "lto_priv", "part"];

/// Removes the compiler's suffixes from a symbol: `f` for `f.constprop.0.isra.0.cold`.
pub fn plain(mut symbol: &str) -> &str {
    while let Some(shorter) = without_one_suffix(symbol) {
        symbol = shorter;
    }
    symbol
}

/// Removes the last suffix and its number; `None` if the symbol has no compiler's suffix.
fn without_one_suffix(symbol: &str) -> Option<&str> {
    let (mut head, mut word) = symbol.rsplit_once('.')?;
    if !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) {
        (head, word) = head.rsplit_once('.')?;
    }
    (!head.is_empty() && SUFFIXES.contains(&word)).then_some(head)
}

/// Functions that call the function of a system call by number; the last one is that of kernels
/// before 4.17.
const DISPATCHERS: [&str; 10] = [
    "do_syscall_64",
    "x64_sys_call",
    "x32_sys_call",
    "ia32_sys_call",
    "do_int80_syscall_32",
    "do_int80_emulation",
    "int80_emulation",
    "__do_fast_syscall_32",
    "do_fast_syscall_32",
    "entry_SYSCALL_64_fastpath",
];

/// Prefixes of the functions of system calls, as the kernel's macros and aliases define them.
const SYSTEM_CALL_PREFIXES: [&str; 11] = [
    "__x64_sys_",
    "__ia32_sys_",
    "__x64_compat_sys_",
    "__ia32_compat_sys_",
    "__x32_compat_sys_",
    "__do_sys_",
    "__se_sys_",
    "__do_compat_sys_",
    "compat_sys_",
    "SyS_",
    "sys_",
];

/// Functions, in newer and older kernels, whose calls are counted as page faults, forks and execs.
const PAGE_FAULT_FUNCTIONS: [&str; 2] = ["exc_page_fault", "do_page_fault"];
const FORK_FUNCTIONS: [&str; 3] = ["kernel_clone", "_do_fork", "do_fork"];
const EXEC_FUNCTIONS: [&str; 2] = ["begin_new_exec", "flush_old_exec"];

/// System calls that read a clock if the vDSO cannot; a read by the vDSO is the same work.
const CLOCK_CALLS: [&str; 3] = ["clock_gettime", "gettimeofday", "time"];

/// Name for system calls that no function of the kernel handled.
const UNHANDLED_CALLS: &str = "other";

/// Name for reads of the time-stamp counter in user mode, as by the vDSO.
const CLOCK_READS: &str = "clock reads";

/// Work of a program on both Sides; `None` if no Layout was measured.
pub(super) fn program_work_evidence(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pairs: &[Pair],
    shown_layout: Option<usize>,
) -> Result<Option<WorkEvidence>> {
    let work = |pair: &Pair, side: Side| -> Result<ProgramWork> {
        let profile = runs.profile(pair.steps.get(side), &workload.row)?;
        Ok(program_work(&profile, pair.samples.get(side)))
    };
    let works = pairs.iter().map(|pair| Sides::try_from_fn(|side| work(pair, side)));
    let works = works.collect::<Result<Vec<Sides<ProgramWork>>>>()?;
    let Some(sides) = shown_layout.and_then(|layout| works.get(layout)).cloned() else {
        return Ok(None);
    };
    let differences = work_differences(&works, &sides);
    Ok(Some(WorkEvidence { sides, differences }))
}

/// Work of a program in one Run.
fn program_work(profile: &Profile, sample: &Sample) -> ProgramWork {
    let calls_of = |functions: &[&str]| {
        let paths = profile.paths.iter().filter(|path| path.context == Context::Process);
        let calls = paths.filter(|path| functions.contains(&plain(&path.function)));
        calls.fold(0, |sum: u64, path| sum.saturating_add(path.calls))
    };
    let value = |name: &str| sample.values.get(name).copied();
    let bytes = value("bytes-read").zip(value("bytes-written"));
    ProgramWork {
        system_calls: system_calls(profile),
        clock_reads: user_mode_count(profile, Costly::Rdtsc),
        page_faults: calls_of(&PAGE_FAULT_FUNCTIONS),
        forks: calls_of(&FORK_FUNCTIONS),
        execs: calls_of(&EXEC_FUNCTIONS),
        bytes: bytes.map(|(read, written)| TransferredBytes { read, written }),
    }
}

/// Number of system calls by name.
fn system_calls(profile: &Profile) -> BTreeMap<String, u64> {
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    let mut callers: Vec<&str> = Vec::new();
    for Path { context, depth, function, calls: count, .. } in &profile.paths {
        callers.truncate(*depth as usize);
        let is_dispatched = callers.last().is_some_and(|caller| DISPATCHERS.contains(caller));
        let function = plain(function);
        callers.push(function);
        let name = SYSTEM_CALL_PREFIXES.iter().find_map(|prefix| function.strip_prefix(prefix));
        if let Some(name) = name.filter(|_| is_dispatched && *context == Context::Process) {
            // A call from before the Region can be on a path, with a count of 0.
            if *count > 0 {
                *calls.entry(name.to_owned()).or_default() += count;
            }
        }
    }
    let named = calls.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
    let rest = user_mode_count(profile, Costly::Syscall).saturating_sub(named);
    calls.extend((rest > 0).then(|| (UNHANDLED_CALLS.to_owned(), rest)));
    calls
}

/// Number of costly instructions of this kind in user mode.
fn user_mode_count(profile: &Profile, kind: Costly) -> u64 {
    let lines = profile.lines.iter().filter(|line| {
        let is_user = line.function.starts_with('[') && line.function != "[kernel]";
        is_user && line.context == Context::Process
    });
    lines.fold(0, |sum: u64, line| sum.saturating_add(line.counts[kind]))
}

/// Name of a count, and the count in a program's work.
type NamedCount = (&'static str, fn(&ProgramWork) -> u64);

/// Counts that differences of system calls do not show.
const OTHER_COUNTS: [NamedCount; 5] = [
    ("page faults", |work| work.page_faults),
    ("forks", |work| work.forks),
    ("execs", |work| work.execs),
    ("bytes read", |work| work.bytes.unwrap_or_default().read),
    ("bytes written", |work| work.bytes.unwrap_or_default().written),
];

/// Differences of work that hold over all Layouts, with the counts of the Layout that is shown.
fn work_differences(
    works: &[Sides<ProgramWork>],
    shown: &Sides<ProgramWork>,
) -> Vec<WorkDifference> {
    let calls = |work: &ProgramWork, name: &str| work.system_calls.get(name).copied().unwrap_or(0);
    // Without the vDSO's clock, each read of a clock is a system call. If the sums are equal,
    // neither the reads nor these system calls are a difference.
    let all_clock_reads = |work: &ProgramWork| {
        let calls = CLOCK_CALLS.iter().map(|name| calls(work, name));
        calls.fold(work.clock_reads, u64::saturating_add)
    };
    let clock = work_difference(works, shown, CLOCK_READS, all_clock_reads);
    let is_compared = |name: &&&String| clock.is_some() || !CLOCK_CALLS.contains(&name.as_str());
    let sides = works.iter().flat_map(|work| work.both());
    let names: BTreeSet<&String> = sides.flat_map(|work| work.system_calls.keys()).collect();
    let names = names.iter().filter(is_compared);
    let requests =
        names.filter_map(|name| work_difference(works, shown, name, |work| calls(work, name)));
    let mut found: Vec<WorkDifference> = requests.chain(clock.clone()).collect();
    found.iter_mut().for_each(|request| request.is_request = true);
    // The sort is stable, so equal differences stay in the order of the names.
    found.sort_by_key(|request| {
        std::cmp::Reverse(request.count.base.abs_diff(request.count.change))
    });
    let others =
        OTHER_COUNTS.iter().filter_map(|(name, count)| work_difference(works, shown, name, count));
    found.extend(others);
    found
}

/// Difference of one count; `None` if the Sides do not differ by more than the Layouts of a Side.
fn work_difference(
    works: &[Sides<ProgramWork>],
    shown: &Sides<ProgramWork>,
    name: &str,
    count: impl Fn(&ProgramWork) -> u64,
) -> Option<WorkDifference> {
    let values = |side: Side| -> Vec<f64> {
        works.iter().map(|work| count(work.get(side)) as f64).collect()
    };
    are_separate(&values(Side::Base), &values(Side::Change)).then(|| WorkDifference {
        kind: name.to_owned(),
        is_request: false,
        count: Sides::from_fn(|side| count(shown.get(side))),
    })
}

/// Source of a program's number of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationSource {
    /// No source: a run counts as one operation.
    Unknown,
    /// The user gave the number.
    Given,
    /// The program printed the number.
    Printed,
}

/// Smallest difference of requests, in percent, that counts as different work if costs are equal
/// and the user gave the number of operations. A program may start with one call more or less on
/// another kernel.
const MIN_REQUESTS_DIFFER_PERCENT: f64 = 1.0;

/// Returns true if the Sides requested such different work that their costs cannot be compared.
pub(super) fn is_different_work(
    work: &WorkEvidence,
    verdict: Verdict,
    ops_source: OperationSource,
) -> bool {
    let differs = work.requests().next().is_some();
    match ops_source {
        OperationSource::Unknown => differs,
        // The same cost for a different number of calls: the program runs for a fixed time.
        OperationSource::Given => {
            differs
                && verdict.is_answer()
                && !verdict.is_change()
                && work.request_difference_percent() >= MIN_REQUESTS_DIFFER_PERCENT
        }
        OperationSource::Printed => false,
    }
}

/// Maximum number of system calls that a reason names.
const MAX_NAMED_CALLS: usize = 5;

/// Reasons why the work differs: `system calls 29616 in base, 20016 in change (getppid 29600,
/// 20000)`.
pub(super) fn work_reasons(work: &WorkEvidence, samples: &Sides<Sample>) -> Vec<String> {
    let text_of_count = |name: &str, count: &Sides<u64>| {
        format!("{name} {} in base, {} in change", count.base, count.change)
    };
    let (clocks, calls): (Vec<_>, Vec<_>) =
        work.requests().partition(|difference| difference.kind == CLOCK_READS);
    let mut reasons = Vec::new();
    if !calls.is_empty() {
        let describe = |difference: &&WorkDifference| {
            let WorkDifference { kind, count, .. } = difference;
            format!("{kind} {}, {}", count.base, count.change)
        };
        let mut named: Vec<String> = calls.iter().take(MAX_NAMED_CALLS).map(describe).collect();
        let more = calls.len().saturating_sub(MAX_NAMED_CALLS);
        named.extend((more > 0).then(|| format!("{more} more")));
        let totals = Sides::from_fn(|side| work.sides.get(side).all_system_calls());
        let totals = text_of_count("system calls", &totals);
        reasons.push(format!("{totals} ({})", named.join(" · ")));
    }
    reasons.extend(clocks.into_iter().map(|clock| text_of_count(CLOCK_READS, &clock.count)));
    reasons.extend(fixed_time_reason(work, samples));
    reasons
}

/// Reason if the program runs for a fixed time: the guest's clock differs by less than a tenth of
/// what the requests differ by.
fn fixed_time_reason(work: &WorkEvidence, samples: &Sides<Sample>) -> Option<String> {
    let Sides { base, change } = Sides::from_fn(|side| samples.get(side).tsc);
    let percent = 100.0 * base.abs_diff(change) as f64 / base.max(1) as f64;
    let is_fixed = percent * 10.0 < work.request_difference_percent();
    is_fixed.then(|| {
        let ms = base as f64 / 1e6;
        format!(
            "both sides ran for {ms:.2} ms of the guest's clock: the program runs for a fixed time"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::{Costly, METRICS, metric};

    fn profile(lines: &[(Context, &str, u64, u64)]) -> Profile {
        let line = |&(context, function, instructions, rep_iterations): &(_, &str, _, _)| {
            let counts = Counts::from_instructions(instructions, rep_iterations);
            ProfileLine { context, function: function.to_owned(), counts }
        };
        Profile { lines: lines.iter().map(line).collect(), ..Profile::default() }
    }

    #[test]
    fn clones_are_merged_and_other_contexts_are_left_out() {
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
        let listed: Vec<_> = deltas.iter().map(|d| (d.function.as_str(), d.delta)).collect();
        // f: 19 - (10 + 5) = 4; both 4 / 2 operations, in the order of their names.
        assert_eq!(listed, [("b_new", 2.0), ("f", 2.0), ("rep", 0.0)]);
        assert_eq!(deltas[2].rep_delta, 20.0); // (140 - 100) / 2
    }

    #[test]
    fn msrs_are_selected_by_kind_and_context_and_summed_by_function() {
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
    fn plain_removes_all_compiler_suffixes() {
        for (symbol, expected) in [
            ("do_fork", "do_fork"),
            ("f.isra.0", "f"),
            ("f.constprop.0.isra.12", "f"),
            ("f.part.0.cold", "f"),
            ("f.cold.3", "f"),
            ("f.llvm.1234567890", "f"),
            ("f.lto_priv.0", "f"),
            ("[user]", "[user]"),
            ("f.12", "f.12"), // a number without a compiler's suffix
            ("__key.cold_start", "__key.cold_start"),
            (".cold", ".cold"), // nothing would remain
            ("f.", "f."),
        ] {
            assert_eq!(plain(symbol), expected, "{symbol}");
        }
    }
}
