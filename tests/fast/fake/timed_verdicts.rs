use std::fs;

use ktax::analyse::times;
use ktax::cmd::Exit;
use ktax::engine::Stop;
use ktax::model::{Facts, Failure, Noise, Row, RunsOn, Side, TimedPair, Verdict};
use ktax::report::{CSV, MARKDOWN, TEXT, TextOptions, render};

use super::timed::{
    Scene, block, compared, drive, noise_of, plan, planted, scene, times_evidence, verdicts,
};
use crate::common::{assert_has, open_times};
use crate::fake::{scratch, scratch_path};

#[test]
fn only_planted_effects_are_found() {
    let dir = scratch();
    let comparison = compared(&dir.path().join("run"), &plan(), &scene(planted));
    let [getppid, pipe, stat] = &comparison.rows[..] else { panic!("{comparison:?}") };
    assert_eq!(
        verdicts(&comparison.rows),
        [Verdict::NoDetectedChange, Verdict::Slower, Verdict::Faster]
    );
    for (row, ratio) in [(getppid, 1.0), (pipe, 1.05), (stat, 0.97)] {
        let seen = row.times().unwrap().ratio.unwrap();
        assert!(seen.low < ratio && ratio < seen.high.unwrap(), "{row:?}");
    }
    assert_eq!([getppid, pipe, stat].map(|row| row.times().unwrap().family), [2, 2, 1]);
    // Every row has its detectable change, and the detected one is above it.
    assert!(getppid.times().unwrap().detectable_percent.unwrap() < 1.0, "{getppid:?}");
    let times = times_evidence(&comparison);
    assert!(times.controls >= 8 && times.pairs >= 10, "{comparison:?}");
    let text =
        render(&comparison, TEXT, TextOptions { width: 80, ..TextOptions::default() }).unwrap();
    // All loops of a boot are alike there: the variance is between boots.
    let checks = text.lines().rfind(|line| line.starts_with("getppid  ")).unwrap();
    assert!(checks.ends_with(" 100"), "{text}");
    assert!(text.contains("no detected change") && !text.contains("no change"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_change_that_is_sure_and_small_is_below_the_threshold() {
    let dir = scratch();
    let mut sixty = plan();
    sixty.method.asked.pairs = Some(60);
    let half = |row: &str, is_change: bool, boot: usize| match (row, is_change) {
        ("pipe", true) => 1005.0 * noise_of(boot),
        ("stat", true) => 995.0 * noise_of(boot),
        _ => 1000.0 * noise_of(boot),
    };
    let comparison = compared(&dir.path().join("run"), &sixty, &scene(half));
    let small = Verdict::BelowThreshold;
    assert_eq!(verdicts(&comparison.rows), [Verdict::NoDetectedChange, small, small]);
    let text = render(&comparison, TEXT, TextOptions::default()).unwrap();
    assert_eq!(text.matches("  below the threshold\n").count(), 2, "{text}");
}

#[test]
fn nine_pairs_get_no_verdict() {
    let dir = scratch();
    let (root, mut ten) = (dir.path().join("run"), plan());
    ten.method.asked.pairs = Some(10);
    assert_eq!(compared(&root, &ten, &scene(planted)).rows[1].verdict, Verdict::Slower);
    let mut pairs = open_times(&root).unwrap().pairs().unwrap();
    let last = pairs.iter().rposition(|pair| !pair.is_control).unwrap();
    pairs.remove(last);
    let row = &times(&ten, &pairs).rows[1];
    assert_eq!((row.times().unwrap().pairs, row.verdict), (9, Verdict::TooFewBoots), "{row:?}");
}

#[test]
fn times_of_an_operation_are_not_cut_to_nanoseconds() {
    let (_dir, root) = scratch_path("run");
    compared(&root, &plan(), &scene(|_, _, boot| 1000.25 * noise_of(boot)));
    let pairs = open_times(&root).unwrap().pairs().unwrap();
    let boots = pairs.iter().flat_map(|pair| pair.boots.both());
    let mut times = boots.flat_map(|boot| &boot.runs["getppid"].loops_ns);
    assert!(times.any(|ns| ns.fract() != 0.0));
}

#[test]
fn a_plan_that_is_none_of_ours_is_refused() {
    let (_dir, root) = scratch_path("run");
    compared(&root, &plan(), &scene(planted));
    let text = fs::read_to_string(root.join("plan.json")).unwrap();
    for (from, to) in [
        ("\"loops\": 3", "\"loops\": 4294967295"),
        ("\"loops\": 3", "\"loops\": 0"),
        ("\"most_pairs\": 200", "\"most_pairs\": 4000000000"),
        ("\"threshold_percent\": 1.0", "\"threshold_percent\": 0.0"),
        ("\"ops\": 100000", "\"ops\": 0"),
    ] {
        let other = text.replace(from, to);
        assert_ne!(other, text, "{from}");
        fs::write(root.join("plan.json"), other).unwrap();
        let error = open_times(&root).unwrap_err();
        assert!(error.message().contains(" is damaged or "), "{to}: {error}");
    }
}

/// `pipe` refuses in the change.
fn refusing(row: &str, is_change: bool) -> Option<Failure> {
    let message = "no such file".to_owned();
    (row == "pipe" && is_change).then_some(Failure::Refused { message })
}

#[test]
fn a_row_that_cannot_run_has_failed_and_the_others_are_judged() {
    let dir = scratch();
    let mut scene = scene(planted);
    scene.failure = refusing;
    let comparison = compared(&dir.path().join("run"), &plan(), &scene);
    assert_eq!(
        verdicts(&comparison.rows),
        [Verdict::NoDetectedChange, Verdict::Failed, Verdict::Faster]
    );
    let text = render(&comparison, MARKDOWN, TextOptions::default()).unwrap();
    assert!(
        text.contains("boots of the change: `pipe`") && text.contains("no such file"),
        "{text}"
    );
    // Where it is all that there is, nobody waits for it.
    let mut alone = plan();
    alone.method.headline.remove(0);
    let comparison = compared(&dir.path().join("alone"), &alone, &scene);
    assert!(
        times_evidence(&comparison).pairs + times_evidence(&comparison).controls < 18,
        "{comparison:?}"
    );
}

#[test]
fn a_side_that_fails_now_and_then_is_no_fair_sample() {
    let (_dir, root) = scratch_path("run");
    compared(&root, &plan(), &scene(planted));
    let run = open_times(&root).unwrap();
    let mut pairs = run.pairs().unwrap();
    // Every third boot of the change reaches a limit.
    for pair in pairs.iter_mut().filter(|pair| !pair.is_control).step_by(3) {
        let run = pair.boots.change.runs.get_mut("pipe").unwrap();
        run.failure = Some(Failure::RealTime { limit_s: 180 });
    }
    let comparison = times(run.plan(), &pairs);
    assert_eq!(comparison.rows[1].verdict, Verdict::Failed, "{comparison:?}");
    assert_ne!(comparison.rows[0].verdict, Verdict::Failed);
}

#[test]
fn the_smallest_run_has_its_controls_whatever_the_seed() {
    let dir = scratch();
    for seed in [1, 6, 7] {
        let mut ten = plan();
        (ten.method.asked.pairs, ten.seed) = (Some(10), seed);
        let comparison = compared(&dir.path().join(seed.to_string()), &ten, &scene(planted));
        assert_eq!(
            (times_evidence(&comparison).pairs, times_evidence(&comparison).controls),
            (10, 8),
            "{seed}"
        );
        assert_eq!(comparison.rows[1].verdict, Verdict::Slower, "{seed}");
    }
}

#[test]
fn different_work_gets_no_verdict() {
    let dir = scratch();
    let mut other = scene(planted);
    other.beside = |_, is_change| if is_change { 2 } else { 1 };
    let comparison = compared(&dir.path().join("run"), &plan(), &other);
    assert_eq!(comparison.rows[1].verdict, Verdict::DifferentWork);
    assert_eq!(comparison.rows[1].reason.as_deref(), Some("beside 1 in base, 2 in change"));
    // Nobody goes on with what cannot be judged.
    assert_eq!(times_evidence(&comparison).pairs, 1);
}

#[test]
fn a_row_of_different_work_does_not_keep_the_others_from_an_answer() {
    let dir = scratch();
    // Quiet, and 50 % more; beside it a row so noisy that it would want every pair there is.
    let ns = |row: &str, is_change: bool, boot: usize| match (row, is_change) {
        ("getppid", false) => 1000.0 * noise_of(boot),
        ("getppid", true) => 1500.0 * noise_of(boot),
        _ => 1000.0 + 300.0 * (boot * 7919 % 101) as f64,
    };
    let mut other = scene(ns);
    other.beside = |row, is_change| if row == "pipe" && is_change { 2 } else { 1 };
    let comparison = compared(&dir.path().join("run"), &plan(), &other);
    let found = [Verdict::Slower, Verdict::DifferentWork];
    assert_eq!(verdicts(&comparison.rows[..2]), found, "{comparison:?}");
    assert!(times_evidence(&comparison).pairs <= 40, "{comparison:?}");
}

#[test]
fn a_machine_that_cannot_measure_says_so_after_the_pilot() {
    let dir = scratch();
    let mut stolen = scene(planted);
    stolen.noise = Noise { steal_percent: 10.5, ..stolen.noise };
    let comparison = compared(&dir.path().join("stolen"), &plan(), &stolen);
    assert_eq!(verdicts(&comparison.rows), [Verdict::Inconclusive; 3]);
    assert_eq!(times_evidence(&comparison).pairs + times_evidence(&comparison).controls, 18);
    assert!(
        times_evidence(&comparison).unfit.as_ref().unwrap().contains("hypervisor"),
        "{comparison:?}"
    );
    // Just below it measures.
    stolen.noise.steal_percent = 9.5;
    let comparison = compared(&dir.path().join("less"), &plan(), &stolen);
    assert_eq!(times_evidence(&comparison).unfit, None);
    assert_eq!(comparison.rows[1].verdict, Verdict::Slower);
}

#[test]
fn undeclared_differences_are_refused_unless_allowed() {
    let dir = scratch();
    let mut other = scene(planted);
    other.facts = |is_change| {
        let governor = if is_change { "powersave" } else { "performance" };
        Facts::from([("governor".to_owned(), governor.to_owned())])
    };
    let mut plan = plan();
    let comparison = compared(&dir.path().join("refused"), &plan, &other);
    assert!(
        times_evidence(&comparison).unfit.as_ref().unwrap().contains("governor"),
        "{comparison:?}"
    );
    assert_eq!(comparison.rows[1].verdict, Verdict::Inconclusive);
    plan.method.asked.allow_differences = true;
    let comparison = compared(&dir.path().join("allowed"), &plan, &other);
    assert_eq!(comparison.rows[1].verdict, Verdict::Slower);
    let warned = |fact: &str| comparison.warnings.iter().any(|warning| warning.fact.contains(fact));
    assert!(warned("not declared"), "{comparison:?}");
    // What was declared is what is compared.
    plan.method.asked.allow_differences = false;
    plan.method.asked.subjects.change.governor = Some("powersave".into());
    let comparison = compared(&dir.path().join("declared"), &plan, &other);
    assert_eq!(
        (&times_evidence(&comparison).unfit, comparison.rows[1].verdict),
        (&None, Verdict::Slower)
    );
}

#[test]
fn a_second_place_that_is_always_slower_vetoes_the_verdict() {
    let dir = scratch();
    // By where it runs, not by what it is: odd Boots are second.
    let second = |_: &str, _: bool, boot: usize| 1000.0 * if boot % 2 == 1 { 1.08 } else { 1.0 };
    let comparison = compared(&dir.path().join("run"), &plan(), &scene(second));
    assert_ne!(comparison.rows[0].verdict, Verdict::Slower, "the lot evens it out");
    // A harness that favours the change's place itself is what the A/A pairs see.
    let favoured = dir.path().join("favoured");
    compared(&favoured, &plan(), &scene(planted));
    for entry in fs::read_dir(favoured.join("pairs")).unwrap() {
        let path = entry.unwrap().path();
        let mut pair: ktax::model::TimedPair =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for run in pair.boots.change.runs.values_mut() {
            run.loops_ns.iter_mut().for_each(|ns| *ns *= 1.04);
        }
        fs::write(&path, serde_json::to_vec(&pair).unwrap()).unwrap();
    }
    let dir = open_times(&favoured).unwrap();
    let comparison = times(dir.plan(), &dir.pairs().unwrap());
    assert_eq!(verdicts(&comparison.rows), [Verdict::Inconclusive; 3]);
    assert!(comparison.rows[1].reason.as_ref().unwrap().contains("base against base"));
}

// Failures that end a run of timed pairs, and their messages.

fn calm(_: &str, _: bool, boot: usize) -> f64 {
    1000.0 * noise_of(boot)
}

fn stopped(failure: Failure, console: &[u8]) -> Scene {
    Scene { stop: Some(Stop::Failed(failure, console.to_vec())), ..scene(calm) }
}

#[test]
fn a_guest_that_does_not_boot_is_not_run_and_its_console_is_kept() {
    let (_dir, root) = scratch_path("run");
    let log = root.join("failed.serial.log");
    let panic = || Failure::Panic { message: "no init".into() };
    let scenes = stopped(panic(), b"Kernel panic\x1b[0m\n");
    let error = drive(&root, &plan(), &scenes).unwrap_err();
    assert_eq!(Exit::from_error(&error), Exit::NotRun, "{error}");
    assert!(error.to_string().contains(log.to_str().unwrap()), "{error}");
    assert_eq!(fs::read(&log).unwrap(), b"Kernel panic\x1b[0m\n");
    // An empty console is not kept, and not named.
    let error = drive(&root, &plan(), &stopped(panic(), b"")).unwrap_err();
    assert_eq!(Exit::from_error(&error), Exit::NotRun, "{error}");
    assert!(!error.to_string().contains("serial.log"), "{error}");
    assert!(error.to_string().contains("`ktax doctor`") && !log.exists(), "{error}");
    // A run that goes on has none.
    let error = block(&root, &plan(), &scenes, Side::Base, "boot".into()).unwrap_err();
    assert_eq!((Exit::from_error(&error), log.exists()), (Exit::NotRun, true), "{error}");
    compared(&root, &plan(), &scene(calm));
    assert!(!log.exists());
}

#[test]
fn a_boot_that_the_host_lost_is_made_once_more_and_this_is_said() {
    let dir = scratch();
    let mut ten = plan();
    ten.method.asked.pairs = Some(10);
    let once = Scene { lost_at: Some(5), ..scene(calm) };
    let comparison = compared(&dir.path().join("once"), &ten, &once);
    assert_eq!(*once.seen.borrow(), 2 * 18 + 1);
    assert!(comparison.rows.iter().all(|row| row.failures.is_empty()), "{comparison:?}");
    let facts: Vec<&str> =
        comparison.warnings.iter().map(|warning| warning.fact.as_str()).collect();
    assert_eq!(facts, ["ktax repeated a boot of pair 2: QEMU was lost: signal 9"]);
    // Not for ever.
    let lost = Failure::QemuLost { reason: "signal 9".into() };
    let again = stopped(lost, b"");
    let error = drive(&dir.path().join("again"), &ten, &again).unwrap_err();
    assert_eq!(*again.seen.borrow(), 2, "{error}");
    assert!(error.to_string().ends_with("then resume the run"), "{error}");
}

#[test]
fn the_console_of_a_guest_that_ends_in_the_middle_is_beside_its_pair() {
    let (dir, root) = scratch_path("run");
    let mut guests_plan = plan();
    guests_plan.method.asked.runs_on = RunsOn::Guests;
    let failing = |row: &str, is_change| {
        (row == "pipe" && is_change).then(|| Failure::Panic { message: "Oops".into() })
    };
    let ended = Scene { failure: failing, console: b"Oops\x1b[0m\n".to_vec(), ..scene(calm) };
    let comparison = compared(&root, &guests_plan, &ended);
    assert_has(render(&comparison, MARKDOWN, TextOptions::default()).unwrap(), "console in pairs/");
    // The number of boots stands where the CSV of counts has it.
    let table = render(&comparison, CSV, TextOptions::default()).unwrap();
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let column = reader.headers().unwrap().iter().position(|head| head == "failures").unwrap();
    let counted: Vec<usize> =
        reader.records().map(|line| line.unwrap()[column].parse().unwrap()).collect();
    let failed: Vec<usize> = comparison.rows.iter().map(Row::failed_boots).collect();
    assert_eq!(counted, failed, "{table}");
    assert!(failed.iter().any(|boots| *boots > 1) && failed.contains(&0), "{table}");
    let log = root.join("pairs/0000.change.serial.log");
    assert_eq!(fs::read(&log).unwrap(), b"Oops\x1b[0m\n");
    assert!(root.join("pairs/0000.base.serial.log").exists());
    // A boot that ends well keeps no console, and names none.
    let other = dir.path().join("other");
    compared(&other, &guests_plan, &scene(calm));
    let names = fs::read_dir(other.join("pairs")).unwrap().map(|entry| entry.unwrap().file_name());
    let logs = names.filter(|name| name.to_string_lossy().ends_with(".log"));
    assert_eq!(logs.count(), 0);
}

#[test]
fn a_row_that_never_ran_is_not_tried_in_every_boot() {
    let (_dir, root) = scratch_path("run");
    let failing = |row: &str, is_change| {
        (row == "pipe" && is_change).then_some(Failure::RealTime { limit_s: 180 })
    };
    compared(&root, &plan(), &Scene { failure: failing, ..scene(calm) });
    let pairs = open_times(&root).unwrap().pairs().unwrap();
    let tried = |pair: &&TimedPair| pair.boots.change.runs.contains_key("pipe");
    let (last, of_change) = (pairs.last().unwrap(), pairs.iter().filter(|pair| !pair.is_control));
    assert_eq!((of_change.filter(tried).count(), tried(&last)), (3, false));
    assert!(pairs.len() >= 18 && last.boots.change.runs.contains_key("getppid"));
}

#[test]
fn a_setting_that_fails_is_no_guest_that_does_not_run() {
    let dir = scratch();
    let setting = stopped(Failure::Setting { reason: "cannot write thp".into() }, b"");
    let error = drive(&dir.path().join("run"), &plan(), &setting).unwrap_err();
    assert_eq!(Exit::from_error(&error), Exit::Internal, "{error}");
    assert_eq!(error.to_string(), "cannot write thp; then resume the run");
}

#[test]
fn all_commands_report_damaged_files_alike() {
    let (_dir, root) = scratch_path("run");
    compared(&root, &plan(), &scene(calm));
    let plan_text = fs::read_to_string(root.join("plan.json")).unwrap();
    let other = plan_text.replace("\"seed\": 1", "\"seed\": 2");
    fs::write(root.join("plan.json"), other).unwrap();
    let error = drive(&root, &plan(), &scene(calm)).unwrap_err();
    assert_eq!(Exit::from_error(&error), Exit::Usage, "{error}");
    fs::write(root.join("plan.json"), plan_text).unwrap();
    fs::write(root.join("pairs/0002.json"), "{").unwrap();
    let of_run = drive(&root, &plan(), &scene(calm)).unwrap_err();
    let of_analyse = open_times(&root).unwrap().pairs().unwrap_err();
    for error in [of_run, of_analyse] {
        assert_eq!(Exit::from_error(&error), Exit::Usage, "{error}");
    }
}
