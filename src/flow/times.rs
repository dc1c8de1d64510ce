//! Times: plans, runs and analyses pairs, and names the next steps.

mod blocks;
mod cpus;
mod estimate;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::phases::Options;
use super::programs;
use super::session::Session;
use super::{Error, ErrorContext};
use crate::analyse::{compare_blocks, estimates, never_ran, noise, progress, times, wants_more};
use crate::engine::host::{Host, RunningKernel};
use crate::engine::kvm::{self, check_device};
use crate::engine::noise::Watch;
use crate::engine::qemu::Qemu;
use crate::engine::{self, Measures, Stop, Timed, TimedSetup};
use crate::model::{
    Comparison, Failure, Identity, Plan, RunsOn, Subject, TimedPair, TimedSubject, TimesPlan,
    Warning, Workload,
};
use crate::plan::{Experiment, TimesExperiment, has_own_ops, with_ops};
use crate::run::{Ended, TimesDriver, run_natively};
use crate::rundir::RunDir;
use crate::text::shell_path;
use estimate::rates_of_pairs;

pub use blocks::{BOOTS_OF_A_BLOCK, run_block};
pub(super) use estimate::estimate;

/// Plan with its Kernels, and with numbers of operations that are found by trying on the running
/// kernel.
pub(super) fn plan(
    experiment: &Experiment<TimesExperiment>,
    session: &Session<'_>,
) -> Result<Plan<TimesPlan>, Error> {
    check_machine(experiment)?;
    let mut plan = experiment.plan()?;
    if plan.method.asked.runs_on == RunsOn::Guests {
        Qemu::find(session.qemu.as_deref())?.check_cpu(&plan.method.asked.machine.cpu)?;
    }
    plan.method.kernels = guest_kernels(&plan.method, session)?;
    let native = session
        .native()?
        .with_programs(programs::identify_timed_programs(&mut plan.method, session)?);
    session.observer.status("finding out how many operations take 20 ms");
    let method = session.unless_cancelled(with_calibrated_ops(plan.method.clone(), &native));
    session.observer.status("");
    plan.method = method?;
    Ok(plan)
}

/// Refuses a number of CPUs and settings that this machine does not have.
fn check_machine(experiment: &Experiment<TimesExperiment>) -> Result<(), Error> {
    cpus::check(&experiment.method.asked.machine)?;
    settings_of(experiment).try_for_each(|side| RunningKernel::default().check(side))
}

/// Sides that are settings of the running kernel. Settings of a kernel that the user boots later
/// cannot be checked now.
fn settings_of(experiment: &Experiment<TimesExperiment>) -> impl Iterator<Item = &TimedSubject> {
    let method = &experiment.method;
    let is_here = method.asked.runs_on == RunsOn::RunningKernel;
    method.asked.subjects.both().into_iter().filter(move |side| is_here && side.kernel.is_none())
}

/// Refuses, before anything is measured, what a run would refuse: missing CPUs; KVM or settings
/// that this user may not use; and kernels that the user boots, because one command cannot reboot.
pub(super) fn check(experiment: &Experiment<TimesExperiment>) -> Result<(), Error> {
    check_machine(experiment)?;
    if experiment.method.asked.runs_on == RunsOn::Guests {
        check_device(experiment.method.asked.machine.accelerator)?;
    }
    settings_of(experiment).try_for_each(|side| RunningKernel::default().check_writable(side))?;
    match experiment.plan()?.method.asked.is_in_blocks() {
        false => Ok(()),
        true => Err(blocks::booted_sides(
            "type the same command with `plan` for `compare` and with --out DIR; it prints the \
             next steps",
        )),
    }
}

impl Session<'_> {
    /// Host engine of the running kernel, with its own programs.
    pub fn native(&self) -> Result<Host, Error> {
        let host = Host::new(&self.cache, self.limits.clone(), self.cancel.clone());
        let next = "name another directory with --cache DIR";
        host.or_host("cannot write the guest program to the cache", next)
    }
}

