//! Makes the Boots of a Plan, several at a time, and runs the rows in each. Every result is on disk
//! before the next Run of that Boot starts.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ktax_engine::wire::Printed;
use ktax_engine::{Cancel, Stop};
use ktax_exits::kvmhost::{GuestEngine, GuestResult, ReadyHost};
use ktax_model::{Boot, Failure, GuestSample, GuestsPlan, Outcome, Result, Run, Sides, Step};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::rundir::RunDir;

/// A method of booting Steps.
pub trait Boots: Sync {
    type Plan: Sync;
    /// Result of a Run.
    type Sample: Serialize + DeserializeOwned;

    /// Boots in order.
    fn steps(plan: &Self::Plan) -> &[Step];
    /// Names of the rows, in the order in which they run.
    fn rows(plan: &Self::Plan) -> Vec<&str>;
    /// Shell script that boots a Step by hand; `$1` names a file with a row's order.
    fn script(&self, plan: &Self::Plan, step: &Step) -> String;
    /// Boots a Step to the state from which its Runs start.
    ///
    /// # Errors
    ///
    /// A failed Boot, with the end of the console, or a cancellation.
    fn boot<'a>(
        &'a self,
        plan: &'a Self::Plan,
        step: &Step,
    ) -> Result<Box<dyn ReadyBoot<Self::Sample> + 'a>, Stop>;
}

/// A booted Step. Each Run starts from the same state.
pub trait ReadyBoot<S> {
    /// Record of this Boot: its kernel, and what the kernel reported.
    fn boot_record(&self) -> Boot;
    /// Console of the Boot; `None` if each Run boots.
    fn console(&self) -> Option<Vec<u8>>;
    /// Order for a row of the Plan: the content of `orders/ROW`.
    fn order(&self, row: usize) -> String;
    /// Makes one Run.
    ///
    /// # Errors
    ///
    /// A failed Run, with the end of the console, or a cancellation.
    fn run(&self, row: usize, order: &str) -> Result<RunResult<S>, Stop>;
}

/// Result of a Run, and the files that are kept.
pub struct RunResult<S> {
    /// A Sample, or the failure.
    pub outcome: Outcome<S>,
    /// The profile of a Sample that has one.
    pub profile: Option<String>,
    /// Output of the guest that could not be read, escaped.
    pub garbled: Option<String>,
    /// Console, or its end, if it is kept.
    pub console: Vec<u8>,
    /// Output of a user's program, if it is kept.
    pub printed: Option<Printed>,
}

impl<S> RunResult<S> {
    /// Result of a Run without a Sample.
    pub(super) fn failed(failure: Failure, console: Vec<u8>) -> RunResult<S> {
        RunResult {
            outcome: Outcome::Failed(failure),
            profile: None,
            garbled: None,
            console,
            printed: None,
        }
    }
}

/// Carries out the Plan of a run directory.
pub struct Driver<'a, B: Boots> {
    pub dir: &'a RunDir<B::Plan>,
    pub boots: B,
    /// Number of concurrent Boots.
    pub jobs: usize,
    /// Raised when the user wants to stop.
    pub cancel: &'a Cancel,
    /// Called from any thread.
    pub observe: &'a (dyn Fn(Event) + Sync),
}

