//! Drives the hosts of a Plan through their guests, several at a time, and puts each result on
//! disk before the next guest of that host starts.

use std::time::Instant;

use crate::engine::{Cancel, Stop};
use crate::kvmhost::{GuestEngine, ReadyHost, Recorded};
use crate::model::{Boot, GuestSample, GuestsPlan, Outcome, Run, Step};
use crate::run::event::{Ended, Event};
use crate::run::first::{FirstFailures, at_most_twice};
use crate::run::missing::missing;
use crate::run::steps;
use crate::run::timing::Timing;
use crate::rundir::{RunDir, RunDirError};

/// Everything that guests of a KVM host need.
pub struct GuestsDriver<'a> {
    /// Where results go.
    pub dir: &'a RunDir<GuestsPlan>,
    /// What runs the hosts and their guests.
    pub engine: &'a dyn GuestEngine,
    /// Hosts at a time.
    pub jobs: usize,
    /// Raised when the user wants to stop.
    pub cancel: &'a Cancel,
    /// Called from any thread.
    pub observe: &'a (dyn Fn(Event) + Sync),
}

impl GuestsDriver<'_> {
    /// Makes every Boot and Run of the Plan that is not on disk yet.
    ///
    /// # Errors
    /// The run directory cannot be written or read. What fails in a host or guest is a row.
    pub fn run(&self) -> Result<(Ended, Timing), RunDirError> {
        let steps = &self.plan().steps;
        let failed = FirstFailures::read(self.dir, steps)?;
        steps::each(steps, self.jobs, self.cancel, |step, timing| self.step(step, &failed, timing))
    }

    fn plan(&self) -> &GuestsPlan {
        &self.dir.plan().method
    }

    fn step(
        &self,
        step: &Step,
        failed: &FirstFailures,
        timing: &mut Timing,
    ) -> Result<(), RunDirError> {
        let rows = self.plan().rows.iter().map(|row| row.row.as_str());
        let missing = missing::<_, GuestSample>(self.dir, step, rows)?;
        (self.observe)(Event::Found(step, self.plan().rows.len() - missing.len()));
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
        let layout = &self.plan().layouts[step.layout];
        let script = self.engine.script(step.side, layout);
        self.dir.write_boot_file(step, "argv", script.as_bytes())?;
        let started = Instant::now();
        let (booted, lost) =
            at_most_twice(self.cancel, self.observe, step, || self.engine.boot(step.side, layout));
        let lost = lost.into_iter().collect();
        timing.boot(started.elapsed());
        match booted {
            Ok(host) => {
                if let Some(console) = host.console() {
                    self.dir.write_boot_file(step, "serial.log", &console)?;
                }
                // A host says nothing of its kernel: the plan has the image's hash.
                let boot = Boot { busy: host.busy(), lost, ..Boot::default() };
                self.dir.write_boot(step, &boot)?;
                self.rows(step, host.as_ref(), (&missing, boot), timing)
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

    fn rows(
        &self,
        step: &Step,
        host: &dyn ReadyHost,
        (missing, mut boot): (&[usize], Boot),
        timing: &mut Timing,
    ) -> Result<(), RunDirError> {
        for &at in missing {
            let row = &self.plan().rows[at].row;
            (self.observe)(Event::Running(step, row));
            self.dir.forget_run(step, row)?;
            self.dir.write_order(step, row, &host.order(at))?;
            let started = Instant::now();
            let (recorded, lost) = at_most_twice(self.cancel, self.observe, step, || host.run(at));
            timing.run(row, started.elapsed());
            if let Some(lost) = lost {
                boot.lost.push(lost);
                self.dir.write_boot(step, &boot)?;
            }
            let (outcome, console) = match recorded {
                Ok(Recorded { run, signature, console }) => {
                    (Outcome::Measured(GuestSample { run, signature }), console)
                }
                Err(_) if self.cancel.is_cancelled() => return Ok(()),
                Err(Stop::Cancelled) => return Ok(()),
                Err(Stop::Failed(failure, console)) => (Outcome::Failed(failure), console),
            };
            self.dir.write_console(step, row, &console)?;
            self.dir.write_run(step, &Run { row: row.clone(), outcome }, None)?;
            (self.observe)(Event::Done(step, 1));
        }
        Ok(())
    }
}
