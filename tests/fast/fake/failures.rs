//! Every kind of Failure ends as its own row and leaves the others standing.

use std::fs;
use std::path::{Path, PathBuf};

use ktax::analyse::{self, counts, same_image_warning};
use ktax::cmd::Exit;
use ktax::engine::RawAnswer;
use ktax::model::{
    Comparison, CpuActivity, Failure, Outcome, PlanMethod, Region, Sample, Side, Verdict,
};
use ktax::report::Report;
use ktax::run::Ended;
use ktax::rundir::AnyRunDir;
use ktax::wire::Hello;

use super::scene::{OPS, Scene, VIRTUAL_S, hello, lost, over, profile};
use super::{guests, timed};
use crate::common::{files_below, open_counts, row};
use crate::fake::{scratch, scratch_path};

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
        (over([CpuActivity::Work, CpuActivity::Wait]), true),
        (over([CpuActivity::Idle, CpuActivity::Wait]), false),
        (panicked(), false),
        (Failure::VirtualTime { limit_s: 300 }, false),
        (Failure::NoAnswer { console: String::new() }, false),
        (Failure::Garbled { reason: text("line 3") }, false),
        (Failure::CpuTime { limit_s: 180 }.without_output(), true),
        (Failure::VirtualTime { limit_s: 300 }.without_output(), false),
        (Failure::Flood { limit_bytes: 1 << 20 }, false),
        (refused(), false),
        (Failure::WrongWork { deviations: text("calls 1, expected 2") }, false),
        (Failure::WrongKernel { planned: text("6.1"), found: text("6.2") }, false),
    ]
}

pub fn compared(root: &std::path::Path) -> Comparison {
    counts(&open_counts(root).unwrap()).unwrap()
}

