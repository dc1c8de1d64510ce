//! Work of a user's program, by the profile of its Region.
//!
//! Each function of a profile has its number of calls on each path. A system call is a call from
//! the kernel's dispatcher, so its name and its number of calls are exact, also with QEMU 7.2. The
//! `syscall` instructions of user mode are counted apart. The difference is calls that no function
//! served: a filter refused them, or there is no such call.

use std::collections::{BTreeMap, BTreeSet};

use super::functions::plain;
use super::runs::{CountsRuns, Pair};
use ktax_model::{
    Context, Costly, Path, Profile, ProgramWork, Result, Sample, Side, Sides, TransferredBytes,
    Verdict, WorkDifference, WorkEvidence, Workload,
};
use ktax_stats::exact::are_apart;

/// Functions that call a system call's function by its number; kernels before 4.17 have the last
/// one.
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

/// Prefixes of the names of system calls, as the kernel's macros and aliases write them.
const PREFIXES: [&str; 11] = [
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

const PAGE_FAULT: [&str; 2] = ["exc_page_fault", "do_page_fault"];
const FORK: [&str; 3] = ["kernel_clone", "_do_fork", "do_fork"];
const EXEC: [&str; 2] = ["begin_new_exec", "flush_old_exec"];

/// System calls that read a clock where the vDSO cannot: the work is the same.
const CLOCK_CALLS: [&str; 3] = ["clock_gettime", "gettimeofday", "time"];

/// Name of system calls that no function of the kernel served.
const OTHER: &str = "other";

const CLOCK_READS: &str = "clock reads";

/// Work of a program on both Sides; `None` if no Layout was measured.
pub(super) fn program_work_evidence(
    runs: &dyn CountsRuns,
    workload: &Workload,
    pairs: &[Pair],
    shown: Option<usize>,
) -> Result<Option<WorkEvidence>> {
    let work = |pair: &Pair, side: Side| -> Result<ProgramWork> {
        let profile = runs.profile(pair.steps.get(side), &workload.row)?;
        Ok(work_in(&profile, pair.samples.get(side)))
    };
    let works = pairs.iter().map(|pair| Sides::try_from_fn(|side| work(pair, side)));
    let works = works.collect::<Result<Vec<Sides<ProgramWork>>>>()?;
    let Some(sides) = shown.and_then(|layout| works.get(layout)).cloned() else { return Ok(None) };
    let differences = differences(&works, &sides);
    Ok(Some(WorkEvidence { sides, differences }))
}

fn work_in(profile: &Profile, sample: &Sample) -> ProgramWork {
    let calls_of = |functions: &[&str]| {
        let paths = profile.paths.iter().filter(|path| path.context == Context::Process);
        let calls = paths.filter(|path| functions.contains(&plain(&path.function)));
        calls.fold(0, |sum: u64, path| sum.saturating_add(path.calls))
    };
    let value = |name: &str| sample.values.get(name).copied();
    let bytes = value("bytes-read").zip(value("bytes-written"));
    ProgramWork {
        system_calls: system_calls(profile),
        clock_reads: user_mode(profile, Costly::Rdtsc),
        page_faults: calls_of(&PAGE_FAULT),
        forks: calls_of(&FORK),
        execs: calls_of(&EXEC),
        bytes: bytes.map(|(read, written)| TransferredBytes { read, written }),
    }
}

fn system_calls(profile: &Profile) -> BTreeMap<String, u64> {
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    let mut callers: Vec<&str> = Vec::new();
    for Path { context, depth, function, calls: count, .. } in &profile.paths {
        callers.truncate(*depth as usize);
        let is_dispatched = callers.last().is_some_and(|caller| DISPATCHERS.contains(caller));
        let function = plain(function);
        callers.push(function);
        let name = PREFIXES.iter().find_map(|prefix| function.strip_prefix(prefix));
        if let Some(name) = name.filter(|_| is_dispatched && *context == Context::Process) {
            // A path can have a call from before the Region, which does not count.
            if *count > 0 {
                *calls.entry(name.to_owned()).or_default() += count;
            }
        }
    }
    let named = calls.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
    let rest = user_mode(profile, Costly::Syscall).saturating_sub(named);
    calls.extend((rest > 0).then(|| (OTHER.to_owned(), rest)));
    calls
}

/// Number of costly instructions of this kind in user mode.
fn user_mode(profile: &Profile, kind: Costly) -> u64 {
    let lines = profile.lines.iter().filter(|line| {
        let is_user = line.function.starts_with('[') && line.function != "[kernel]";
        is_user && line.context == Context::Process
    });
    lines.fold(0, |sum: u64, line| sum.saturating_add(line.counts[kind]))
}

type OtherCount = (&'static str, fn(&ProgramWork) -> u64);

/// Counts of work that a program does not request by itself.
const OTHERS: [OtherCount; 5] = [
    ("page faults", |work| work.page_faults),
    ("forks", |work| work.forks),
    ("execs", |work| work.execs),
    ("bytes read", |work| work.bytes.unwrap_or_default().read),
    ("bytes written", |work| work.bytes.unwrap_or_default().written),
];

/// Differences that hold over all Layouts, with the counts of the Layout that is shown.
fn differences(works: &[Sides<ProgramWork>], shown: &Sides<ProgramWork>) -> Vec<WorkDifference> {
    let calls = |work: &ProgramWork, name: &str| work.system_calls.get(name).copied().unwrap_or(0);
    // Without the vDSO's clock each read of a clock is a system call, with equal work.
    let clocks = |work: &ProgramWork| {
        let calls = CLOCK_CALLS.iter().map(|name| calls(work, name));
        calls.fold(work.clock_reads, u64::saturating_add)
    };
    let clock = difference(works, shown, CLOCK_READS, clocks);
    let is_compared = |name: &&&String| clock.is_some() || !CLOCK_CALLS.contains(&name.as_str());
    let sides = works.iter().flat_map(|work| work.each());
    let names: BTreeSet<&String> = sides.flat_map(|work| work.system_calls.keys()).collect();
    let names = names.iter().filter(is_compared);
    let requests =
        names.filter_map(|name| difference(works, shown, name, |work| calls(work, name)));
    let mut found: Vec<WorkDifference> = requests.chain(clock.clone()).collect();
    found.iter_mut().for_each(|request| request.is_request = true);
    // The sort is stable: equal differences stay in the order of the names.
    found.sort_by_key(|request| {
        std::cmp::Reverse(request.count.base.abs_diff(request.count.change))
    });
    let others = OTHERS.iter().filter_map(|(what, count)| difference(works, shown, what, count));
    found.extend(others);
    found
}

/// One difference; `None` if the Sides differ by no more than Layouts of one Side do.
fn difference(
    works: &[Sides<ProgramWork>],
    shown: &Sides<ProgramWork>,
    what: &str,
    count: impl Fn(&ProgramWork) -> u64,
) -> Option<WorkDifference> {
    let values = |side: Side| -> Vec<f64> {
        works.iter().map(|work| count(work.get(side)) as f64).collect()
    };
    are_apart(&values(Side::Base), &values(Side::Change)).then(|| WorkDifference {
        what: what.to_owned(),
        is_request: false,
        count: Sides::from_fn(|side| count(shown.get(side))),
    })
}

/// Source of a program's number of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationSource {
    /// Not known: a run is one operation.
    Unknown,
    Given,
    Printed,
}

/// If the user gives the operations, the calls may differ by this much where the cost does not: a
/// kernel may need one call more or less at a program's start.
const GIVEN_MAY_DIFFER_PERCENT: f64 = 1.0;

/// Whether the Sides requested such different work that their costs do not compare.
pub(super) fn is_other_work(work: &WorkEvidence, verdict: Verdict, known: OperationSource) -> bool {
    let differs = work.requests().next().is_some();
    match known {
        OperationSource::Unknown => differs,
        // As many instructions for a different number of calls: the program runs for a fixed time.
        OperationSource::Given => {
            differs
                && verdict.is_answer()
                && !verdict.is_change()
                && work.requests_differ_percent() >= GIVEN_MAY_DIFFER_PERCENT
        }
        OperationSource::Printed => false,
    }
}

/// Most calls that are named in a reason.
const MOST_CALLS: usize = 5;

/// Reasons why the work differs: `system calls 29616 in base, 20016 in change (getppid 29600,
/// 20000)`.
pub(super) fn work_reasons(work: &WorkEvidence, samples: &Sides<Sample>) -> Vec<String> {
    let in_both = |what: &str, count: &Sides<u64>| {
        format!("{what} {} in base, {} in change", count.base, count.change)
    };
    let (clocks, calls): (Vec<_>, Vec<_>) =
        work.requests().partition(|difference| difference.what == CLOCK_READS);
    let mut reasons = Vec::new();
    if !calls.is_empty() {
        let describe = |difference: &&WorkDifference| {
            let WorkDifference { what, count, .. } = difference;
            format!("{what} {}, {}", count.base, count.change)
        };
        let mut named: Vec<String> = calls.iter().take(MOST_CALLS).map(describe).collect();
        let more = calls.len().saturating_sub(MOST_CALLS);
        named.extend((more > 0).then(|| format!("{more} more")));
        let totals = Sides::from_fn(|side| work.sides.get(side).all_system_calls());
        reasons.push(format!("{} ({})", in_both("system calls", &totals), named.join(" · ")));
    }
    reasons.extend(clocks.into_iter().map(|clock| in_both(CLOCK_READS, &clock.count)));
    reasons.extend(fixed_time(work, samples));
    reasons
}

/// Reason, if the program stopped at a fixed time of the guest's clock, whatever it had done by
/// then.
fn fixed_time(work: &WorkEvidence, samples: &Sides<Sample>) -> Option<String> {
    let Sides { base, change } = Sides::from_fn(|side| samples.get(side).tsc);
    let percent = 100.0 * base.abs_diff(change) as f64 / base.max(1) as f64;
    let is_fixed = percent * 10.0 < work.requests_differ_percent();
    is_fixed.then(|| {
        let ms = base as f64 / 1e6;
        format!("both sides ran for {ms:.2} ms of the guest's clock: a program of a fixed time")
    })
}
