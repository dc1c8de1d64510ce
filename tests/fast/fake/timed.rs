//! An engine whose times are what the scene says.

use std::cell::RefCell;
use std::io;
use std::path::Path;

use ktax::analyse::{never_ran, times, wants_more};
use ktax::engine;
use ktax::engine::{Booted, Cancel, Stop, Timed};
use ktax::model::{
    Comparison, Facts, Failure, Noise, Plan, Row, Side, TimedPair, TimedSubject, TimesComparison,
    TimesPlan, Verdict, Workload,
};
use ktax::plan::{Experiment, TimesExperiment};
use ktax::run::{Ended, TimesDriver};
use ktax::rundir::RunDir;

use crate::common::open_times;

/// What the fake does; `seen` counts its Boots.
pub struct Scene {
    /// Nanoseconds of an operation: of a row, in the change or not, in which Boot.
    pub ns: fn(&str, bool, usize) -> f64,
    /// What a row fails with.
    pub failure: fn(&str, bool) -> Option<Failure>,
    /// What its guests leave on their consoles, if something ends them early.
    pub console: Vec<u8>,
    /// What every Boot fails with as a whole.
    pub stop: Option<Stop>,
    /// The host loses the Boot of this number.
    pub lost_at: Option<usize>,
    /// What it says beside its work.
    pub beside: fn(&str, bool) -> u64,
    pub facts: fn(bool) -> Facts,
    pub noise: Noise,
    /// After so many Boots the user stops.
    pub cancel_after: usize,
    pub cancel: Cancel,
    pub seen: RefCell<usize>,
    /// Which Boots were the change's.
    pub order: RefCell<Vec<bool>>,
}

pub fn scene(ns: fn(&str, bool, usize) -> f64) -> Scene {
    Scene {
        ns,
        failure: |_, _| None,
        console: Vec::new(),
        stop: None,
        lost_at: None,
        beside: |_, _| 1,
        facts: |_| Facts::new(),
        noise: Noise { seconds: 1.0, cpus: 2, ..Noise::default() },
        cancel_after: usize::MAX,
        cancel: Cancel::default(),
        seen: RefCell::new(0),
        order: RefCell::default(),
    }
}

/// Spread of 0.5 %, the same for each Boot's number.
pub fn noise_of(boot: usize) -> f64 {
    1.0 + 0.005 * ((boot * 7919 % 101) as f64 / 50.0 - 1.0)
}

impl Timed for Scene {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        let is_change = subject.thp.is_some() || !subject.prefix.is_empty();
        self.order.borrow_mut().push(is_change);
        let number = self.seen.replace_with(|seen| *seen + 1);
        if number == self.cancel_after {
            self.cancel.cancel();
            return Err(Stop::Cancelled);
        }
        if self.lost_at == Some(number) {
            return Err(Failure::QemuLost { reason: "signal 9".into() }.into());
        }
        if let Some(stop) = &self.stop {
            return Err(stop.clone());
        }
        let wire = |workload: &&Workload| {
            let row = workload.row.as_str();
            if let Some(failure) = (self.failure)(row, is_change) {
                return Err(failure);
            }
            let ns = (self.ns)(row, is_change, number) * workload.ops as f64;
            let mut text = format!("ktax 1\nstart {}\n", workload.program);
            for (name, value) in &workload.signature {
                text += &format!("sig {name} {value}\n");
            }
            text += &format!("sig beside {}\n", (self.beside)(row, is_change));
            text += &format!("value nanoseconds {}\nend\n", ns as u64);
            Ok(text.into_bytes())
        };
        let (facts, wires) = ((self.facts)(is_change), loops.iter().map(wire).collect());
        Ok(Booted { facts, wires, console: self.console.clone() })
    }

    fn end(&self) -> Result<(), Stop> {
        Ok(())
    }
}

/// Two rows that decide and a secondary one; the change is known by its `thp`, or by a prefix.
pub fn plan() -> Plan<TimesPlan> {
    let mut experiment = TimesExperiment::new(&engine::host::ENGINE);
    experiment.workloads = vec!["getppid".into(), "pipe".into()];
    experiment.secondary = vec!["stat".into()];
    experiment.change.thp = Some("never".into());
    experiment.loops = 3;
    planned("planted", experiment)
}

/// The Plan of an experiment, with the seed and threshold that files have by default.
pub fn planned(title: &str, method: TimesExperiment) -> Plan<TimesPlan> {
    let title = title.to_owned();
    Experiment { title, seed: 1, threshold_percent: 1.0, method }.plan().unwrap()
}

/// What a Comparison of times says of all rows together.
pub fn of_times(comparison: &Comparison) -> &TimesComparison {
    comparison.times().unwrap()
}

/// Runs a scene into a directory.
pub fn drive(
    root: &Path,
    plan: &Plan<TimesPlan>,
    scene: &Scene,
) -> Result<Ended, ktax::model::Error> {
    with_driver(root, plan, scene, |driver| driver.run())
}

/// Adds a block of five Boots to a directory.
pub fn block(
    root: &Path,
    plan: &Plan<TimesPlan>,
    scene: &Scene,
    side: Side,
    boot_id: String,
) -> Result<Ended, ktax::model::Error> {
    with_driver(root, plan, scene, |driver| driver.block(side, boot_id, 5))
}

fn with_driver(
    root: &Path,
    plan: &Plan<TimesPlan>,
    scene: &Scene,
    work: impl FnOnce(&TimesDriver) -> Result<Ended, ktax::model::Error>,
) -> Result<Ended, ktax::model::Error> {
    let dir = match root.join("plan.json").exists() {
        true => open_times(root)?,
        false => RunDir::create(root, plan.clone())?,
    };
    let asked = |pairs: &[TimedPair]| wants_more(dir.plan(), pairs);
    asking(&dir, scene, &asked, work)
}

/// Runs a scene; whoever is asked whether it wants more may look at whatever it likes.
pub fn drive_asking(
    dir: &RunDir<TimesPlan>,
    scene: &Scene,
    wants_more: &dyn Fn(&[TimedPair]) -> bool,
) -> Result<Ended, ktax::model::Error> {
    asking(dir, scene, wants_more, |driver| driver.run())
}

fn asking(
    dir: &RunDir<TimesPlan>,
    scene: &Scene,
    wants_more: &dyn Fn(&[TimedPair]) -> bool,
    work: impl FnOnce(&TimesDriver) -> Result<Ended, ktax::model::Error>,
) -> Result<Ended, ktax::model::Error> {
    let _lock = dir.lock()?;
    dir.prepare_pairs()?;
    let watch = |work: &mut dyn FnMut()| -> io::Result<Noise> {
        work();
        Ok(scene.noise.clone())
    };
    let (watch, cancel) = (&watch, &scene.cancel);
    work(&TimesDriver { dir, engine: scene, cancel, wants_more, never_ran: &never_ran, watch })
}

/// Runs a scene to its end, and what is said of it.
pub fn compared(root: &Path, plan: &Plan<TimesPlan>, scene: &Scene) -> Comparison {
    assert_eq!(drive(root, plan, scene).unwrap(), Ended::Complete);
    let dir = open_times(root).unwrap();
    times(dir.plan(), &dir.pairs().unwrap())
}

/// 5 % more in `pipe`, 3 % less in `stat`.
pub fn planted(row: &str, is_change: bool, boot: usize) -> f64 {
    let factor = match (row, is_change) {
        ("pipe", true) => 1.05,
        ("stat", true) => 0.97,
        _ => 1.0,
    };
    1000.0 * factor * noise_of(boot)
}

pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    rows.iter().map(|row| row.verdict).collect()
}
