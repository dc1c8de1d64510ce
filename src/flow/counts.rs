//! Counts with the exact engine: gets both Kernels, makes every Boot and Run, and explains why the
//! counts of a program differ between layouts.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Mutex;

use syscalls::x86_64::Sysno;

use super::Error;
use super::programs;
use super::remaining::Work;
use super::session::Session;
use super::store;
use crate::analyse::{self, TraceDifference, trace_difference};
use crate::engine::qemu::Qemu;
use crate::engine::{self, CountsSetup, Measures, Stop};
use crate::kernel;
use crate::model::{
    AskedCounts, Boot, Comparison, CountsPlan, Plan, Row, Side, Sides, Step, TracedCall, Warning,
};
use crate::plan::{CountsExperiment, Experiment};
use crate::program::PackedModules;
use crate::run::{CountsBoots, Driver, Ended, Event, traced};
use crate::rundir::{AnyRunDir, RunDir};
use crate::text::counted;

/// Gets both Kernels, asks QEMU for its version, and draws the Layouts.
pub(super) fn plan(
    experiment: &Experiment<CountsExperiment>,
    session: &Session<'_>,
) -> Result<Plan<CountsPlan>, Error> {
    let experiment = &programs::with_traced_files(experiment, session)?;
    let method = &experiment.method;
    let AskedCounts { machine, subjects: Sides { base, change }, guest, .. } = &method.asked;
    // Check names before anything is fetched.
    method.rows()?;
    let Measures::Counts { key, .. } = method.engine.measures else {
        return Err(super::no_engine("counts", method.engine.name));
    };
    let qemu = Qemu::find(session.qemu.as_deref())?;
    qemu.check_cpu(&machine.cpu)?;
    qemu.check_cpus(machine.cpus)?;
    let user_space = programs::compiled_guest(guest.workloads_from.as_deref(), session)?;
    let packed = programs::pack(&method.asked, session)?;
    let is_same_kernel = change.has_same_kernel(base);
    if !is_same_kernel {
        // Find mistakes in the change before the base is built.
        session.with_talk(|talk| kernel::check(change, &session.cache, talk))?;
    }
    let base = session.obtain(base)?.identity;
    let change = match is_same_kernel {
        true => base.clone(),
        false => session.obtain(change)?.identity,
    };
    let key = key(&qemu, machine);
    let (key, archives) =
        programs::key_with_archives(key, &user_space, &packed, guest.all_modules());
    let plan = experiment.plan(Sides { base, change }, key, archives)?;
    // Modules that are missing are reported now. The run finds the archives in the cache.
    drop(pack_modules(&plan.method, session)?);
    Ok(plan)
}

/// Packs the modules that the guests of each Side load, and the modules that a real machine loads
/// for its CPU. `None` for a Side without modules.
fn pack_modules(
    plan: &CountsPlan,
    session: &Session<'_>,
) -> Result<Sides<Option<PackedModules>>, Error> {
    let modules = |side| {
        let kernel = plan.kernels.get(side);
        programs::packed_modules(&plan.modules_of(side), kernel, session)
    };
    Sides::try_from_fn(modules)
}

/// Makes every missing Boot.
pub(super) fn run(dir: &RunDir<CountsPlan>, session: &Session<'_>) -> Result<Ended, Error> {
    with_boots(dir, session, |boots| {
        let to_keep = store::take(dir, session)?;
        let observer = session.observer;
        observer.begin(&work(&dir.plan().method, session));
        let warned = Mutex::new(BTreeSet::new());
        let driver = Driver {
            dir,
            boots,
            jobs: session.jobs,
            cancel: &session.cancel,
            observe: &|event| {
                observer.event(&event);
                if let Event::Booted(step, boot) = event {
                    note_unknown_parameters(&dir.plan().method, step, boot, &warned, session);
                }
            },
        };
        let (ended, timing) = driver.run()?;
        observer.end(&timing);
        if ended == Ended::Complete {
            store::keep(&to_keep, dir, session)?;
        }
        Ok(ended)
    })
}

/// Notes the boot parameters that a Side's kernel does not know, after the Side's first boot, so
/// that a mistyped parameter is reported before all runs have ended.
fn note_unknown_parameters(
    plan: &CountsPlan,
    step: &Step,
    boot: &Boot,
    warned: &Mutex<BTreeSet<Side>>,
    session: &Session<'_>,
) {
    let is_first = warned.lock().is_ok_and(|mut warned| warned.insert(step.side));
    if !is_first {
        return;
    }
    let boot_line = &plan.asked.subjects.get(step.side).boot_line;
    let is_ignored = |word: &str| boot.ignored.iter().any(|ignored| ignored == word);
    for Warning { fact, next_step } in analyse::unknown_parameters(step.side, boot_line, is_ignored)
    {
        session.observer.note(&format!("{fact}; {next_step}"));
    }
}