/// Kernels of the guests, which the Plan keeps so that a resumed run uses the same kernels.
fn guest_kernels(
    plan: &TimesPlan,
    session: &Session<'_>,
) -> Result<BTreeMap<String, Identity>, Error> {
    let mut kernels = BTreeMap::new();
    if plan.asked.runs_on == RunsOn::Guests {
        for name in plan.asked.subjects.both().into_iter().flat_map(|s| &s.kernel) {
            if !kernels.contains_key(name) {
                kernels.insert(name.clone(), session.obtain(&Subject::new(name, ""))?.identity);
            }
        }
    }
    Ok(kernels)
}

/// Target length of a loop: long enough for the clock and some timer ticks, short enough for
/// hundreds of loops.
const TARGET_LOOP_NS: u64 = 20_000_000;
/// Minimum length of a loop from which the time of an operation is extrapolated.
const MIN_LOOP_NS: u64 = 2_000_000;

/// Plan with numbers of operations for loops of about [`TARGET_LOOP_NS`] on this machine. Rows that
/// set a number keep it, and programs of guests run once in each loop. A row that fails here fails
/// again in the run, which reports it.
fn with_calibrated_ops(mut plan: TimesPlan, host: &Host) -> Result<TimesPlan, Error> {
    for row in plan.headline.iter_mut().chain(&mut plan.secondary) {
        let is_guest_program = row.is_user_program() && plan.asked.runs_on == RunsOn::Guests;
        if has_own_ops(row) || is_guest_program {
            continue;
        }
        match find_ops(row, host)? {
            Ok(ops) => *row = with_ops(row, ops)?,
            Err(Stop::Cancelled) => return Err(Error::cancelled()),
            Err(Stop::Failed(..)) => {}
        }
    }
    Ok(plan)
}

/// Number of operations for a loop of the target length, by running longer and longer loops.
fn find_ops(row: &Workload, host: &Host) -> Result<Result<u64, Stop>, Error> {
    let mut ops = 1;
    loop {
        let Some(mut ran) = run_natively(host, &with_ops(row, ops)?, 1, false, &|| {}) else {
            return Ok(Err(Stop::Cancelled));
        };
        let ns = ran.samples.pop().and_then(|sample| sample.values.get("nanoseconds").copied());
        let Some(ns) = ns else {
            let failure = ran.failure.unwrap_or(Failure::Garbled { reason: "no time".into() });
            return Ok(Err(Stop::from(failure)));
        };
        let target = TARGET_LOOP_NS as f64 / ns.max(1) as f64 * ops as f64;
        if ns >= MIN_LOOP_NS {
            return Ok(Ok(round_to_two_digits(target).max(1)));
        }
        // The first operation is the slowest, so grow by at most a factor of 32.
        ops = (ops * 32).min(round_to_two_digits(target)).max(ops + 1);
    }
}

/// Rounds to two significant digits, so that similar machines get the same number.
fn round_to_two_digits(value: f64) -> u64 {
    let unit = 10_u64.pow((value.max(1.0).log10().floor() as u32).saturating_sub(1));
    (value / unit as f64).round() as u64 * unit
}

/// Opens the engine of a Plan. `between` is called between two loops.
fn open_engine<'a>(
    dir: &'a RunDir<TimesPlan>,
    session: &'a Session<'_>,
    between: &'a dyn Fn(),
) -> Result<Box<dyn Timed + 'a>, Error> {
    let plan = &dir.plan().method;
    let Some(Measures::Times { open }) =
        engine::find_engine(&plan.asked.engine).map(|engine| engine.measures)
    else {
        return Err(super::no_engine("times", &plan.asked.engine));
    };
    let guests = match plan.asked.runs_on {
        RunsOn::RunningKernel => None,
        RunsOn::Guests => Some(guest_setup(dir, session)?),
    };
    open(TimedSetup {
        plan,
        cache: &session.cache,
        guests,
        native_programs: programs::timed_programs_here(plan, session)?,
        limits: session.limits.clone(),
        between_loops: between,
        cancel: session.cancel.clone(),
        note: Box::new(|text| session.observer.note(text)),
    })
}

