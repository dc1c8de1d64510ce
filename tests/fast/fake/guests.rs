//! Guests of a KVM host against a fake engine: planned, stopped and resumed, judged over layouts.

use std::fs;

use ktax::analyse;
use ktax::model::{Blame, Comparison, Failure, Row, Side, Verdict};
use ktax::run::Ended;
use ktax::rundir::AnyRunDir;

use super::guests_scene::{FILE, Script, compared, drive, faster, plan};

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
    // Whole, and the same as in one go.
    let AnyRunDir::Guests(whole) = AnyRunDir::open(&root).unwrap() else { panic!("guests") };
    assert_eq!(analyse::guests(&whole).unwrap(), compared(FILE, faster));
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
fn what_is_missing_is_said() {
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
            // Where each row boots, there is no console before its first guest.
            Side::Change => (None, "last words"),
        };
        assert_eq!(read("serial.log").as_deref(), of_boot, "{boot:?}");
        assert_eq!(read("runs/boot.serial.log").as_deref(), Some("all words of boot"), "{boot:?}");
        assert_eq!(read("runs/raw:out=20.serial.log").as_deref(), Some(of_last), "{boot:?}");
    }
}