impl<B: Boots> Driver<'_, B> {
    /// Makes every Boot and Run of the Plan that is not on disk yet. Failures of guests are
    /// results; errors are those of the run directory.
    pub fn run(&self) -> Result<(Ended, Timing)> {
        let steps = B::steps(self.plan());
        let failures = FirstFailures::read(self.dir, steps)?;
        run_steps(steps, self.jobs, self.cancel, |step, timing| {
            self.run_step(step, &failures, timing)
        })
    }

    fn plan(&self) -> &B::Plan {
        &self.dir.plan().method
    }

    /// Makes a Boot and those of its Runs that are not on disk yet.
    fn run_step(&self, step: &Step, failures: &FirstFailures, timing: &mut Timing) -> Result<()> {
        let rows = B::rows(self.plan());
        let missing = missing_rows::<_, B::Sample>(self.dir, step, &rows)?;
        (self.observe)(Event::Found(step, rows.len() - missing.len()));
        if missing.is_empty() || self.cancel.is_cancelled() {
            return Ok(());
        }
        self.dir.remove_comparison()?;
        self.dir.prepare(step)?;
        if let Some(failure) = failures.not_booted(step) {
            (self.observe)(Event::Done(step, missing.len()));
            return self.dir.write_boot(step, &Boot::failed(failure));
        }
        (self.observe)(Event::Booting(step));
        // Written before the boot, so that a boot that hangs can be repeated by hand.
        let script = self.boots.script(self.plan(), step);
        self.dir.write_boot_file(step, "argv", script.as_bytes())?;
        let started = Instant::now();
        let boot = || self.boots.boot(self.plan(), step);
        let (booted, lost) = retry_if_lost(self.cancel, self.loss_observer(step), boot);
        timing.add_boot(started.elapsed());
        let lost = lost.into_iter().collect();
        match booted {
            Ok(booted) => {
                if let Some(console) = booted.console() {
                    self.dir.write_boot_file(step, "serial.log", &console)?;
                }
                let boot = Boot { retry_reasons: lost, ..booted.boot_record() };
                self.dir.write_boot(step, &boot)?;
                (self.observe)(Event::Booted(step, &boot));
                self.run_rows(step, &*booted, (&missing, boot), timing)
            }
            // A failure after a cancellation may come from the cancellation.
            Err(_) if self.cancel.is_cancelled() => Ok(()),
            Err(Stop::Cancelled) => Ok(()),
            Err(Stop::Failed(failure, console)) => {
                failures.add(step);
                self.dir.write_boot_file(step, "serial.log", &console)?;
                (self.observe)(Event::Done(step, missing.len()));
                self.dir.write_boot(step, &Boot { retry_reasons: lost, ..Boot::failed(failure) })
            }
        }
    }

    /// Observer of Boots and Runs of this Step that the host lost.
    fn loss_observer<'a>(&'a self, step: &'a Step) -> impl Fn(&Failure) + 'a {
        move |lost| (self.observe)(Event::Lost(step, lost))
    }

    /// Makes the Runs of the missing rows in a Boot.
    fn run_rows(
        &self,
        step: &Step,
        booted: &dyn ReadyBoot<B::Sample>,
        (missing, mut boot): (&[usize], Boot),
        timing: &mut Timing,
    ) -> Result<()> {
        let rows = B::rows(self.plan());
        for &index in missing {
            let (row, order) = (rows[index], booted.order(index));
            (self.observe)(Event::Running(step, row));
            self.dir.remove_run_logs(step, row)?;
            self.dir.write_order(step, row, &order)?;
            let started = Instant::now();
            let (result, lost) =
                retry_if_lost(self.cancel, self.loss_observer(step), || booted.run(index, &order));
            timing.add_run(row, started.elapsed());
            if let Some(lost) = lost {
                boot.retry_reasons.push(lost);
                self.dir.write_boot(step, &boot)?;
            }
            let result = match result {
                Ok(result) => result,
                Err(_) if self.cancel.is_cancelled() => return Ok(()),
                Err(Stop::Cancelled) => return Ok(()),
                Err(Stop::Failed(failure, console)) => RunResult::failed(failure, console),
            };
            if let Some(garbled) = result.garbled {
                self.dir.write_wire(step, row, &garbled)?;
            }
            self.dir.write_console(step, row, &result.console)?;
            if let Some(Printed { stdout, stderr }) = &result.printed {
                self.dir.write_printed(step, row, "stdout", &stdout.text())?;
                self.dir.write_printed(step, row, "stderr", &stderr.text())?;
            }
            let run = Run { row: row.to_owned(), outcome: result.outcome };
            self.dir.write_run(step, &run, result.profile.as_deref())?;
            (self.observe)(Event::Done(step, 1));
        }
        Ok(())
    }
}