/// Setup of the guests of a Plan.
fn guest_setup(dir: &RunDir<TimesPlan>, session: &Session<'_>) -> Result<kvm::GuestSetup, Error> {
    let plan = &dir.plan().method;
    let images = images(plan, session)?;
    let cpus = cpus::choose_for_run(dir)?;
    let programs = programs::timed_programs_in_guests(plan, session)?;
    check_device(plan.asked.machine.accelerator)?;
    Ok(kvm::GuestSetup {
        qemu: Qemu::find(session.qemu.as_deref())?,
        cache: session.cache.clone(),
        images,
        programs,
        shape: plan.asked.machine.clone(),
        cpus,
        host_facts: crate::engine::noise::facts,
        limits: session.limits.clone(),
        cancel: session.cancel.clone(),
    })
}

/// Images of the planned Kernels, by their names.
fn images(plan: &TimesPlan, session: &Session<'_>) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut images = BTreeMap::new();
    for kernel in plan.asked.subjects.both().into_iter().flat_map(|s| &s.kernel) {
        let unplanned = || super::stale_plan(format!("plan.json has no kernel {kernel:?}"));
        let planned = plan.kernels.get(kernel).ok_or_else(unplanned)?;
        images.insert(kernel.clone(), session.image(planned, &Subject::new(kernel, ""))?);
    }
    Ok(images)
}