/// Opens the engine of a Plan, and calls `call` with its Boots.
fn with_boots<T>(
    dir: &RunDir<CountsPlan>,
    session: &Session<'_>,
    call: impl FnOnce(CountsBoots<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let plan = &dir.plan().method;
    let engine = engine::find_engine(&plan.key.engine).map(|engine| engine.measures);
    let Some(Measures::Counts { key, open }) = engine else {
        return Err(super::no_engine("counts", &plan.key.engine));
    };
    let qemu = Qemu::find(session.qemu.as_deref())?;
    let guest = programs::planned_guest(plan, session)?;
    let packed = programs::planned_programs(plan, session)?;
    let modules = plan.key.modules.clone();
    let (key, archives) =
        programs::key_with_archives(key(&qemu, &plan.asked.machine), &guest, &packed, modules);
    if key != plan.key || archives != plan.archives {
        return Err(super::other_key(dir.root(), &plan.key, &key));
    }
    let image = |side| session.image(plan.kernels.get(side), plan.asked.subjects.get(side));
    let images = Sides::try_from_fn(image)?;
    let modules = pack_modules(plan, session)?;
    let limits = session.limits.clone().for_cpus(plan.asked.machine.cpus);
    let virtual_s = limits.virtual_s;
    let (cache, cancel) = (session.cache.as_path(), session.cancel.clone());
    let cpus = plan.asked.machine.cpus;
    let setup = CountsSetup { qemu, cpus, cache, limits, cancel, guest };
    let engine = open(setup)?;
    call(CountsBoots { engine: &*engine, images, modules, programs: packed, virtual_s })
}

/// Work of a Plan, for estimates.
pub(super) fn work(plan: &CountsPlan, session: &Session<'_>) -> Work {
    Work {
        engine: plan.key.engine.clone(),
        boots: plan.steps.len(),
        rows: plan.workloads.iter().map(|row| row.row.clone()).collect(),
        jobs: session.jobs,
    }
}

/// Explains why the counts of programs differ between Layouts. Each such program runs under ptrace
/// in the two Layouts with the largest difference, and the system calls that returned different
/// data are named. The caller has locked the directory.
pub fn explain_noise(
    dir: &AnyRunDir,
    comparison: &Comparison,
    session: &Session<'_>,
) -> Result<Vec<String>, Error> {
    let AnyRunDir::Counts(dir) = dir else {
        return Ok(vec![NOT_COUNTS.into()]);
    };
    let plan = &dir.plan().method;
    let is_program =
        |row: &&Row| plan.asked.guest.programs.iter().any(|program| program.row() == row.row);
    let rows: Vec<&Row> = comparison.rows.iter().filter(is_program).collect();
    let noisy: Vec<&&Row> = rows.iter().filter(|row| is_noisy(row)).collect();
    if noisy.is_empty() {
        if !rows.is_empty() && plan.layouts.len() < 2 {
            return Ok(vec![ONE_LAYOUT.into()]);
        }
        let reason = if rows.is_empty() { NO_PROGRAM } else { NO_NOISE };
        return Ok(vec![reason.into()]);
    }
    with_boots(dir, session, |boots| {
        let explain = |row: &&Row| {
            session.observer.status(&format!("tracing {}", row.row));
            let traces = trace_in_two_layouts(&boots, plan, row);
            session.observer.status("");
            match traces {
                Ok([first, other]) => {
                    Ok(noise_sentence(&row.row, &trace_difference(&first, &other)))
                }
                Err(Stop::Cancelled) => Err(Error::cancelled()),
                Err(Stop::Failed(failure, _)) => {
                    Ok(format!("{} cannot be traced: {failure}", row.row))
                }
            }
        };
        noisy.iter().map(|row| explain(row)).collect()
    })
}

const NOT_COUNTS: &str = "--explain-noise explains the counts of programs, and this run has times";
const ONE_LAYOUT: &str =
    "--explain-noise compares layouts, and this run has one; measure with --layouts 2 or more";
const NO_PROGRAM: &str = "--explain-noise explains the counts of programs, and this run has none";
const NO_NOISE: &str =
    "the counts of each program are the same in all layouts; there is nothing to explain";

/// Traces of a program in two Layouts.
fn trace_in_two_layouts(
    boots: &CountsBoots<'_>,
    plan: &CountsPlan,
    row: &Row,
) -> Result<[Vec<TracedCall>; 2], Stop> {
    let program = plan.workloads.iter().find(|workload| workload.row == row.row);
    let program = program.expect("a row of a plan is one of its workloads");
    let [first, other] = steps_of_extremes(plan, row);
    Ok([traced(boots, plan, first, program)?, traced(boots, plan, other, program)?])
}

/// Steps with the smallest and the largest count, on the Side with the larger range.
fn steps_of_extremes<'a>(plan: &'a CountsPlan, row: &Row) -> [&'a Step; 2] {
    let counts = |side: Side| row.effects().first().map(|effect| effect.samples.get(side));
    let steps_on = |side: Side| plan.steps.iter().filter(move |step| step.side == side);
    let pair = |side: Side| {
        let counted = counts(side).into_iter().flatten().copied().zip(steps_on(side));
        let (min, max) = (counted.clone().min_by_key(by_count), counted.max_by_key(by_count));
        let ((min, first), (max, other)) = min.zip(max)?;
        Some((max - min, [first, other]))
    };
    let pairs = Side::BOTH.into_iter().filter_map(pair);
    let pair = pairs.max_by_key(|(range, _)| *range);
    pair.expect("a noisy row has counts").1
}

