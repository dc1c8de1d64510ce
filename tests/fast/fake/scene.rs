//! A hand-made Plan and an engine that answers from a script:
//! `Scene::new(&["pipe"]).layouts(2)…run(dir)`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Condvar, Mutex};

use ktax::engine::{Cancel, Engine, Frozen, RawAnswer, Request, Stop};
use ktax::model::{
    AskedCounts, AskedGuest, CountsPlan, CpuActivity, CpuPosition, FORMAT, Failure, Identity,
    ImageFormat, Layout, Machine, Plan, Side, Sides, Step, Subject, Workload,
};
use ktax::program::SideArchives;
use ktax::run::{CountsBoots, Driver, Ended, Event};
use ktax::rundir::RunDir;
use ktax::wire::Hello;

use crate::common::{NEVER, made, open_counts};

/// Operations of every Region.
pub const OPS: u64 = 400;

/// The limit of virtual time, in seconds.
pub const VIRTUAL_S: u64 = 2;

type Hook = Box<dyn Fn(&Path) + Sync>;

/// Scripted answers of the fake; without one it answers well.
pub struct Scene {
    pub plan: Plan<CountsPlan>,
    jobs: usize,
    pub boots: BTreeMap<(Side, usize), Result<Hello, Failure>>,
    pub runs: BTreeMap<(String, Side, usize), Result<RawAnswer, Failure>>,
    /// The calls, from 1, in which the host loses QEMU.
    pub lost: Vec<usize>,
    costs: BTreeMap<(String, Side, usize, String), u64>,
    signatures: BTreeMap<(String, Side), String>,
    pub hooks: Vec<(usize, Hook)>,
    pub cancel: Option<(usize, bool)>,
    pub together: usize,
    pub programs: SideArchives,
}

/// Result of a scene.
#[derive(Debug)]
pub struct Ran {
    pub ended: Result<Ended, ktax::model::Error>,
    /// `000-base boot` or `000-base getppid`, in order.
    pub calls: Vec<String>,
    /// The most Boots that were being made at one time.
    pub peak: usize,
    /// The sum of all [`Event::Done`].
    pub done: usize,
}

impl Ran {
    pub fn complete(self) -> Ran {
        assert!(matches!(self.ended, Ok(Ended::Complete)), "{:?}", self.ended);
        self
    }

    pub fn runs(&self) -> usize {
        self.calls.iter().filter(|call| !call.ends_with(" boot")).count()
    }
}

impl Scene {
    /// Both Sides of one Layout; every other Layout begins with the change.
    pub fn new(rows: &[&str]) -> Scene {
        Scene {
            plan: plan(rows),
            jobs: 1,
            boots: BTreeMap::new(),
            runs: BTreeMap::new(),
            lost: Vec::new(),
            costs: BTreeMap::new(),
            signatures: BTreeMap::new(),
            hooks: Vec::new(),
            cancel: None,
            together: 1,
            programs: SideArchives::default(),
        }
        .layouts(1)
    }

    pub fn layouts(mut self, count: usize) -> Scene {
        let sides = |layout| match layout % 2 {
            0 => [Side::Base, Side::Change],
            _ => [Side::Change, Side::Base],
        };
        let pairs = (0..count).flat_map(|layout| sides(layout).map(|side| (layout, side)));
        let step = |(index, (layout, side))| Step { index, side, layout };
        self.plan.method.steps = (0..).zip(pairs).map(step).collect();
        let layout = |n: usize| Layout { seed: n as u32, padding: 7, phase: 1000 * n as u64 };
        self.plan.method.layouts = (0..count).map(layout).collect();
        self
    }

    pub fn jobs(mut self, jobs: usize) -> Scene {
        self.jobs = jobs;
        self
    }

    /// No Boot is ready before this many are being made.
    pub fn together(mut self, boots: usize) -> Scene {
        self.together = boots;
        self
    }

    pub fn boot(mut self, side: Side, layout: usize, boot: Result<Hello, Failure>) -> Scene {
        self.boots.insert((side, layout), boot);
        self
    }

    pub fn answer(self, row: &str, side: Side, layout: usize, answer: RawAnswer) -> Scene {
        self.outcome(row, side, layout, Ok(answer))
    }

    pub fn fails(self, row: &str, side: Side, layout: usize, failure: Failure) -> Scene {
        self.outcome(row, side, layout, Err(failure))
    }

    fn outcome(
        mut self,
        row: &str,
        side: Side,
        layout: usize,
        outcome: Result<RawAnswer, Failure>,
    ) -> Scene {
        self.runs.insert((row.to_owned(), side, layout), outcome);
        self
    }

    /// Instructions of a function in the Region, by Layout.
    pub fn costs(mut self, row: &str, side: Side, function: &str, by_layout: &[u64]) -> Scene {
        for (layout, cost) in by_layout.iter().enumerate() {
            self.costs.insert((row.to_owned(), side, layout, function.to_owned()), *cost);
        }
        self
    }

    /// `sig` lines beyond those that the Plan expects.
    pub fn signs(mut self, row: &str, side: Side, lines: &str) -> Scene {
        self.signatures.insert((row.to_owned(), side), lines.to_owned());
        self
    }

    /// Does something with the run directory during the call of that number, from 1.
    pub fn at_call(mut self, number: usize, hook: impl Fn(&Path) + Sync + 'static) -> Scene {
        self.hooks.push((number, Box::new(hook)));
        self
    }

    /// The host loses QEMU in these calls, from 1.
    pub fn loses(mut self, calls: &[usize]) -> Scene {
        self.lost = calls.to_vec();
        self
    }

    /// The user stops it during the call of that number, which still answers or does not.
    pub fn cancel_at(mut self, number: usize, answers: bool) -> Scene {
        self.cancel = Some((number, answers));
        self
    }