/// Calls `work` with a driver, and restores the settings of the machine afterwards.
fn drive(
    dir: &RunDir<TimesPlan>,
    session: &Session<'_>,
    wants_more: &dyn Fn(&[TimedPair]) -> bool,
    work: impl FnOnce(&TimesDriver<'_>) -> Result<Ended, Error>,
) -> Result<Ended, Error> {
    dir.prepare_pairs()?;
    // Start the watch after the engine has chosen its CPUs. An error here must not skip the end of
    // the engine, which restores the settings.
    let watch = |work: &mut dyn FnMut()| {
        let cpus = cpus::used_by_run(dir).map_err(|error| io::Error::other(error.to_string()))?;
        let watch = Watch::start_on(&cpus)?;
        work();
        watch.end()
    };
    let between = || session.observer.tick();
    let engine = open_engine(dir, session, &between)?;
    let (engine, watch, cancel) = (&*engine, &watch, &session.cancel);
    let never_ran = &never_ran;
    let ended = work(&TimesDriver { dir, engine, cancel, wants_more, never_ran, watch });
    join_results(ended, engine.end(), |text| session.observer.note(text))
}

/// Joins the result of a run with that of restoring the settings. If both failed, the second
/// failure becomes a note.
fn join_results(
    ended: Result<Ended, Error>,
    restored: Result<(), Stop>,
    note: impl FnOnce(&str),
) -> Result<Ended, Error> {
    let not_restored = match restored {
        Err(Stop::Failed(failure, _)) => Some(format!("{failure}; {}", failure.next_step())),
        Err(Stop::Cancelled) | Ok(()) => None,
    };
    match (ended, not_restored) {
        (Ok(_), Some(message)) => Err(Error::host(message)),
        (Err(error), Some(message)) => {
            note(&message);
            Err(error)
        }
        (ended, None) => ended,
    }
}

/// Runs the missing pairs.
pub(super) fn run(
    dir: &RunDir<TimesPlan>,
    options: Options,
    session: &Session<'_>,
) -> Result<Ended, Error> {
    if dir.plan().method.asked.is_in_blocks() {
        return Err(blocks::booted_sides(blocks::steps(dir)));
    }
    let plan = plan_to_judge(dir, options.allow_differences);
    let has_warned = Cell::new(false);
    let wants_more_pairs = |pairs: &[TimedPair]| {
        // Report a mistyped parameter after the first pair.
        if !pairs.is_empty() && !has_warned.replace(true) {
            for Warning { fact, next_step } in noise::ignored_parameters(&plan.method, pairs) {
                session.observer.note(&format!("{fact}; {next_step}"));
            }
        }
        let estimates = options.peek.then(|| estimates(&plan, pairs));
        session.observer.pairs(&progress(&plan, pairs), estimates.as_deref());
        wants_more(&plan, pairs)
    };
    // Earlier pairs may have been measured on another machine.
    let earlier_pairs = dir.pairs()?.len();
    let ended = drive(dir, session, &wants_more_pairs, |driver| driver.run());
    session.observer.status("");
    let pairs = dir.pairs()?;
    let new_pairs = pairs.get(earlier_pairs..).unwrap_or_default();
    if let Some(rates) = rates_of_pairs(&plan.method, new_pairs) {
        session.observer.rates_measured(&rates);
    }
    ended
}

/// Compares the Sides of the pairs on disk.
pub(super) fn analyse(dir: &RunDir<TimesPlan>, options: Options) -> Result<Comparison, Error> {
    let plan = &plan_to_judge(dir, options.allow_differences);
    let (comparison, next) = match plan.method.asked.is_in_blocks() {
        true => {
            let blocks = dir.blocks()?;
            (compare_blocks(plan, &blocks), blocks::next_step(dir, &blocks))
        }
        false => (
            times(plan, &dir.pairs()?),
            format!("measure with `ktax run {}`", shell_path(dir.root())),
        ),
    };
    if comparison.times().is_none_or(|times| times.pairs + times.controls == 0) {
        let dir = dir.root().display().to_string();
        return Err(Error::user(format!("{dir} has no pair yet")).next(next));
    }
    Ok(comparison)
}

/// Next step for a directory that only has its Plan.
pub(super) fn planned(dir: &RunDir<TimesPlan>) -> String {
    match dir.plan().method.asked.is_in_blocks() {
        true => format!("planned blocks; {}", blocks::steps(dir)),
        false => {
            format!("planned timed pairs; run them with `ktax run {}`", shell_path(dir.root()))
        }
    }
}

/// Plan with the user's permission for differences; the Plan on disk stays unchanged.
fn plan_to_judge(dir: &RunDir<TimesPlan>, allow_differences: bool) -> Plan<TimesPlan> {
    let mut plan = dir.plan().clone();
    plan.method.asked.allow_differences |= allow_differences;
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_two_digits() {
        for (value, rounded) in [
            (0.3, 0),
            (1.0, 1),
            (9.6, 10),
            (99.6, 100),
            (123_456.0, 120_000),
            (1.0e15, 10_u64.pow(15)),
        ] {
            assert_eq!(round_to_two_digits(value), rounded, "{value}");
        }
    }

    #[test]
    fn settings_that_were_not_restored_are_reported() {
        let left = || Err(Failure::Setting { reason: "thp is still never".into() }.into());
        let failed = || Err(Error::host("cannot read /proc/stat: gone").next("mount /proc"));
        let outcome_of = |ended, restored| {
            let mut noted = String::new();
            let result = join_results(ended, restored, |text| noted = text.to_owned());
            (result.map_err(|error| error.to_string()), noted)
        };
        let (result, noted) = outcome_of(failed(), left());
        assert!(result.unwrap_err().contains("mount /proc"));
        assert!(noted.starts_with("thp is still never; "), "{noted}");
        let (result, noted) = outcome_of(Ok(Ended::Complete), left());
        assert!(result.unwrap_err().starts_with("thp is still never; "));
        assert_eq!(noted, "");
        assert!(outcome_of(failed(), Ok(())).0.unwrap_err().contains("mount /proc"));
        assert_eq!(outcome_of(Ok(Ended::Cancelled), Ok(())), (Ok(Ended::Cancelled), String::new()));
    }
}
