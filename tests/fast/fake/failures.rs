//! Every kind of Failure ends as its own row and leaves the others standing.

use ktax::analyse::counts;
use ktax::engine::RawAnswer;
use ktax::model::{Comparison, Doing, Failure, Outcome, Sample, Side, Verdict};
use ktax::wire::Hello;

use super::engine::{lost, over};
use super::scene::{Scene, VIRTUAL_S, hello, profile};
use crate::common::{open_counts, row, scratch, tree};

pub fn panicked() -> Failure {
    Failure::Panic { message: "VFS: no root".into() }
}

pub fn refused() -> Failure {
    Failure::Refused { message: "mmap: Cannot allocate memory".into() }
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// Every kind, and whether it is worth trying again.
pub fn every_failure() -> Vec<(Failure, bool)> {
    vec![
        (Failure::NoQemu { reason: text("not found") }, true),
        (Failure::QemuDied { status: text("exit status 1"), stderr: text("no such CPU") }, true),
        (lost(), true),
        (Failure::NotBooted { first: text("000-base") }, true),
        (Failure::Host { operation: text("cannot write"), reason: text("no space") }, true),
        (Failure::Prefix { command: text("taskset"), reason: text("not found") }, true),
        (Failure::Setting { reason: text("read-only") }, true),
        (Failure::RealTime { limit_s: 180 }, true),
        (Failure::CpuTime { limit_s: 180 }, true),
        (Failure::Profile { reason: text("it ends early") }, true),
        (over([Doing::Work, Doing::Wait]), true),
        (over([Doing::Idle, Doing::Wait]), false),
        (panicked(), false),
        (Failure::VirtualTime { limit_s: 300 }, false),
        (Failure::Silent { console: String::new() }, false),
        (Failure::Garbled { reason: text("line 3") }, false),
        (Failure::CpuTime { limit_s: 180 }.mute(), true),
        (Failure::VirtualTime { limit_s: 300 }.mute(), false),
        (Failure::Flood { limit_bytes: 1 << 20 }, false),
        (refused(), false),
        (Failure::WrongWork { deviations: text("calls 1, expected 2") }, false),
        (Failure::WrongKernel { planned: text("6.1"), found: text("6.2") }, false),
    ]
}

pub fn compared(root: &std::path::Path) -> Comparison {
    counts(&open_counts(root).unwrap()).unwrap()
}

/// What one Run of `pipe` comes to if the guest and the plugin leave this.
fn judged(answer: impl Fn(RawAnswer) -> RawAnswer) -> Failure {
    let dir = scratch();
    let scene = Scene::new(&["getppid", "pipe", "stat"]).layouts(3);
    let canned = answer(scene.good("pipe", Side::Change, 1));
    scene.answer("pipe", Side::Change, 1, canned).run(dir.path()).complete();
    let comparison = compared(dir.path());
    for name in ["getppid", "stat"] {
        assert_eq!(row(&comparison, name).verdict, Verdict::NoDetectedChange, "{name}");
    }
    let failed = row(&comparison, "pipe");
    assert_eq!(failed.verdict, Verdict::Failed);
    let [failure] = failed.failures.as_slice() else { panic!("{:?}", failed.failures) };
    assert_eq!((failure.boot.as_str(), failure.side), ("002-change", Side::Change));
    failure.failure.clone()
}

fn judged_wire(wire: &str) -> Failure {
    judged(|answer| RawAnswer { wire: wire.into(), ..answer })
}

fn judged_profile(profile: &str) -> Failure {
    judged(|answer| RawAnswer { profile: profile.into(), ..answer })
}

#[test]
fn what_the_engine_reports_of_a_run_is_its_row() {
    for (failure, of_the_host) in every_failure() {
        assert_eq!(failure.is_of_the_host(), of_the_host, "{failure}");
        let dir = scratch();
        let scene = Scene::new(&["getppid", "pipe"]).layouts(3);
        let scene = scene.fails("pipe", Side::Base, 0, failure.clone());
        scene.run(dir.path()).complete();
        let comparison = compared(dir.path());
        assert_eq!(row(&comparison, "getppid").verdict, Verdict::NoDetectedChange);
        let failed = row(&comparison, "pipe");
        assert_eq!(failed.verdict, Verdict::Failed);
        assert_eq!(failed.failures[0].failure, failure);
        assert_eq!((failed.failures.len(), failed.effects().len()), (1, 0));
        assert!(!dir.path().join("boots/000-base/runs/pipe.profile.tsv").exists());
    }
}

#[test]
fn a_failed_boot_fails_its_rows_and_leaves_the_other_side_alone() {
    for (failure, _) in every_failure() {
        let dir = scratch();
        let scene = Scene::new(&["getppid", "pipe"]).layouts(2);
        let ran = scene.boot(Side::Change, 0, Err(failure.clone())).run(dir.path()).complete();
        assert_eq!((ran.runs(), ran.done), (4, 8));
        let spared = Failure::NotBooted { first: text("001-change") };
        let opened = open_counts(dir.path()).unwrap();
        for step in &opened.plan().method.steps {
            let boot = opened.boot(step).unwrap().unwrap();
            let expected = match step.name().as_str() {
                "001-change" => Some(&failure),
                "002-change" => Some(&spared),
                _ => None,
            };
            assert_eq!(boot.failure.as_ref(), expected);
            let run = opened.run::<Sample>(step, "pipe").unwrap().map(|run| run.outcome);
            assert_eq!(matches!(run, Some(Outcome::Measured(_))), expected.is_none());
        }
        for row in &compared(dir.path()).rows {
            assert_eq!(row.verdict, Verdict::Failed);
            let failures =
                row.failures.iter().map(|failed| (failed.boot.as_str(), &failed.failure));
            let failures: Vec<_> = failures.collect();
            assert_eq!(failures, [("001-change", &failure), ("002-change", &spared)]);
        }
    }
}

#[test]
fn boots_that_were_spared_are_made_once_the_first_can_be() {
    let scene = || Scene::new(&["pipe"]).layouts(3);
    for (failure, of_the_host) in every_failure() {
        let dir = scratch();
        scene().boot(Side::Base, 0, Err(failure.clone())).run(dir.path()).complete();
        let boots = |ran: super::scene::Ran| {
            ran.calls.into_iter().filter(|call| call.ends_with(" boot")).collect::<Vec<_>>()
        };
        let again = boots(scene().run(dir.path()).complete());
        let every = ["000-base boot", "003-base boot", "004-base boot"];
        assert_eq!(again, if of_the_host { &every[..] } else { &[] }, "{failure}");
    }
}

#[test]
fn what_the_host_lost_is_made_once_more_and_said() {
    let scene = || Scene::new(&["getppid", "pipe"]).layouts(2);
    // The boot of 000-base and its second row; the second boot again.
    let dir = scratch();
    let ran = scene().loses(&[1, 4]).run(dir.path()).complete();
    let first = ["boot", "boot", "getppid", "pipe", "pipe"].map(|call| format!("000-base {call}"));
    assert_eq!((&ran.calls[..5], ran.done), (&first[..], 8));
    let comparison = compared(dir.path());
    assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::NoDetectedChange));
    let says = "boot 000-base or a run of it a second time: QEMU was lost: signal 9";
    let warnings = comparison.warnings.iter().filter(|warning| warning.fact.contains(says));
    assert_eq!(warnings.count(), 2, "{:?}", comparison.warnings);
    // Never a third time in one run of ktax.
    let dir = scratch();
    let ran = scene().loses(&[1, 2]).run(dir.path()).complete();
    assert_eq!(ran.calls.iter().filter(|call| call.starts_with("000-base")).count(), 2);
    let failures = compared(dir.path()).rows[0].failures.clone();
    assert_eq!(failures[0].failure, lost());
    let ran = scene().run(dir.path()).complete();
    assert_eq!(ran.calls.len(), 6, "{:?}", ran.calls);
}

