//! Guests of a KVM host against a fake engine: planned, stopped and resumed, judged over layouts.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ktax::analyse;
use ktax::engine::{Cancel, Stop};
use ktax::kvmhost::{GuestEngine, GuestResult, ReadyHost};
use ktax::model::{
    Blame, Comparison, ExitRow, ExitRun, ExitTable, Failure, GuestsPlan, Identity, ImageFormat,
    Key, Layout, Machine, Plan, Row, Side, Verdict,
};
use ktax::plan::{Experiment, ExperimentMethod};
use ktax::run::{Driver, Ended};
use ktax::rundir::{AnyRunDir, RunDir};

use crate::common::made;

fn verdicts(comparison: &Comparison) -> Vec<Verdict> {
    comparison.rows.iter().map(|row| row.verdict).collect()
}

#[test]
fn a_change_beyond_the_layouts_gets_a_verdict_and_one_sample_s_luck_gets_none() {
    let comparison = compared(FILE, faster);
    assert_eq!(verdicts(&comparison), [Verdict::Faster, Verdict::NoDetectedChange]);
    let [time, exits] = comparison.rows[0].effects() else { panic!("two metrics") };
    assert_eq!((time.delta, time.samples.base.len()), (-30_000.0, 5));
    assert_eq!((exits.base, exits.delta), (20.0, 0.0));
    let [busy] = &comparison.warnings[..] else { panic!("{:?}", comparison.warnings) };
    let fact = "the change's kernel was not idle when the workloads began: ksmd ran";
    assert_eq!(busy.fact, fact);
    // With too few layouts even the first is none.
    let few = FILE.replace("layouts = 5", "layouts = 2");
    assert_eq!(verdicts(&compared(&few, faster))[0], Verdict::TooFewBoots);
}

#[test]
fn a_change_beyond_the_layouts_and_small_is_below_the_threshold() {
    let comparison = compared(FILE, |row, side, layout| {
        let more = if (row, side) == (0, Side::Change) { 500 } else { 0 };
        Ok([1_000_000 + more + layout as u64, 400])
    });
    assert_eq!(verdicts(&comparison), [Verdict::BelowThreshold, Verdict::NoDetectedChange]);
    assert!(comparison.rows[0].effects()[0].percent.unwrap() > 0.04, "{comparison:?}");
}

#[test]
fn a_run_that_is_stopped_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("run");
    let (ended, before) = drive(&root, FILE, faster, 8);
    assert_eq!(ended, Ended::Cancelled);
    let (ended, after) = drive(&root, FILE, faster, 0);
    assert_eq!(ended, Ended::Complete);
    let guests = |calls: &[String]| -> Vec<String> {
        calls.iter().filter(|call| !call.starts_with("boot")).cloned().collect()
    };
    let (before, after) = (guests(&before), guests(&after));
    assert_eq!((before.len(), before.len() + after.len()), (7, 20));
    assert!(after.iter().all(|call| !before.contains(call)), "{before:?} {after:?}");
    // The resumed run is complete, and equal to an uninterrupted one.
    let AnyRunDir::Guests(dir_of_guests) = AnyRunDir::open(&root).unwrap() else {
        panic!("guests")
    };
    assert_eq!(analyse::guests(&dir_of_guests).unwrap(), compared(FILE, faster));
}

#[test]
fn a_failure_is_a_row_and_does_not_touch_the_others() {
    let script: Script = |row, side, layout| match (row, side, layout) {
        (1, Side::Change, 3) => Err(Failure::Panic { message: "oops".into() }),
        _ => faster(row, side, layout),
    };
    let comparison = compared(FILE, script);
    assert_eq!(verdicts(&comparison), [Verdict::Faster, Verdict::Failed]);
    let Row { failures, .. } = &comparison.rows[1];
    assert!(failures[0].boot.ends_with("-change") && failures.len() == 1, "{failures:?}");
}

