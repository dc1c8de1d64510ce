//! Drives the Boots of a Plan through their Workloads, several at a time, and puts each result on
//! disk before the next Run of that Boot starts.

use std::path::PathBuf;
use std::time::Instant;

use super::measure;
use crate::engine::{Cancel, Engine, Frozen, RawAnswer, Request, Stop};
use crate::model::{
    Boot, CountsPlan, Failure, Outcome, Region, Run, Sample, Sides, Step, Workload,
};
use crate::run::event::{Ended, Event};
use crate::run::first::{FirstFailures, at_most_twice};
use crate::run::missing::missing;
use crate::run::steps;
use crate::run::timing::Timing;
use crate::rundir::{RunDir, RunDirError};
use crate::text::escape_byte_lines;
use crate::wire::{self, Hello};

/// Everything that counting needs.
pub struct CountsDriver<'a> {
    /// Where results go.
    pub dir: &'a RunDir<CountsPlan>,
    /// What runs the Boots.
    pub engine: &'a dyn Engine,
    /// The Kernels' images.
    pub images: Sides<PathBuf>,
    /// VMs at a time.
    pub jobs: usize,
    /// Raised when the user wants to stop.
    pub cancel: &'a Cancel,
    /// The limit of virtual time for a Region.
    pub virtual_s: u64,
    /// Called from any thread.
    pub observe: &'a (dyn Fn(Event) + Sync),
}

impl CountsDriver<'_> {
    /// Makes every Boot and Run of the Plan that is not on disk yet.
    pub fn run(&self) -> Result<(Ended, Timing), RunDirError> {
        let steps = &self.plan().steps;
        let failed = FirstFailures::read(self.dir, steps)?;
        steps::each(steps, self.jobs, self.cancel, |step, timing| self.step(step, &failed, timing))
    }

    fn plan(&self) -> &CountsPlan {
        &self.dir.plan().method
    }

    fn step(
        &self,
        step: &Step,
        failed: &FirstFailures,
        timing: &mut Timing,
    ) -> Result<(), RunDirError> {
        let workloads = &self.plan().workloads;
        let rows = workloads.iter().map(|workload| workload.row.as_str());
        let missing = missing::<_, Sample>(self.dir, step, rows)?;
        let missing: Vec<&Workload> = missing.into_iter().map(|at| &workloads[at]).collect();
        (self.observe)(Event::Found(step, self.plan().workloads.len() - missing.len()));
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
        let (request, started) = (self.request(step), Instant::now());
        let (boot, lost) = at_most_twice(self.cancel, self.observe, step, || {
            let frozen = self.engine.boot(&request)?;
            self.check_kernel(step, frozen.as_ref())?;
            Ok(frozen)
        });
        timing.boot(started.elapsed());
        if boot.is_err() && self.cancel.is_cancelled() {
            // A failure while everything is being stopped may be the stopping's own.
            return Ok(());
        }
        self.dir.write_boot_file(step, "argv", self.engine.script(&request).as_bytes())?;
        match boot {
            Ok(frozen) => self.runs(step, frozen.as_ref(), (&missing, lost), timing),
            Err(Stop::Failed(failure, console)) => {
                failed.note(step);
                self.dir.write_boot_file(step, "serial.log", &console)?;
                (self.observe)(Event::Done(step, missing.len()));
                let lost = lost.into_iter().collect();
                self.dir.write_boot(step, &Boot { lost, ..Boot::failed(failure) })
            }
            Err(Stop::Cancelled) => Ok(()),
        }
    }

    fn runs(
        &self,
        step: &Step,
        frozen: &dyn Frozen,
        (missing, lost): (&[&Workload], Option<Failure>),
        timing: &mut Timing,
    ) -> Result<(), RunDirError> {
        let layout = &self.plan().layouts[step.layout];
        let hello = frozen.hello().clone();
        self.dir.write_boot_file(step, "serial.log", &frozen.console())?;
        let Hello { release, build_id, ignored, busy, is_unseeded } = hello;
        let (release, lost) = (Some(release), lost.into_iter().collect());
        let mut boot = Boot { release, build_id, ignored, busy, is_unseeded, lost, failure: None };
        self.dir.write_boot(step, &boot)?;
        for workload in missing {
            (self.observe)(Event::Running(step, &workload.row));
            let started = Instant::now();
            let order = wire::order(workload, layout);
            self.dir.forget_run(step, &workload.row)?;
            let (answer, lost) =
                at_most_twice(self.cancel, self.observe, step, || match workload.region {
                    Region::Marked => frozen.run(&order),
                    Region::Boot => frozen.run_boot(&order),
                });
            timing.run(&workload.row, started.elapsed());
            if let Some(lost) = lost {
                boot.lost.push(lost);
                self.dir.write_boot(step, &boot)?;
            }
            let (outcome, profile) = match answer {
                Ok(answer) => self.judge(step, workload, &answer)?,
                Err(_) if self.cancel.is_cancelled() => return Ok(()),
                Err(Stop::Failed(failure, console)) => {
                    self.dir.write_console(step, &workload.row, &console)?;
                    (Outcome::Failed(failure), None)
                }
                Err(Stop::Cancelled) => return Ok(()),
            };
            self.dir.write_order(step, &workload.row, &order)?;
            let run = Run { row: workload.row.clone(), outcome };
            self.dir.write_run(step, &run, profile.as_deref())?;
            (self.observe)(Event::Done(step, 1));
        }
        Ok(())
    }

    /// A garbled answer is kept for whoever has to mend the workload.
    fn judge(
        &self,
        step: &Step,
        workload: &Workload,
        answer: &RawAnswer,
    ) -> Result<(Outcome, Option<String>), RunDirError> {
        match measure::measure(answer, workload, self.virtual_s) {
            Ok(measured) => Ok((Outcome::Measured(measured.sample), Some(measured.profile))),
            Err(failure) => {
                if matches!(failure, Failure::Garbled { .. }) {
                    self.dir.write_wire(step, &workload.row, &escape_byte_lines(&answer.wire))?;
                }
                Ok((Outcome::Failed(failure), None))
            }
        }
    }

    fn request(&self, step: &Step) -> Request {
        let plan = self.plan();
        Request {
            image: self.images.get(step.side).clone(),
            image_sha256: plan.kernels.get(step.side).sha256.clone(),
            boot_line: plan.subjects.get(step.side).boot_line.clone(),
            machine: plan.machine.clone(),
            layout: plan.layouts[step.layout].clone(),
        }
    }

    /// The kernel that answers must be the one that was planned.
    fn check_kernel(&self, step: &Step, frozen: &dyn Frozen) -> Result<(), Failure> {
        let (planned, hello) = (self.plan().kernels.get(step.side), frozen.hello());
        let differs = |planned: &Option<String>, found: &Option<String>| match (planned, found) {
            (Some(planned), Some(found)) => planned != found,
            _ => false,
        };
        let (planned, found) = if differs(&planned.release, &Some(hello.release.clone())) {
            (planned.release.clone(), hello.release.clone())
        } else if differs(&planned.build_id, &hello.build_id) {
            (planned.build_id.clone(), hello.build_id.clone().unwrap_or_default())
        } else {
            return Ok(());
        };
        Err(Failure::WrongKernel { planned: planned.unwrap_or_default(), found })
    }
}