/// Events of a run, from which its progress is shown.
#[derive(Debug)]
pub enum Event<'a> {
    /// Number of Runs of a Boot that are on disk. A Boot whose Runs are all on disk is not made
    /// again.
    Found(&'a Step, usize),
    /// A Boot starts, or its snapshot is loaded from the cache.
    Booting(&'a Step),
    /// A Boot is ready for its Runs.
    Booted(&'a Step, &'a Boot),
    /// The host lost a Boot or one of its Runs, which is repeated.
    Lost(&'a Step, &'a Failure),
    /// A row starts.
    Running(&'a Step, &'a str),
    /// Number of Runs of a Boot that ended since the last event, or will not be made.
    Done(&'a Step, usize),
}

impl Event<'_> {
    /// Step of the event's Boot.
    pub fn step(&self) -> &Step {
        match self {
            Event::Found(step, _) | Event::Booting(step) | Event::Lost(step, _) => step,
            Event::Booted(step, _) | Event::Running(step, _) | Event::Done(step, _) => step,
        }
    }
}

/// Reason why a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every Run of the Plan is on disk.
    Complete,
    /// The user cancelled. A later run makes the missing Runs.
    Cancelled,
}

/// Real time of Boots and Runs, summed over all VMs. It is shown and not stored, because results do
/// not contain times.
#[derive(Debug, Clone, Default)]
pub struct Timing {
    /// Number of Boots, including those from the cache.
    pub boots: usize,
    /// Time of these Boots.
    pub boot_time: Duration,
    /// Number of Runs and their time, by row.
    pub runs: BTreeMap<String, (usize, Duration)>,
}

impl Timing {
    pub(super) fn add_boot(&mut self, time: Duration) {
        self.boots += 1;
        self.boot_time += time;
    }

    pub(super) fn add_run(&mut self, row: &str, time: Duration) {
        let entry = self.runs.entry(row.to_owned()).or_default();
        entry.0 += 1;
        entry.1 += time;
    }

    pub(super) fn add(&mut self, other: &Timing) {
        self.boots += other.boots;
        self.boot_time += other.boot_time;
        for (row, (count, time)) in &other.runs {
            let entry = self.runs.entry(row.clone()).or_default();
            entry.0 += count;
            entry.1 += *time;
        }
    }

    /// Time of all Runs.
    pub fn run_time(&self) -> Duration {
        self.runs.values().map(|(_, time)| *time).sum()
    }
}

/// Calls `run_step` for each Step, in `jobs` threads, until a call fails or the user cancels.
fn run_steps(
    steps: &[Step],
    jobs: usize,
    cancel: &Cancel,
    run_step: impl Fn(&Step, &mut Timing) -> Result<()> + Sync,
) -> Result<(Ended, Timing)> {
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((Timing::default(), None));
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, steps.len().max(1)) {
            scope.spawn(|| {
                while let Some(step) = steps.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let mut timing = Timing::default();
                    let result = run_step(step, &mut timing);
                    let mut shared = shared.lock().expect("no thread panics with the lock");
                    shared.0.add(&timing);
                    if let Err(error) = result {
                        shared.1.get_or_insert(error);
                    }
                    if shared.1.is_some() || cancel.is_cancelled() {
                        return;
                    }
                }
            });
        }
    });
    match shared.into_inner().expect("no thread panics with the lock") {
        (_, Some(error)) => Err(error),
        (timing, None) if cancel.is_cancelled() => Ok((Ended::Cancelled, timing)),
        (timing, None) => Ok((Ended::Complete, timing)),
    }
}

/// First failed Boot of each Side. The other Boots of that Side are not made: a row needs all
/// Layouts, and a wrong CPU model or too little memory would fail each Boot.
#[derive(Default)]
pub(super) struct FirstFailures(Mutex<Sides<Option<String>>>);