/// Calls of a second run over the same directory.
fn calls_again(scene: fn() -> Scene, spoil: impl Fn(Scene) -> Scene) -> Vec<String> {
    let dir = scratch();
    let (whole, failed) = (dir.path().join("whole"), dir.path().join("failed"));
    scene().run(&whole).complete();
    spoil(scene()).run(&failed).complete();
    let again = scene().run(&failed).complete();
    assert_eq!(tree(&whole) == tree(&failed), !again.calls.is_empty());
    let third = scene().run(&failed).complete();
    assert!(third.calls.is_empty(), "{:?}", third.calls);
    again.calls
}

#[test]
fn what_the_host_may_have_caused_is_tried_again_and_nothing_else() {
    let scene = || Scene::new(&["getppid", "pipe"]).layouts(2);
    for (failure, of_the_host) in every_failure() {
        let run = |scene: Scene| scene.fails("pipe", Side::Change, 1, failure.clone());
        let expected: &[&str] =
            if of_the_host { &["002-change boot", "002-change pipe"] } else { &[] };
        assert_eq!(calls_again(scene, run), expected, "run: {failure}");
        let boot = |scene: Scene| scene.boot(Side::Change, 1, Err(failure.clone()));
        let expected: &[&str] = match of_the_host {
            true => &["002-change boot", "002-change getppid", "002-change pipe"],
            false => &[],
        };
        assert_eq!(calls_again(scene, boot), expected, "boot: {failure}");
    }
}

