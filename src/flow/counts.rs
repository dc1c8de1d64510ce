//! Counts with the exact engine: gets both Kernels, makes every Boot and Run, and explains why a
//! program does not repeat.

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
    let is_one = change.has_same_kernel(base);
    if !is_one {
        // Find mistakes in the change before the base is built.
        session.talking(|talk| kernel::check(change, &session.cache, talk))?;
    }
    let base = session.obtain(base)?.identity;
    let change = match is_one {
        true => base.clone(),
        false => session.obtain(change)?.identity,
    };
    let key = key(&qemu, machine);
    let (key, archives) =
        programs::key_with_archives(key, &user_space, &packed, guest.all_modules());
    let plan = experiment.plan(Sides { base, change }, key, archives)?;
    pack_modules(&plan.method, session)?;
    Ok(plan)
}

/// Packs the modules that the guests of each Side load, with those that a real machine loads for
/// its CPU. `None` for a Side that loads no modules of its own.
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

/// Makes every Boot that is missing.
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
                    say_unknown_parameters(&dir.plan().method, step, boot, &warned, session);
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

/// Notes the boot parameters that a Side's kernel does not know, at its first boot: a mistyped
/// parameter is reported before all runs have ended.
fn say_unknown_parameters(
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

/// Number of boots and rows, for estimates.
pub(super) fn work(plan: &CountsPlan, session: &Session<'_>) -> Work {
    Work {
        engine: plan.key.engine.clone(),
        boots: plan.steps.len(),
        rows: plan.workloads.iter().map(|row| row.row.clone()).collect(),
        jobs: session.jobs,
    }
}

/// Explains, for each program whose counts differ between Layouts, which system calls gave it
/// different data. It runs the program under ptrace in the two Layouts whose counts are furthest
/// apart. The caller has locked the directory.
pub fn explain_noise(
    dir: &AnyRunDir,
    comparison: &Comparison,
    session: &Session<'_>,
) -> Result<Vec<String>, Error> {
    let AnyRunDir::Counts(dir) = dir else {
        return Ok(vec!["only counts of a program are explained; times always have noise".into()]);
    };
    let plan = &dir.plan().method;
    let is_program =
        |row: &&Row| plan.asked.guest.programs.iter().any(|program| program.row() == row.row);
    let rows: Vec<&Row> = comparison.rows.iter().filter(is_program).collect();
    let noisy: Vec<&&Row> = rows.iter().filter(|row| is_noisy(row)).collect();
    if noisy.is_empty() {
        if !rows.is_empty() && plan.layouts.len() < 2 {
            return Ok(vec!["noise is between layouts; measure with --layouts 2 or more".into()]);
        }
        let reason = if rows.is_empty() { "there is no program" } else { "no program is noisy" };
        return Ok(vec![format!("{reason}; there is nothing to explain")]);
    }
    with_boots(dir, session, |boots| {
        let explain = |row: &&Row| {
            session.observer.status(&format!("tracing {}", row.row));
            let traces = trace_in_two_layouts(&boots, plan, row);
            session.observer.status("");
            match traces {
                Ok([first, other]) => Ok(sentence(&row.row, &trace_difference(&first, &other))),
                Err(Stop::Cancelled) => Err(Error::cancelled()),
                Err(Stop::Failed(failure, _)) => {
                    Ok(format!("{} cannot be traced: {failure}", row.row))
                }
            }
        };
        noisy.iter().map(|row| explain(row)).collect()
    })
}

fn trace_in_two_layouts(
    boots: &CountsBoots<'_>,
    plan: &CountsPlan,
    row: &Row,
) -> Result<[Vec<TracedCall>; 2], Stop> {
    let program = plan.workloads.iter().find(|workload| workload.row == row.row);
    let program = program.expect("a row of a plan is one of its workloads");
    let [first, other] = furthest_apart(plan, row);
    Ok([traced(boots, plan, first, program)?, traced(boots, plan, other, program)?])
}

/// Steps with the smallest and the largest count, on the Side with the larger range.
fn furthest_apart<'a>(plan: &'a CountsPlan, row: &Row) -> [&'a Step; 2] {
    let counts = |side: Side| row.effects().first().map(|effect| effect.samples.get(side));
    let steps_from_seed = |side: Side| plan.steps.iter().filter(move |step| step.side == side);
    let pair = |side: Side| {
        let counted = counts(side).into_iter().flatten().copied().zip(steps_from_seed(side));
        let (least, most) = (counted.clone().min_by_key(by_count), counted.max_by_key(by_count));
        let ((least, first), (most, other)) = least.zip(most)?;
        Some((most - least, [first, other]))
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

fn sentence(row: &str, difference: &TraceDifference) -> String {
    let mut given: Vec<(u16, u64)> =
        difference.changed_results.iter().map(|(number, times)| (*number, *times)).collect();
    given.sort_by_key(|(number, times)| (Reverse(*times), *number));
    let times = |(number, times): &(u16, u64)| {
        let times = usize::try_from(*times).unwrap_or(usize::MAX);
        format!("{} {}", system_call_name(*number), counted(times, "time"))
    };
    let given: Vec<String> = given.iter().map(times).collect();
    let apart: Vec<String> =
        difference.diverging_calls.iter().map(|number| system_call_name(*number)).collect();
    let until = match difference.is_cut {
        true => format!(", up to its system call {},", TracedCall::MAX_CALLS),
        false => String::new(),
    };
    let mut text = match given.is_empty() {
        true => format!(
            "{row}: two layouts{until} gave it the same by every system call; what differs is the \
             kernel's own work"
        ),
        false => {
            format!("{row}: two layouts{until} gave it something else by {}", given.join(", "))
        }
    };
    if !apart.is_empty() {
        text += &format!("; its runs went apart at {}", apart.join(", "));
    }
    text
}

/// Name of a system call.
fn system_call_name(number: u16) -> String {
    match Sysno::new(number.into()) {
        _ if number == TracedCall::RDTSC => "the clock (rdtsc)".to_owned(),
        Some(call) => call.name().to_owned(),
        None => format!("system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_most_comes_first() {
        let difference = |given: &[(u16, u64)], apart: &[u16]| TraceDifference {
            changed_results: given.iter().copied().collect(),
            diverging_calls: apart.iter().copied().collect(),
            is_cut: false,
        };
        let few = [(318, 1), (228, 7), (511, 1), (510, 1)];
        let text = sentence("program:a", &difference(&few, &[]));
        let named = "clock_gettime 7 times, getrandom 1 time, system call 510 1 time, the clock \
            (rdtsc) 1 time";
        assert_eq!(text, format!("program:a: two layouts gave it something else by {named}"));
        let text = sentence("program:a", &difference(&few, &[202]));
        assert!(text.ends_with("; its runs went apart at futex"), "{text}");
        let cut = TraceDifference { is_cut: true, ..TraceDifference::default() };
        let text = sentence("program:a", &cut);
        assert!(text.contains("two layouts, up to its system call 32768, gave it the same"));
    }
}