    /// Begins or goes on in `root`.
    pub fn run(&self, root: &Path) -> Ran {
        let dir = match root.join("plan.json").exists() {
            true => open_counts(root).unwrap(),
            false => RunDir::create(root, self.plan.clone()).unwrap(),
        };
        let _lock = dir.lock().unwrap();
        let (cancel, done) = (Cancel::default(), Mutex::new(0));
        let fake = Fake {
            scene: self,
            root,
            cancel: &cancel,
            calls: Mutex::default(),
            booting: (Mutex::default(), Condvar::new()),
        };
        let observe = |event: Event| {
            if let Event::Done(_, runs) | Event::Found(_, runs) = event {
                *done.lock().unwrap() += runs;
            }
        };
        let images = Sides { base: "base".into(), change: "change".into() };
        let boots = CountsBoots {
            engine: &fake,
            images,
            modules: Sides::default(),
            programs: Sides::from_fn(|_| self.programs.clone()),
            virtual_s: VIRTUAL_S,
        };
        let (jobs, cancel, observe) = (self.jobs, &cancel, &observe);
        let ended =
            Driver { dir: &dir, boots, jobs, cancel, observe }.run().map(|(ended, _)| ended);
        let (calls, peak) =
            (fake.calls.into_inner().unwrap(), fake.booting.0.into_inner().unwrap().1);
        let done = done.into_inner().unwrap();
        Ran { ended, calls, peak, done }
    }

    /// Answer of a good guest and plugin.
    pub fn good(&self, row: &str, side: Side, layout: usize) -> RawAnswer {
        let more = self.signatures.get(&(row.to_owned(), side)).map_or("", String::as_str);
        let wire = format!("ktax 1\nstart {row}\nsig calls {OPS}\nsig failed 0\n{more}");
        let mut functions: BTreeMap<&str, u64> =
            [("[user]", 5), ("do_work", 10 * OPS), ("entry", 90 * OPS)].into();
        for ((of_row, of_side, of_layout, function), cost) in &self.costs {
            if (of_row.as_str(), *of_side, *of_layout) == (row, side, layout) {
                functions.insert(function, *cost);
            }
        }
        let functions: Vec<(&str, u64)> = functions.into_iter().collect();
        let wire = format!("{wire}tsc {}\nend\n", 200 * OPS).into_bytes();
        RawAnswer { wire, profile: profile(&functions), console_tail: String::new() }
    }
}

/// Profile with an interrupt, as the plugin writes it.
pub fn profile(functions: &[(&str, u64)]) -> String {
    let total: u64 = functions.iter().map(|(_, count)| count).sum::<u64>() + 212 + 30;
    let mut text = format!("ktax-profile\t1\napi\t1\nregion\t1\ntotal\t{total}\n");
    for (function, count) in functions {
        text += &format!("fn\tprocess\t{count}\t0\t{function}\n");
    }
    text + "fn\tinterrupt\t212\t30\ttick\nend\n"
}

/// The Hello of the planned Kernel.
pub fn hello(side: Side) -> Hello {
    let build_id = Some("ab".repeat(20));
    let release = format!("6.1.0-{}", side.name());
    Hello {
        release,
        build_id,
        ignored: Vec::new(),
        busy: Vec::new(),
        failed: Vec::new(),
        crc32c: None,
        is_unseeded: false,
    }
}

// An [`Engine`] that does what the scene says, and writes down what it was asked.

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
pub fn over(doing: [CpuActivity; 2]) -> Failure {
    let cpu_place = |(cpu, doing)| CpuPosition { cpu, activity: doing, function: "[user]".into() };
    Failure::CountedTime { limit_s: 180, cpus: (0..).zip(doing).map(cpu_place).collect() }
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
        let is_step = |step: &&Step| step.side == side && step.layout == layout;
        let step = plan.steps.iter().find(is_step).unwrap();
        let archive = request.program.as_ref().map(|packed| format!(" with {}", packed.sha256));
        self.called(step, &format!("boot{}", archive.unwrap_or_default()))?;
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

// The Plan that every scene begins with.

pub fn plan(rows: &[&str]) -> Plan<CountsPlan> {
    let both = |identity: fn(Side) -> Identity| Sides {
        base: identity(Side::Base),
        change: identity(Side::Change),
    };
    let subject = |side: Side| {
        Subject::new(&format!("/boot/{}", side.name()), &format!("side={}", side.name()))
    };
    let method = CountsPlan {
        key: made::key("7.2"),
        asked: AskedCounts {
            machine: Machine::default(),
            subjects: Sides { base: subject(Side::Base), change: subject(Side::Change) },
            guest: AskedGuest::default(),
            calibration: None,
        },
        kernels: both(identity),
        archives: None,
        workloads: rows.iter().map(|row| workload(row)).collect(),
        layouts: Vec::new(),
        steps: Vec::new(),
    };
    let title = "a plan by hand".into();
    Plan { format: FORMAT, title, seed: 1, threshold_percent: 0.1, method }
}

fn identity(side: Side) -> Identity {
    let digits = if side == Side::Base { "ab" } else { "cd" };
    let Hello { release, build_id, .. } = hello(side);
    let made = made::identity(&format!("/boot/{}", side.name()), digits);
    Identity { release: Some(release), build_id, format: ImageFormat::Vmlinux, ..made }
}

/// `calls` must be the number of operations and nothing may fail.
fn workload(row: &str) -> Workload {
    Workload {
        title: format!("{row}, faked"),
        program: row.into(),
        params: [("pages".to_owned(), 16)].into(),
        signature: [("calls".to_owned(), OPS), ("failed".to_owned(), 0)].into(),
        ..made::workload(row, OPS)
    }
}
