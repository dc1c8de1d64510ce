//! Drives the Boots of a Plan through their rows, several at a time, and puts each result on disk
//! before the next Run of that Boot starts.

use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::event::{Ended, Event};
use super::first::{FirstFailures, at_most_twice};
use super::missing::missing;
use super::steps;
use super::timing::Timing;
use crate::rundir::{RunDir, RunDirError};
use ktax_engine::wire::Printed;
use ktax_engine::{Cancel, Stop};
use ktax_model::{Boot, Failure, Outcome, Run, Step};

/// How the Steps of a method are booted.
pub trait Boots: Sync {
    /// What is carried out.
    type Plan: Sync;
    /// What a Run measures.
    type Sample: Serialize + DeserializeOwned;

    /// The Boots in order.
    fn steps(plan: &Self::Plan) -> &[Step];
    /// The names of the rows.
    fn rows(plan: &Self::Plan) -> Vec<&str>;
    /// A shell script that boots a Step by hand; `$1` names a file with a row's order.
    fn script(&self, plan: &Self::Plan, step: &Step) -> String;
    /// Boots a Step up to where its Runs start.
    ///
    /// # Errors
    /// With a typed failure and the end of the console, which is a failed Boot; or cancelled.
    fn boot<'a>(
        &'a self,
        plan: &'a Self::Plan,
        step: &Step,
    ) -> Result<Box<dyn ReadyBoot<Self::Sample> + 'a>, Stop>;
}

/// What Runs start from, each from the same state.
pub trait ReadyBoot<S> {
    /// What it says about itself.
    fn about(&self) -> Boot;
    /// Its console up to here; `None` where each Run boots.
    fn console(&self) -> Option<Vec<u8>>;
    /// What it is told to do for this row of the Plan: the content of `orders/ROW`.
    fn order(&self, row: usize) -> String;
    /// Makes one Run.
    ///
    /// # Errors
    /// With a typed failure and the end of the console, which is a failed Run; or cancelled.
    fn run(&self, row: usize, order: &str) -> Result<Made<S>, Stop>;
}

/// What came of a Run.
pub struct Made<S> {
    /// A Sample, or why there is none.
    pub outcome: Outcome<S>,
    /// The profile of a Sample that has one.
    pub profile: Option<String>,
    /// What could not be read of what the guest printed, escaped.
    pub garbled: Option<String>,
    /// The console, or its end, where it is kept.
    pub console: Vec<u8>,
    /// What a program of the user's printed, where it is kept.
    pub printed: Option<Printed>,
}

impl<S> Made<S> {
    /// A Run without a Sample.
    pub(super) fn failed(failure: Failure, console: Vec<u8>) -> Made<S> {
        Made {
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
    /// Where results go.
    pub dir: &'a RunDir<B::Plan>,
    /// What runs the Boots.
    pub boots: B,
    /// Boots at a time.
    pub jobs: usize,
    /// Raised when the user wants to stop.
    pub cancel: &'a Cancel,
    /// Called from any thread.
    pub observe: &'a (dyn Fn(Event) + Sync),
}

impl<B: Boots> Driver<'_, B> {
    /// Makes every Boot and Run of the Plan that is not on disk yet.
    ///
    /// # Errors
    /// The run directory cannot be written or read. What fails in a guest is a row.
    pub fn run(&self) -> Result<(Ended, Timing), RunDirError> {
        let steps = B::steps(self.plan());
        let failed = FirstFailures::read(self.dir, steps)?;
        steps::each(steps, self.jobs, self.cancel, |step, timing| self.step(step, &failed, timing))
    }

    fn plan(&self) -> &B::Plan {
        &self.dir.plan().method
    }

    fn step(
        &self,
        step: &Step,
        failed: &FirstFailures,
        timing: &mut Timing,
    ) -> Result<(), RunDirError> {
        let rows = B::rows(self.plan());
        let missing = missing::<_, B::Sample>(self.dir, step, &rows)?;
        (self.observe)(Event::Found(step, rows.len() - missing.len()));
        if missing.is_empty() || self.cancel.is_cancelled() {
            return Ok(());
        }
        self.dir.forget_comparison()?;
        self.dir.prepare(step)?;
        if let Some(failure) = failed.spare(step) {
            (self.observe)(Event::Done(step, missing.len()));
            return self.dir.write_boot(step, &Boot::failed(failure));
        }
        (self.observe)(Event::Booting(step));
        // Before the boot, so that one that hangs can be repeated by hand.
        let script = self.boots.script(self.plan(), step);
        self.dir.write_boot_file(step, "argv", script.as_bytes())?;
        let started = Instant::now();
        let boot = || self.boots.boot(self.plan(), step);
        let (booted, lost) = at_most_twice(self.cancel, self.hears_of(step), boot);
        timing.boot(started.elapsed());
        let lost = lost.into_iter().collect();
        match booted {
            Ok(booted) => {
                if let Some(console) = booted.console() {
                    self.dir.write_boot_file(step, "serial.log", &console)?;
                }
                let boot = Boot { lost, ..booted.about() };
                self.dir.write_boot(step, &boot)?;
                (self.observe)(Event::Booted(step, &boot));
                self.runs(step, &*booted, (&missing, boot), timing)
            }
            // A failure while everything is being stopped may be the stopping's own.
            Err(_) if self.cancel.is_cancelled() => Ok(()),
            Err(Stop::Cancelled) => Ok(()),
            Err(Stop::Failed(failure, console)) => {
                failed.note(step);
                self.dir.write_boot_file(step, "serial.log", &console)?;
                (self.observe)(Event::Done(step, missing.len()));
                self.dir.write_boot(step, &Boot { lost, ..Boot::failed(failure) })
            }
        }
    }

    /// Says what the host lost of this Step.
    fn hears_of<'a>(&'a self, step: &'a Step) -> impl Fn(&Failure) + 'a {
        move |lost| (self.observe)(Event::Lost(step, lost))
    }

    fn runs(
        &self,
        step: &Step,
        booted: &dyn ReadyBoot<B::Sample>,
        (missing, mut boot): (&[usize], Boot),
        timing: &mut Timing,
    ) -> Result<(), RunDirError> {
        let rows = B::rows(self.plan());
        for &at in missing {
            let (row, order) = (rows[at], booted.order(at));
            (self.observe)(Event::Running(step, row));
            self.dir.forget_run(step, row)?;
            self.dir.write_order(step, row, &order)?;
            let started = Instant::now();
            let (made, lost) =
                at_most_twice(self.cancel, self.hears_of(step), || booted.run(at, &order));
            timing.run(row, started.elapsed());
            if let Some(lost) = lost {
                boot.lost.push(lost);
                self.dir.write_boot(step, &boot)?;
            }
            let made = match made {
                Ok(made) => made,
                Err(_) if self.cancel.is_cancelled() => return Ok(()),
                Err(Stop::Cancelled) => return Ok(()),
                Err(Stop::Failed(failure, console)) => Made::failed(failure, console),
            };
            if let Some(garbled) = made.garbled {
                self.dir.write_wire(step, row, &garbled)?;
            }
            self.dir.write_console(step, row, &made.console)?;
            if let Some(Printed { stdout, stderr }) = &made.printed {
                self.dir.write_printed(step, row, "stdout", &stdout.text())?;
                self.dir.write_printed(step, row, "stderr", &stderr.text())?;
            }
            let run = Run { row: row.to_owned(), outcome: made.outcome };
            self.dir.write_run(step, &run, made.profile.as_deref())?;
            (self.observe)(Event::Done(step, 1));
        }
        Ok(())
    }
}