fn by_count(counted: &(u64, &Step)) -> u64 {
    counted.0
}

/// Returns true if the headline differs between the layouts of a Side.
fn is_noisy(row: &Row) -> bool {
    let first = row.effects().first();
    let differs = |counts: &Vec<u64>| counts.windows(2).any(|pair| pair[0] != pair[1]);
    first.is_some_and(|effect| Side::BOTH.iter().any(|side| differs(effect.samples.get(*side))))
}

/// Sentence about the system calls that returned different data, the most frequent first.
fn noise_sentence(row: &str, difference: &TraceDifference) -> String {
    let mut differing: Vec<(u16, u64)> =
        difference.changed_results.iter().map(|(number, times)| (*number, *times)).collect();
    differing.sort_by_key(|(number, times)| (Reverse(*times), *number));
    let times = |(number, times): &(u16, u64)| {
        let times = usize::try_from(*times).unwrap_or(usize::MAX);
        format!("{} ({})", system_call_name(*number), counted(times, "time"))
    };
    let differing: Vec<String> = differing.iter().map(times).collect();
    let diverging: Vec<String> =
        difference.diverging_calls.iter().map(|number| system_call_name(*number)).collect();
    let calls = match difference.is_cut {
        true => format!("its first {} system calls", TracedCall::MAX_CALLS),
        false => "its system calls".to_owned(),
    };
    let mut text = match differing.is_empty() {
        true => format!(
            "{row}: {calls} returned the same data in two layouts; the difference is the kernel's \
             own work"
        ),
        false => {
            format!(
                "{row}: {calls} returned different data in two layouts: {}",
                differing.join(", ")
            )
        }
    };
    if !diverging.is_empty() {
        text += &format!("; the order of calls differs from {} on", diverging.join(", "));
    }
    text
}

/// Name of a system call, or of the instruction that reads the clock.
fn system_call_name(number: u16) -> String {
    match Sysno::new(number.into()) {
        _ if number == TracedCall::RDTSC => "rdtsc".to_owned(),
        Some(call) => call.name().to_owned(),
        None => format!("system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_system_call_comes_first() {
        let difference = |calls: &[(u16, u64)], diverging: &[u16]| TraceDifference {
            changed_results: calls.iter().copied().collect(),
            diverging_calls: diverging.iter().copied().collect(),
            is_cut: false,
        };
        let few = [(318, 1), (228, 7), (511, 1), (510, 1)];
        let text = noise_sentence("program:a", &difference(&few, &[]));
        let named = "clock_gettime (7 times), getrandom (1 time), system call 510 (1 time), rdtsc \
            (1 time)";
        let beginning = "program:a: its system calls returned different data in two layouts: ";
        assert_eq!(text, format!("{beginning}{named}"));
        let text = noise_sentence("program:a", &difference(&few, &[202]));
        assert!(text.ends_with("; the order of calls differs from futex on"), "{text}");
        let cut = TraceDifference { is_cut: true, ..TraceDifference::default() };
        let text = noise_sentence("program:a", &cut);
        assert!(text.contains("its first 32768 system calls returned the same data"), "{text}");
    }
}
