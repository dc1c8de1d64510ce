//! An [`Engine`] that does what the scene says, and writes down what it was asked.

use std::path::Path;
use std::sync::{Condvar, Mutex};

use ktax::engine::{Cancel, Engine, Frozen, RawAnswer, Request, Stop};
use ktax::model::{CpuPlace, Doing, Failure, Side, Step};
use ktax::wire::Hello;

use super::scene::{Scene, hello};
use crate::common::NEVER;

pub struct Fake<'a> {
    pub scene: &'a Scene,
    pub root: &'a Path,
    pub cancel: &'a Cancel,
    pub calls: Mutex<Vec<String>>,
    /// Now and at most.
    pub booting: (Mutex<(usize, usize)>, Condvar),
}

struct FakeBoot<'a> {
    fake: &'a Fake<'a>,
    step: &'a Step,
    hello: Hello,
}

pub fn lost() -> Failure {
    Failure::QemuLost { reason: "signal 9".into() }
}

/// Two CPUs whose time was over when they did this.
pub fn over(doing: [Doing; 2]) -> Failure {
    let at = |(cpu, doing)| CpuPlace { cpu, doing, function: "[user]".into() };
    Failure::CountedTime { limit_s: 180, cpus: (0..).zip(doing).map(at).collect() }
}

impl Fake<'_> {
    fn called(&self, step: &Step, what: &str) -> Result<(), Stop> {
        let mut calls = self.calls.lock().unwrap();
        if self.cancel.is_cancelled() {
            return Err(Stop::Cancelled); // as the real one: every wait looks at the flag
        }
        calls.push(format!("{} {what}", step.name()));
        for (_, hook) in self.scene.hooks.iter().filter(|(number, _)| *number == calls.len()) {
            hook(self.root);
        }
        if self.scene.lost.contains(&calls.len()) {
            return Err(lost().into());
        }
        match self.scene.cancel {
            Some((number, answers)) if number == calls.len() => {
                self.cancel.cancel();
                if answers { Ok(()) } else { Err(Stop::Cancelled) }
            }
            _ => Ok(()),
        }
    }

    /// The bound on waiting only turns a hang into a failed test.
    fn wait_for_others(&self) {
        let (booting, changed) = &self.booting;
        let mut now = booting.lock().unwrap();
        *now = (now.0 + 1, now.1.max(now.0 + 1));
        changed.notify_all();
        let short = |now: &mut (usize, usize)| now.1 < self.scene.together;
        let waited = changed.wait_timeout_while(now, NEVER, short);
        waited.unwrap().0.0 -= 1;
    }
}

impl Engine for Fake<'_> {
    fn script(&self, request: &Request) -> String {
        format!("#!/bin/sh\n# {}\n", request.boot_line)
    }

    fn boot(&self, request: &Request) -> Result<Box<dyn Frozen + '_>, Stop> {
        let plan = &self.scene.plan.method;
        let side = Side::BOTH.into_iter().find(|side| request.image == Path::new(side.name()));
        let side = side.unwrap();
        assert_eq!(request.image_sha256, plan.kernels.get(side).sha256);
        assert_eq!(request.boot_line, plan.asked.subjects.get(side).boot_line);
        let layout = plan.layouts.iter().position(|layout| *layout == request.layout).unwrap();
        let at = |step: &&Step| step.side == side && step.layout == layout;
        let step = plan.steps.iter().find(at).unwrap();
        let own = request.program.as_ref().map(|packed| format!(" with {}", packed.sha256));
        self.called(step, &format!("boot{}", own.unwrap_or_default()))?;
        self.wait_for_others();
        let hello =
            self.scene.boots.get(&(side, layout)).cloned().unwrap_or_else(|| Ok(hello(side)))?;
        Ok(Box::new(FakeBoot { fake: self, step, hello }))
    }
}

impl Frozen for FakeBoot<'_> {
    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn console(&self) -> Vec<u8> {
        format!("console of {}\n", self.step.name()).into_bytes()
    }

    fn run_boot(&self, order: &str) -> Result<RawAnswer, Stop> {
        self.answer(order, "boot of ")
    }

    fn run(&self, order: &str) -> Result<RawAnswer, Stop> {
        self.answer(order, "")
    }
}

impl FakeBoot<'_> {
    fn answer(&self, order: &str, how: &str) -> Result<RawAnswer, Stop> {
        let row = order.lines().find_map(|line| line.strip_prefix("run ")).unwrap();
        let is_traced = order.lines().any(|line| line == "param trace 2");
        let row = &format!("{row}{}", if is_traced { " traced" } else { "" });
        self.fake.called(self.step, &format!("{how}{row}"))?;
        let (scene, Step { side, layout, .. }) = (self.fake.scene, self.step.clone());
        let scripted = scene.runs.get(&(row.to_owned(), side, layout)).cloned();
        Ok(scripted.unwrap_or_else(|| Ok(scene.good(row, side, layout)))?)
    }
}