#[test]
fn another_kernel_than_the_planned_one_is_not_measured() {
    let planned = hello(Side::Base);
    let other_id = Some("cd".repeat(20));
    for (found, expected) in [
        (Hello { release: text("6.6.6"), ..planned.clone() }, Some(("6.1.0-base", text("6.6.6")))),
        (
            Hello { build_id: other_id.clone(), ..planned.clone() },
            Some((&*"ab".repeat(20), "cd".repeat(20))),
        ),
        // A kernel without notes says no build-id: the release has to do.
        (Hello { build_id: None, ..planned.clone() }, None),
    ] {
        let dir = scratch();
        let scene = Scene::new(&["pipe"]).boot(Side::Base, 0, Ok(found));
        let ran = scene.run(dir.path()).complete();
        assert_eq!(ran.runs(), if expected.is_some() { 1 } else { 2 });
        let failures = compared(dir.path()).rows[0].failures.clone();
        let expected = expected.map(|(planned, found)| {
            let planned = planned.to_owned();
            Failure::WrongKernel { planned, found }
        });
        assert_eq!(failures.first().map(|failure| &failure.failure), expected.as_ref());
    }
}

#[test]
fn an_empty_wire_is_silence_and_the_console_is_quoted() {
    let console = text("Kernel: no init");
    let silent = |answer| RawAnswer { wire: Vec::new(), console_tail: console.clone(), ..answer };
    assert_eq!(judged(silent), Failure::Silent { console: console.clone() });
}

#[test]
fn what_is_not_of_the_wire_format_is_garbled() {
    for wire in [
        "junk",
        "ktax 1\n",
        "ktax 2\nstart pipe\ntsc 1\nend\n",
        "ktax 1\nstart stat\nsig calls 400\nsig failed 0\ntsc 1\nend\n",
        "ktax 1\nstart pipe\nsig calls 400\nsig failed 0\nend\n",
        "ktax 1\nstart pipe\nsig calls 400\nsig failed 0\ntsc 1\nend\nend\n",
        "ktax 1\nstart pipe\nsig calls 18446744073709551616\nsig failed 0\ntsc 1\nend\n",
        "ktax 1\nstart pipe\n\x1b]0;evil\x07\u{9b}31m\n",
    ] {
        let Failure::Garbled { reason } = judged_wire(wire) else { panic!("{wire:?}") };
        assert!(!reason.is_empty() && !reason.contains(char::is_control), "{reason:?}");
    }
    let refused = Failure::Refused { message: text("\\x1b[2Jno") };
    assert_eq!(judged_wire("ktax 1\nstart pipe\nfail \x1b[2Jno\n"), refused);
}

#[test]
fn other_work_than_planned_is_wrong_work() {
    let wire = "ktax 1\nstart pipe\nsig calls 399\nsig failed 1\ntsc 1\nend\n";
    let deviations = text("calls 399, expected 400; failed 1, expected 0");
    assert_eq!(judged_wire(wire), Failure::WrongWork { deviations });
    let deviations = text("failed missing, expected 0");
    let wire = "ktax 1\nstart pipe\nsig calls 400\ntsc 1\nend\n";
    assert_eq!(judged_wire(wire), Failure::WrongWork { deviations });
}

#[test]
fn a_region_may_last_the_limit_and_not_a_nanosecond_more() {
    let at =
        |tsc: u64| format!("ktax 1\nstart pipe\nsig calls 400\nsig failed 0\ntsc {tsc}\nend\n");
    let limit = VIRTUAL_S * 1_000_000_000;
    let too_long = Failure::VirtualTime { limit_s: VIRTUAL_S };
    assert_eq!(judged_wire(&at(limit + 1)), too_long);
    assert_eq!(judged_wire(&at(u64::MAX)), too_long);
    let dir = scratch();
    let scene = Scene::new(&["pipe"]);
    let long = RawAnswer { wire: at(limit).into(), ..scene.good("pipe", Side::Base, 0) };
    scene.answer("pipe", Side::Base, 0, long).run(dir.path()).complete();
    assert!(compared(dir.path()).rows[0].failures.is_empty());
}

#[test]
fn a_profile_that_cannot_be_right_is_no_sample() {
    let good = profile(&[("do_work", 4000), ("[user]", 5)]);
    let two = good.replace("end\n", "region\t2\ntotal\t0\nend\n");
    for (profile, says) in [
        (good.replace("do_work", "do work"), "line 5"),
        (good.replace("4000", "4001"), "add up to 4248, the total is 4247"),
        (two, "2 regions"),
        (text("ktax-profile\t1\napi\t1\nend\n"), "0 regions"),
        (text("ktax-profile\t1\nregion\t1\nend\n"), "no total"),
        (good.replace("fn\tinterrupt", "total\t4247\nfn\tinterrupt"), "line 7"),
        (good.replace("end\n", ""), "ends early"),
        (String::new(), "ends early"),
    ] {
        let Failure::Profile { reason } = judged_profile(&profile) else { panic!("{profile}") };
        assert!(reason.contains(says), "{reason}");
    }
}