impl FirstFailures {
    /// Reads the failed Boots on disk that would fail again.
    pub fn read<M>(dir: &RunDir<M>, steps: &[Step]) -> Result<FirstFailures> {
        let failures = FirstFailures::default();
        for step in steps {
            let failure = dir.boot(step)?.and_then(|boot| boot.failure);
            if failure.is_some_and(|failure| !failure.is_worth_retrying()) {
                failures.add(step);
            }
        }
        Ok(failures)
    }

    /// Adds a failed Boot.
    pub fn add(&self, step: &Step) {
        let mut sides = self.0.lock().expect("no thread panics with the lock");
        sides.get_mut(step.side).get_or_insert_with(|| step.name());
    }

    /// Failure of a Step that is not booted, because another Boot of its Side failed.
    pub fn not_booted(&self, step: &Step) -> Option<Failure> {
        let sides = self.0.lock().expect("no thread panics with the lock");
        sides.get(step.side).clone().map(|first| Failure::NotBooted { first })
    }
}

/// Makes a Boot or a Run. If the host lost it, calls `observe` and repeats it once. Also returns
/// the failure by which it was lost.
pub(super) fn retry_if_lost<T>(
    cancel: &Cancel,
    observe: impl Fn(&Failure),
    mut make: impl FnMut() -> Result<T, Stop>,
) -> (Result<T, Stop>, Option<Failure>) {
    match make() {
        Err(Stop::Failed(lost @ Failure::QemuLost { .. }, _)) if !cancel.is_cancelled() => {
            observe(&lost);
            (make(), Some(lost))
        }
        result => (result, None),
    }
}

/// Indices of the rows of a Step that are to run: rows without a Run, and rows whose Run the host
/// failed, which may succeed now.
fn missing_rows<M, S: DeserializeOwned>(
    dir: &RunDir<M>,
    step: &Step,
    rows: &[&str],
) -> Result<Vec<usize>> {
    let boot = dir.boot(step)?;
    if matches!(boot, Some(Boot { failure: Some(failure), .. }) if !failure.is_worth_retrying()) {
        return Ok(Vec::new());
    }
    let mut missing = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        match dir.run::<S>(step, row)?.map(|run| run.outcome) {
            Some(Outcome::Measured(_)) => {}
            Some(Outcome::Failed(failure)) if !failure.is_worth_retrying() => {}
            _ => missing.push(index),
        }
    }
    Ok(missing)
}

impl Boots for &dyn GuestEngine {
    type Plan = GuestsPlan;
    type Sample = GuestSample;

    fn steps(plan: &GuestsPlan) -> &[Step] {
        &plan.steps
    }

    fn rows(plan: &GuestsPlan) -> Vec<&str> {
        plan.asked.rows.iter().map(|row| row.row.as_str()).collect()
    }

    fn script(&self, plan: &GuestsPlan, step: &Step) -> String {
        GuestEngine::script(*self, step.side, &plan.layouts[step.layout])
    }

    fn boot<'a>(
        &'a self,
        plan: &'a GuestsPlan,
        step: &Step,
    ) -> Result<Box<dyn ReadyBoot<GuestSample> + 'a>, Stop> {
        Ok(Box::new(GuestEngine::boot(*self, step.side, &plan.layouts[step.layout])?))
    }
}

impl ReadyBoot<GuestSample> for Box<dyn ReadyHost + '_> {
    /// Record of the host's boot. The plan identifies the host's kernel.
    fn boot_record(&self) -> Boot {
        Boot { busy: (**self).busy(), ..Boot::default() }
    }

    fn console(&self) -> Option<Vec<u8>> {
        (**self).console()
    }

    fn order(&self, row: usize) -> String {
        (**self).order(row)
    }

    fn run(&self, row: usize, _: &str) -> Result<RunResult<GuestSample>, Stop> {
        let GuestResult { run, signature, console } = (**self).run(row)?;
        let outcome = Outcome::Measured(GuestSample { run, signature });
        Ok(RunResult { outcome, profile: None, garbled: None, console, printed: None })
    }
}
