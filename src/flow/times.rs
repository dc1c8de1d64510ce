//! Times: plans, runs and analyses pairs, and says what to do next.

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

/// Plan with its Kernels, and with the number of operations, which is found on the running kernel.
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

/// Refuses CPUs, settings and values that this machine does not have.
fn check_machine(experiment: &Experiment<TimesExperiment>) -> Result<(), Error> {
    cpus::check(&experiment.method.asked.machine)?;
    settings_of(experiment).try_for_each(|side| RunningKernel::default().check(side))
}

/// Sides that are settings of the running kernel. A kernel that the user boots may have other
/// settings.
fn settings_of(experiment: &Experiment<TimesExperiment>) -> impl Iterator<Item = &TimedSubject> {
    let method = &experiment.method;
    let is_here = method.asked.runs_on == RunsOn::RunningKernel;
    method.asked.subjects.both().into_iter().filter(move |side| is_here && side.kernel.is_none())
}

/// Refuses early what a run would refuse: missing CPUs, a KVM or settings that this user may not
/// use, and Sides that the user boots, because one command cannot boot another kernel.
pub(super) fn check(experiment: &Experiment<TimesExperiment>) -> Result<(), Error> {
    check_machine(experiment)?;
    if experiment.method.asked.runs_on == RunsOn::Guests {
        check_device(experiment.method.asked.machine.accelerator)?;
    }
    settings_of(experiment).try_for_each(|side| RunningKernel::default().check_writable(side))?;
    match experiment.plan()?.method.asked.is_in_blocks() {
        false => Ok(()),
        true => Err(blocks::booted_sides(
            "type the same command with `plan` for `compare` and with --out DIR; it says what to \
             type then",
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

/// Kernels of the guests, so that a resumed run uses the same ones.
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

/// Wanted length of a loop: long enough for the clock and some timer ticks, short enough for
/// hundreds of loops.
const LOOP_NS: u64 = 20_000_000;
/// Length from which a loop tells the time of an operation.
const ENOUGH_NS: u64 = 2_000_000;

/// Plan with operations for loops of about [`LOOP_NS`] on this machine. Rows that name their number
/// keep it, programs of guests run once in each loop, and failures are left to the run.
fn with_calibrated_ops(mut plan: TimesPlan, host: &Host) -> Result<TimesPlan, Error> {
    for row in plan.headline.iter_mut().chain(&mut plan.secondary) {
        let is_of_guests = row.is_user_program() && plan.asked.runs_on == RunsOn::Guests;
        if has_own_ops(row) || is_of_guests {
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
        let wanted = LOOP_NS as f64 / ns.max(1) as f64 * ops as f64;
        if ns >= ENOUGH_NS {
            return Ok(Ok(two_digits(wanted).max(1)));
        }
        // The first operation is the slowest, so try more before extrapolating.
        ops = (ops * 32).min(two_digits(wanted)).max(ops + 1);
    }
}

/// Rounds to two digits, so that similar machines get the same number.
fn two_digits(value: f64) -> u64 {
    let unit = 10_u64.pow((value.max(1.0).log10().floor() as u32).saturating_sub(1));
    (value / unit as f64).round() as u64 * unit
}

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
        RunsOn::Guests => Some(guests(dir, session)?),
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

fn guests(dir: &RunDir<TimesPlan>, session: &Session<'_>) -> Result<kvm::GuestSetup, Error> {
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

fn images(plan: &TimesPlan, session: &Session<'_>) -> Result<BTreeMap<String, PathBuf>, Error> {
    let mut images = BTreeMap::new();
    for kernel in plan.asked.subjects.both().into_iter().flat_map(|s| &s.kernel) {
        let unplanned = || super::stale(format!("plan.json has no kernel {kernel:?}"));
        let planned = plan.kernels.get(kernel).ok_or_else(unplanned)?;
        images.insert(kernel.clone(), session.image(planned, &Subject::new(kernel, ""))?);
    }
    Ok(images)
}

/// Calls `work` with a driver, and restores afterwards what it changed.
fn drive(
    dir: &RunDir<TimesPlan>,
    session: &Session<'_>,
    wants_more: &dyn Fn(&[TimedPair]) -> bool,
    work: impl FnOnce(&TimesDriver<'_>) -> Result<Ended, Error>,
) -> Result<Ended, Error> {
    dir.prepare_pairs()?;
    // The engine must choose its CPUs first. After a failure its changes must be restored.
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

/// Joins the results of a run and of restoring the settings. If both failed, the second error
/// becomes a note.
fn join_results(
    ended: Result<Ended, Error>,
    put_back: Result<(), Stop>,
    say: impl FnOnce(&str),
) -> Result<Ended, Error> {
    let left = match put_back {
        Err(Stop::Failed(failure, _)) => Some(format!("{failure}; {}", failure.next_step())),
        Err(Stop::Cancelled) | Ok(()) => None,
    };
    match (ended, left) {
        (Ok(_), Some(left)) => Err(Error::host(left)),
        (Err(error), Some(left)) => {
            say(&left);
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
    let ask = |pairs: &[TimedPair]| {
        // Report a mistyped parameter after the first pair.
        if !pairs.is_empty() && !has_warned.replace(true) {
            for Warning { fact, next_step } in noise::ignored_parameters(&plan.method, pairs) {
                session.observer.note(&format!("{fact}; {next_step}"));
            }
        }
        let known = options.peek.then(|| estimates(&plan, pairs));
        session.observer.pairs(&progress(&plan, pairs), known.as_deref());
        wants_more(&plan, pairs)
    };
    // Earlier pairs may come from another machine.
    let there = dir.pairs()?.len();
    let ended = drive(dir, session, &ask, |driver| driver.run());
    session.observer.status("");
    if let Some(rates) = rates_of_pairs(&plan.method, dir.pairs()?.get(there..).unwrap_or_default())
    {
        session.observer.store_rates(&rates);
    }
    ended
}

/// Judges the pairs on disk.
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
    fn two_digits_are_kept() {
        for (value, rounded) in [
            (0.3, 0),
            (1.0, 1),
            (9.6, 10),
            (99.6, 100),
            (123_456.0, 120_000),
            (1.0e15, 10_u64.pow(15)),
        ] {
            assert_eq!(two_digits(value), rounded, "{value}");
        }
    }

    #[test]
    fn what_was_not_put_back_is_said_however_the_run_ended() {
        let left = || Err(Failure::Setting { reason: "thp is still never".into() }.into());
        let failed = || Err(Error::host("cannot read /proc/stat: gone").next("mount /proc"));
        let outcome_of = |ended, put_back| {
            let mut noted = String::new();
            let result = join_results(ended, put_back, |text| noted = text.to_owned());
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
