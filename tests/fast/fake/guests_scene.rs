//! A fake engine of guests, and run directories that it fills.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ktax::analyse;
use ktax::engine::{Cancel, Stop};
use ktax::kvmhost::{GuestEngine, ReadyHost, Recorded};
use ktax::model::{
    Arch, Comparison, ExitRow, ExitRun, ExitTable, Failure, GuestsPlan, Identity, ImageFormat, Key,
    Layout, Machine, Plan, Side,
};
use ktax::plan::{Experiment, ExperimentMethod, GuestKernels};
use ktax::run::{Driver, Ended};
use ktax::rundir::{AnyRunDir, RunDir};

pub const FILE: &str = r#"
title = "Clocks"
host = "kvm"
layouts = 5
workloads = ["boot", "raw:out=20"]
base = { kernel = "k", without = ["kvmclock"] }
change = { kernel = "k" }
"#;

/// Time of a guest in ns and the calls that it made, by row, Side and Layout; or why there is none.
pub type Script = fn(usize, Side, usize) -> Result<[u64; 2], Failure>;

struct Fake<'a> {
    plan: &'a GuestsPlan,
    script: Script,
    calls: Mutex<Vec<String>>,
    /// The user stops it during the guest of this number, from 1.
    stops_at: usize,
    guests: AtomicUsize,
    cancel: &'a Cancel,
}

struct Ready<'a>(&'a Fake<'a>, Side, usize);

impl GuestEngine for Fake<'_> {
    fn script(&self, _: Side, _: &Layout) -> String {
        "qemu\n".to_owned()
    }

    fn boot(&self, side: Side, layout: &Layout) -> Result<Box<dyn ReadyHost + '_>, Stop> {
        let at = self.plan.layouts.iter().position(|one| one == layout).unwrap();
        self.calls.lock().unwrap().push(format!("boot {} {at}", side.name()));
        Ok(Box::new(Ready(self, side, at)))
    }
}

impl ReadyHost for Ready<'_> {
    /// Each row of the change boots its own host.
    fn console(&self) -> Option<Vec<u8>> {
        (self.1 == Side::Base).then(|| b"first words".to_vec())
    }

    /// The change's host is never idle.
    fn busy(&self) -> Vec<String> {
        let is_busy = self.1 == Side::Change;
        is_busy.then(|| "ksmd".to_owned()).into_iter().collect()
    }

    fn order(&self, row: usize) -> String {
        row.to_string()
    }

    fn run(&self, row: usize) -> Result<Recorded, Stop> {
        let Ready(fake, side, layout) = self;
        if fake.guests.fetch_add(1, Ordering::SeqCst) + 1 == fake.stops_at {
            fake.cancel.cancel();
            return Err(Stop::Cancelled);
        }
        fake.calls.lock().unwrap().push(format!("{row} {} {layout}", side.name()));
        let [ns, calls] = (fake.script)(row, *side, *layout)
            .map_err(|failure| Stop::Failed(failure, b"last words".to_vec()))?;
        let rows = vec![
            ExitRow { reason: "io".into(), count: 20, sum_ns: Some(ns / 2), ..ExitRow::default() },
            ExitRow { is_guest: true, count: 20, sum_ns: Some(ns - ns / 2), ..ExitRow::default() },
        ];
        let table = ExitTable { source: "fake".into(), rows, ..ExitTable::default() };
        let row = fake.plan.rows[row].row.clone();
        let console = format!("all words of {row}").into_bytes();
        let run = ExitRun { row, table, guest_ns: Some(ns), native_ns: Some(1000) };
        Ok(Recorded { run, signature: [("calls".to_owned(), calls)].into(), console })
    }
}

fn identity() -> Identity {
    Identity {
        source: "k".into(),
        sha256: "ab".repeat(32),
        release: None,
        package_date: None,
        build_id: None,
        config_sha256: None,
        arch: Arch::X86_64,
        format: ImageFormat::Vmlinux,
    }
}

pub fn plan(text: &str) -> Plan<GuestsPlan> {
    let experiment = Experiment::parse(text, "x.toml").unwrap();
    let ExperimentMethod::Guests(of) = &experiment.method else { panic!("{experiment:?}") };
    let key = Key {
        engine: "exact".into(),
        qemu: "7.2".into(),
        machine_type: "kvm".into(),
        machine: Machine { cpu: "host".into(), memory_mib: 0, ..Machine::default() },
        guest: "9".repeat(64),
        programs: String::new(),
        modules: Vec::new(),
    };
    let (host, base) = (identity(), Some(identity()));
    let change = of.change.as_ref().map(|_| identity());
    experiment.with(of.clone()).plan(GuestKernels { host, base, change }, key)
}

/// Begins or resumes; how it ended, and what was asked of the engine.
pub fn drive(root: &Path, text: &str, script: Script, stops_at: usize) -> (Ended, Vec<String>) {
    if !root.join("plan.json").exists() {
        RunDir::create(root, plan(text)).unwrap();
    }
    let AnyRunDir::Guests(dir) = AnyRunDir::open(root).unwrap() else { panic!("another method") };
    let _lock = dir.lock().unwrap();
    let cancel = Cancel::default();
    let engine = Fake {
        plan: &dir.plan().method,
        script,
        calls: Mutex::default(),
        stops_at,
        guests: AtomicUsize::new(0),
        cancel: &cancel,
    };
    let boots = &engine as &dyn GuestEngine;
    let driver = Driver { dir: &dir, boots, jobs: 1, cancel: &cancel, observe: &|_| () };
    let (ended, _) = driver.run().unwrap();
    (ended, engine.calls.into_inner().unwrap())
}

pub fn compared(text: &str, script: Script) -> Comparison {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("run");
    drive(&root, text, script, 0);
    let AnyRunDir::Guests(dir) = AnyRunDir::open(&root).unwrap() else { panic!("another method") };
    analyse::guests(&dir).unwrap()
}

/// The first row's guest is a third faster in the change; the second moves as much by layout alone.
pub fn faster(row: usize, side: Side, layout: usize) -> Result<[u64; 2], Failure> {
    let layout = layout as u64;
    let ns = match (row, side) {
        (0, Side::Base) => 90_000 + 10 * layout,
        (0, Side::Change) => 60_000 + 10 * layout,
        (_, Side::Base) => 90_000 + 9_000 * layout,
        (_, Side::Change) => 70_000 + 9_000 * layout,
    };
    Ok([ns, 400])
}
