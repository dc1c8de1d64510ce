//! What ends a run of timed pairs, and what is said of it.

use std::fs;

use ktax::cmd::Exit;
use ktax::engine::Stop;
use ktax::model::{Failure, Row, RunsOn, Side, TimedPair};
use ktax::report::{CSV, MARKDOWN, TextOptions, render};

use super::timed::{Scene, block, compared, drive, noise_of, plan, scene};
use crate::common::{open_times, scratch};

fn calm(_: &str, _: bool, boot: usize) -> f64 {
    1000.0 * noise_of(boot)
}

fn stopped(failure: Failure, console: &[u8]) -> Scene {
    Scene { stop: Some(Stop::Failed(failure, console.to_vec())), ..scene(calm) }
}

#[test]
fn a_guest_that_does_not_boot_is_not_run_and_its_console_is_kept() {
    let dir = scratch();
    let root = dir.path().join("run");
    let kept = root.join("failed.serial.log");
    let panic = || Failure::Panic { message: "no init".into() };
    let scenes = stopped(panic(), b"Kernel panic\x1b[0m\n");
    let error = drive(&root, &plan(), &scenes).unwrap_err().into();
    assert_eq!(Exit::from_error(&error), Exit::NotRun, "{error}");
    assert!(error.to_string().contains(kept.to_str().unwrap()), "{error}");
    assert_eq!(fs::read(&kept).unwrap(), b"Kernel panic\x1b[0m\n");
    // What says nothing leaves nothing, and nothing is named.
    let error = drive(&root, &plan(), &stopped(panic(), b"")).unwrap_err().into();
    assert_eq!(Exit::from_error(&error), Exit::NotRun, "{error}");
    assert!(!error.to_string().contains("serial.log"), "{error}");
    assert!(error.to_string().contains("`ktax doctor`") && !kept.exists(), "{error}");
    // A run that goes on has none.
    let error = block(&root, &plan(), &scenes, Side::Base, "boot".into()).unwrap_err().into();
    assert_eq!((Exit::from_error(&error), kept.exists()), (Exit::NotRun, true), "{error}");
    compared(&root, &plan(), &scene(calm));
    assert!(!kept.exists());
}

#[test]
fn a_boot_that_the_host_lost_is_made_once_more_and_this_is_said() {
    let dir = scratch();
    let mut ten = plan();
    ten.method.pairs = Some(10);
    let once = Scene { lost_at: Some(5), ..scene(calm) };
    let comparison = compared(&dir.path().join("once"), &ten, &once);
    assert_eq!(*once.seen.borrow(), 2 * 18 + 1);
    assert!(comparison.rows.iter().all(|row| row.failures.is_empty()), "{comparison:?}");
    let said: Vec<&str> = comparison.warnings.iter().map(|warning| warning.fact.as_str()).collect();
    assert_eq!(said, ["ktax made a boot of pair 2 a second time: QEMU was lost: signal 9"]);
    // Not for ever.
    let lost = Failure::QemuLost { reason: "signal 9".into() };
    let again = stopped(lost, b"");
    let error = drive(&dir.path().join("again"), &ten, &again).unwrap_err();
    assert_eq!(*again.seen.borrow(), 2, "{error}");
    assert!(error.to_string().ends_with("then resume the run"), "{error}");
}

#[test]
fn the_console_of_a_guest_that_ends_in_the_middle_is_beside_its_pair() {
    let dir = scratch();
    let root = dir.path().join("run");
    let mut of_guests = plan();
    of_guests.method.runs_on = RunsOn::Guests;
    let failing = |row: &str, is_change| {
        (row == "pipe" && is_change).then(|| Failure::Panic { message: "Oops".into() })
    };
    let ended = Scene { failure: failing, console: b"Oops\x1b[0m\n".to_vec(), ..scene(calm) };
    let comparison = compared(&root, &of_guests, &ended);
    let text = render(&comparison, MARKDOWN, TextOptions::default()).unwrap();
    assert!(text.contains("console in pairs/"), "{text}");
    // As in the CSV of counts, a number of boots.
    let table = render(&comparison, CSV, TextOptions::default()).unwrap();
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let column = reader.headers().unwrap().iter().position(|head| head == "failures").unwrap();
    let counted: Vec<usize> =
        reader.records().map(|line| line.unwrap()[column].parse().unwrap()).collect();
    let failed: Vec<usize> = comparison.rows.iter().map(Row::failed_boots).collect();
    assert_eq!(counted, failed, "{table}");
    assert!(failed.iter().any(|boots| *boots > 1) && failed.contains(&0), "{table}");
    let kept = root.join("pairs/0000.change.serial.log");
    assert_eq!(fs::read(&kept).unwrap(), b"Oops\x1b[0m\n");
    assert!(root.join("pairs/0000.base.serial.log").exists());
    // What ends well has none, and names none.
    let other = dir.path().join("other");
    compared(&other, &of_guests, &scene(calm));
    let names = fs::read_dir(other.join("pairs")).unwrap().map(|entry| entry.unwrap().file_name());
    let logs = names.filter(|name| name.to_string_lossy().ends_with(".log"));
    assert_eq!(logs.count(), 0);
}

#[test]
fn a_row_that_never_ran_is_not_tried_in_every_boot() {
    let dir = scratch();
    let root = dir.path().join("run");
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
    let error = drive(&dir.path().join("run"), &plan(), &setting).unwrap_err().into();
    assert_eq!(Exit::from_error(&error), Exit::Internal, "{error}");
    assert_eq!(error.to_string(), "cannot write thp; then resume the run");
}

#[test]
fn what_is_wrong_on_disk_is_the_same_to_all_commands() {
    let dir = scratch();
    let root = dir.path().join("run");
    compared(&root, &plan(), &scene(calm));
    let plan_text = fs::read_to_string(root.join("plan.json")).unwrap();
    let other = plan_text.replace("\"seed\": 1", "\"seed\": 2");
    fs::write(root.join("plan.json"), other).unwrap();
    let error = drive(&root, &plan(), &scene(calm)).unwrap_err().into();
    assert_eq!(Exit::from_error(&error), Exit::Usage, "{error}");
    fs::write(root.join("plan.json"), plan_text).unwrap();
    fs::write(root.join("pairs/0002.json"), "{").unwrap();
    let of_run = drive(&root, &plan(), &scene(calm)).unwrap_err().into();
    let of_analyse = open_times(&root).unwrap().pairs().unwrap_err().into();
    for error in [of_run, of_analyse] {
        assert_eq!(Exit::from_error(&error), Exit::Usage, "{error}");
    }
}