#[test]
fn an_unfinished_run_is_refused_with_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("run");
    drive(&root, FILE, faster, 3);
    let AnyRunDir::Guests(dir) = AnyRunDir::open(&root).unwrap() else { panic!("guests") };
    let error = analyse::guests(&dir).unwrap_err();
    assert!(error.to_string().contains("resume with `ktax run"), "{error}");
    assert_eq!(error.blame, Blame::User);
}

#[test]
fn a_base_alone_is_compared_with_the_host_itself() {
    let alone = FILE.replace("change = { kernel = \"k\" }\n", "");
    assert_eq!(plan(&alone).method.steps.len(), 5);
    let comparison = compared(&alone, |_, _, layout| Ok([1010 + layout as u64, 0]));
    assert_eq!(verdicts(&comparison), [Verdict::Slower; 2]);
    let effect = &comparison.rows[0].effects()[0];
    assert_eq!((effect.base, effect.change), (1000.0, 1012.0));
}

#[test]
fn guests_that_did_different_work_have_no_verdict_in_any_metric() {
    let comparison = compared(FILE, |row, side, layout| {
        let [ns, calls] = faster(row, side, layout)?;
        Ok([ns, calls + u64::from((row, side) == (0, Side::Change))])
    });
    assert_eq!(verdicts(&comparison), [Verdict::DifferentWork, Verdict::NoDetectedChange]);
    let row = &comparison.rows[0];
    assert_eq!(row.reason.as_deref(), Some("calls 400 in base, 401 in change"));
    let of_effects: Vec<Verdict> = row.effects().iter().map(|effect| effect.verdict).collect();
    assert_eq!(of_effects, [Verdict::DifferentWork; 2]);
}

#[test]
fn the_console_of_each_host_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("run");
    let script: Script = |row, side, layout| match (row, side) {
        (1, Side::Change) => Err(Failure::Panic { message: "oops".into() }),
        _ => faster(row, side, layout),
    };
    drive(&root, FILE, script, 0);
    for step in plan(FILE).method.steps {
        let boot = root.join("boots").join(step.name());
        let read = |name: &str| fs::read_to_string(boot.join(name)).ok();
        let (of_boot, of_last) = match step.side {
            Side::Base => (Some("first words"), "all words of raw:out=20"),
            // If each row boots, there is no console before its first guest.
            Side::Change => (None, "last words"),
        };
        assert_eq!(read("serial.log").as_deref(), of_boot, "{boot:?}");
        assert_eq!(read("runs/boot.serial.log").as_deref(), Some("all words of boot"), "{boot:?}");
        assert_eq!(read("runs/raw:out=20.serial.log").as_deref(), Some(of_last), "{boot:?}");
    }
}

// A fake engine of guests, and run directories that it fills.

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
        let layout_index =
            self.plan.layouts.iter().position(|layout_of_plan| layout_of_plan == layout).unwrap();
        self.calls.lock().unwrap().push(format!("boot {} {layout_index}", side.name()));
        Ok(Box::new(Ready(self, side, layout_index)))
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

    fn run(&self, row: usize) -> Result<GuestResult, Stop> {
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
        let row = fake.plan.asked.rows[row].row.clone();
        let console = format!("all words of {row}").into_bytes();
        let run = ExitRun { row, table, guest_ns: Some(ns), native_ns: Some(1000) };
        Ok(GuestResult { run, signature: [("calls".to_owned(), calls)].into(), console })
    }
}

fn identity() -> Identity {
    Identity { format: ImageFormat::Vmlinux, ..made::identity("k", "ab") }
}

pub fn plan(text: &str) -> Plan<GuestsPlan> {
    let experiment = Experiment::parse(text, "x.toml").unwrap();
    let ExperimentMethod::Guests(guests) = &experiment.method else { panic!("{experiment:?}") };
    let machine = Machine { cpu: "host".into(), memory_mib: 0, ..Machine::default() };
    let key = Key { machine_type: "kvm".into(), machine, ..made::key("7.2") };
    let mut guests = guests.clone();
    guests.asked.sides_mut().for_each(|side| side.kernel = Some(identity()));
    experiment.with_method(guests).plan(identity(), key)
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