/// Failure of a Run of `pipe` with this answer.
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
fn failures_of_the_engine_become_rows() {
    for (failure, of_the_host) in every_failure() {
        assert_eq!(failure.is_worth_retrying(), of_the_host, "{failure}");
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
fn lost_boots_are_repeated_once_with_a_warning() {
    let scene = || Scene::new(&["getppid", "pipe"]).layouts(2);
    // The boot of 000-base and its second row; the second boot again.
    let dir = scratch();
    let ran = scene().loses(&[1, 4]).run(dir.path()).complete();
    let first = ["boot", "boot", "getppid", "pipe", "pipe"].map(|call| format!("000-base {call}"));
    assert_eq!((&ran.calls[..5], ran.done), (&first[..], 8));
    let comparison = compared(dir.path());
    assert!(comparison.rows.iter().all(|row| row.verdict == Verdict::NoDetectedChange));
    let says = "ktax repeated boot 000-base or one of its runs: QEMU was lost: signal 9";
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
    let (uninterrupted, failed) = (dir.path().join("whole"), dir.path().join("failed"));
    scene().run(&uninterrupted).complete();
    spoil(scene()).run(&failed).complete();
    let again = scene().run(&failed).complete();
    assert_eq!(files_below(&uninterrupted) == files_below(&failed), !again.calls.is_empty());
    let third = scene().run(&failed).complete();
    assert!(third.calls.is_empty(), "{:?}", third.calls);
    again.calls
}

#[test]
fn only_host_failures_are_tried_again() {
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
    assert_eq!(judged(silent), Failure::NoAnswer { console: console.clone() });
}

#[test]
fn malformed_answers_are_garbled() {
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
    let answer_at =
        |tsc: u64| format!("ktax 1\nstart pipe\nsig calls 400\nsig failed 0\ntsc {tsc}\nend\n");
    let limit = VIRTUAL_S * 1_000_000_000;
    let too_long = Failure::VirtualTime { limit_s: VIRTUAL_S };
    assert_eq!(judged_wire(&answer_at(limit + 1)), too_long);
    assert_eq!(judged_wire(&answer_at(u64::MAX)), too_long);
    let dir = scratch();
    let scene = Scene::new(&["pipe"]);
    let long = RawAnswer { wire: answer_at(limit).into(), ..scene.good("pipe", Side::Base, 0) };
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

// Ctrl-C at every moment: what is finished stays, the rest is made later.

fn scene() -> Scene {
    Scene::new(&["getppid", "pipe"]).layouts(2)
}

/// The Runs on disk; each has its profile.
fn runs(root: &Path) -> Vec<PathBuf> {
    if !root.join("boots").exists() {
        return Vec::new();
    }
    let names: Vec<PathBuf> =
        files_below(&root.join("boots")).into_iter().map(|(name, _)| name).collect();
    let of_run = |name: &&PathBuf| {
        name.parent().is_some_and(|dir| dir.ends_with("runs"))
            && name.extension().is_some_and(|extension| extension == "json")
    };
    let runs: Vec<PathBuf> = names.iter().filter(of_run).cloned().collect();
    for run in &runs {
        assert!(names.contains(&run.with_extension("profile.tsv")), "{}", run.display());
    }
    runs
}

#[test]
fn a_run_that_is_stopped_at_any_call_resumes_to_the_same_end() {
    let (dir, uninterrupted) = scratch_path("whole");
    let calls = scene().run(&uninterrupted).complete().calls.len();
    assert_eq!(calls, 12);
    for jobs in [1, 3] {
        for (number, answers) in (1..=calls).flat_map(|n| [(n, true), (n, false)]) {
            let root = dir.path().join(format!("{jobs}-{number}-{answers}"));
            let first = scene().jobs(jobs).cancel_at(number, answers).run(&root);
            assert!(matches!(first.ended, Ok(Ended::Cancelled)), "{:?}", first.ended);
            assert_eq!(first.calls.len(), number, "nothing is started after it");
            let done = runs(&root).len();
            assert_eq!(first.done, done, "{root:?}");
            // All calls before it, and it if it answered.
            let finished = &first.calls[..if answers { number } else { number - 1 }];
            let expected = finished.iter().filter(|call| !call.ends_with(" boot")).count();
            assert_eq!(done, expected, "{root:?}");
            let second = scene().jobs(jobs).run(&root).complete();
            assert_eq!(second.runs(), 8 - done, "no run is made twice");
            assert!(files_below(&root) == files_below(&uninterrupted), "{root:?}");
        }
    }
}

#[test]
fn a_run_stopped_in_its_first_boot_leaves_the_boot_script() {
    let dir = scratch();
    let first = scene().cancel_at(1, false).run(dir.path());
    assert!(matches!(first.ended, Ok(Ended::Cancelled)));
    let names: Vec<PathBuf> = files_below(dir.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["boots/000-base/argv", "lock", "plan.json"].map(Path::new));
}

// From canned counts to what a row says.

fn compared_with(scene: &Scene) -> Comparison {
    let dir = scratch();
    scene.run(dir.path()).complete();
    counts(&open_counts(dir.path()).unwrap()).unwrap()
}

#[test]
fn one_more_instruction_an_operation_is_slower_and_the_function_is_named() {
    let plus_one = [11 * OPS; 5];
    let scene = Scene::new(&["getppid", "pipe"]).layouts(5);
    let comparison = compared_with(&scene.costs("pipe", Side::Change, "do_work", &plus_one));
    assert_eq!(row(&comparison, "getppid").verdict, Verdict::NoDetectedChange);
    let pipe = row(&comparison, "pipe");
    assert_eq!(
        (pipe.verdict, pipe.counts().unwrap().decided_by.as_str()),
        (Verdict::Slower, "instructions")
    );
    assert_eq!(pipe.effects()[0].delta, 1.0);
    let functions: Vec<_> =
        pipe.effects()[0].functions.iter().map(|f| (&*f.function, f.delta)).collect();
    assert_eq!(functions, [("do_work", 1.0)]);
}

#[test]
fn one_less_is_faster() {
    let scene = Scene::new(&["pipe"]).layouts(5);
    let comparison = compared_with(&scene.costs("pipe", Side::Change, "do_work", &[9 * OPS; 5]));
    assert_eq!(comparison.rows[0].verdict, Verdict::Faster);
}

#[test]
fn a_change_beyond_the_noise_and_below_the_threshold_has_its_own_verdict() {
    let (base, change) = ([1000 * OPS; 5], [1000 * OPS + OPS / 2; 5]);
    let scene = Scene::new(&["pipe"]).layouts(5).costs("pipe", Side::Base, "do_work", &base);
    let comparison = compared_with(&scene.costs("pipe", Side::Change, "do_work", &change));
    let pipe = &comparison.rows[0];
    assert_eq!((pipe.verdict, pipe.effects()[0].delta), (Verdict::BelowThreshold, 0.5));
    assert_eq!(Exit::from_comparisons(&[comparison]), Exit::Ok);
}

#[test]
fn a_change_within_the_noise_of_layouts_is_not_detected() {
    // One more an operation; the layouts move two, on both sides alike.
    let noise = |more: u64| [0, 2 * OPS, OPS, OPS, OPS].map(|noise| 10 * OPS + noise + more);
    let scene = Scene::new(&["pipe"])
        .layouts(5)
        .costs("pipe", Side::Base, "do_work", &noise(0))
        .costs("pipe", Side::Change, "do_work", &noise(OPS));
    let comparison = compared_with(&scene);
    let pipe = &comparison.rows[0];
    assert_eq!((pipe.verdict, pipe.effects()[0].delta), (Verdict::NoDetectedChange, 1.0));
    assert_eq!((pipe.effects()[0].spread, pipe.effects()[0].functions.len()), (2.0, 0));
}

#[test]
fn four_layouts_are_too_few() {
    let scene = Scene::new(&["pipe"]).layouts(4);
    let comparison = compared_with(&scene.costs("pipe", Side::Change, "do_work", &[11 * OPS; 4]));
    assert_eq!(comparison.rows[0].verdict, Verdict::TooFewBoots);
}

#[test]
fn other_work_on_each_side_is_different_work() {
    let scene = Scene::new(&["getppid", "pipe"])
        .layouts(5)
        .costs("pipe", Side::Change, "do_work", &[11 * OPS; 5])
        .signs("pipe", Side::Base, "sig faults 400\n")
        .signs("pipe", Side::Change, "sig faults 401\nsig vmas 3\n");
    let comparison = compared_with(&scene);
    assert_eq!(row(&comparison, "getppid").verdict, Verdict::NoDetectedChange);
    let pipe = row(&comparison, "pipe");
    assert_eq!(pipe.verdict, Verdict::DifferentWork);
    assert_eq!(
        pipe.reason.as_deref(),
        Some("faults 400 in base, 401 in change; vmas missing in base, 3 in change")
    );
    assert!(pipe.effects().iter().all(|effect| effect.verdict == Verdict::DifferentWork));
}

#[test]
fn two_names_of_one_image_are_a_warning_in_each_method() {
    let says = |plan: PlanMethod| {
        same_image_warning(&plan).is_some_and(|warning| warning.fact.contains("same bytes"))
    };
    let mut scene = Scene::new(&["pipe"]).layouts(5);
    assert!(!says(scene.plan.method.clone().into()));
    let kernels = &mut scene.plan.method.kernels;
    kernels.change.sha256.clone_from(&kernels.base.sha256);
    let comparison = compared_with(&scene);
    assert!(comparison.warnings[0].fact.contains("abababababab"), "{:?}", comparison.warnings);
    let identity = scene.plan.method.kernels.base.clone();
    let subjects = &mut scene.plan.method.asked.subjects;
    // One kernel with two boot lines is what most ask for.
    subjects.change.kernel.clone_from(&subjects.base.kernel);
    assert!(!says(scene.plan.method.into()));

    let mut times = timed::plan().method;
    for (side, name) in [(Side::Base, "one"), (Side::Change, "other")] {
        times.asked.subjects.get_mut(side).kernel = Some(name.into());
        times.kernels.insert(name.into(), identity.clone());
    }
    assert!(says(times.clone().into()));
    times.kernels.get_mut("other").unwrap().sha256 = "cd".repeat(32);
    assert!(!says(times.into()));

    let guests = guests::FILE;
    assert!(!says(guests::plan(guests).method.into()));
    let two = guests.replace("change = { kernel = \"k\"", "change = { kernel = \"other\"");
    assert!(says(guests::plan(&two).method.into()));
}

// Every Run once, in order, and the same bytes however many at a time.

#[test]
fn every_run_is_made_exactly_once_in_the_plans_order() {
    let dir = scratch();
    let scene = Scene::new(&["getppid", "pipe"]).layouts(2);
    let ran = scene.run(dir.path()).complete();
    assert_eq!(
        ran.calls,
        [
            "000-base boot",
            "000-base getppid",
            "000-base pipe",
            "001-change boot",
            "001-change getppid",
            "001-change pipe",
            "002-change boot",
            "002-change getppid",
            "002-change pipe",
            "003-base boot",
            "003-base getppid",
            "003-base pipe",
        ]
    );
    assert_eq!((ran.peak, ran.done), (1, 8));
    // Complete work is not repeated.
    let again = scene.run(dir.path()).complete();
    assert!(again.calls.is_empty(), "{:?}", again.calls);
    assert_eq!(again.done, 8);
}

#[test]
fn a_run_whose_region_is_the_boot_boots() {
    let dir = scratch();
    let mut scene = Scene::new(&["getppid", "kernel-boot"]);
    scene.plan.method.workloads[1].region = Region::Boot;
    let ran = scene.run(dir.path()).complete();
    assert_eq!(
        ran.calls[..3],
        ["000-base boot", "000-base getppid", "000-base boot of kernel-boot"]
    );
}

#[test]
fn each_run_is_told_its_rows_operations_parameters_and_its_layouts_phase() {
    let dir = scratch();
    let mut scene = Scene::new(&["getppid", "pipe"]).layouts(2);
    scene.plan.method.workloads[1].params = [("a".to_owned(), 7), ("b".to_owned(), 0)].into();
    scene.run(dir.path()).complete();
    let order = fs::read_to_string(dir.path().join("boots/002-change/orders/pipe")).unwrap();
    assert_eq!(order, "ktax 1\nphase 1000\nops 400\nrun pipe\nparam a 7\nparam b 0\nend\n");
}

#[test]
fn the_directory_is_the_same_however_many_boots_at_a_time() {
    let dir = scratch();
    let rows = ["getppid", "pipe", "stat"];
    let scene = || {
        Scene::new(&rows)
            .layouts(3)
            .costs("pipe", Side::Change, "do_work", &[4400, 4410, 4420])
            .fails("stat", Side::Base, 1, refused())
            .boot(Side::Change, 2, Err(panicked()))
    };
    let mut trees = Vec::new();
    for jobs in [1, 3, 100] {
        let root = dir.path().join(format!("jobs-{jobs}"));
        // All six steps at once where there are a hundred jobs.
        let ran = scene().jobs(jobs).together(jobs.min(6)).run(&root).complete();
        assert_eq!(ran.peak, jobs.min(6), "jobs {jobs}");
        assert_eq!((ran.runs(), ran.done), (15, 18), "jobs {jobs}");
        let comparison = analyse::counts(&open_counts(&root).unwrap()).unwrap();
        AnyRunDir::open(&root).unwrap().write_comparison(&comparison.saved()).unwrap();
        trees.push(files_below(&root));
    }
    assert!(trees[0].len() > 50, "{}", trees[0].len());
    assert!(trees[0] == trees[1] && trees[0] == trees[2]);
}

#[test]
fn no_jobs_is_one_job() {
    let dir = scratch();
    assert_eq!(Scene::new(&["pipe"]).jobs(0).run(dir.path()).complete().runs(), 2);
}
