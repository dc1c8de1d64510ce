//! The run directory fails, or was made by someone else.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ktax::cmd::Exit;
use ktax::model::{Blame, ErrorKind, FORMAT, Failure, PlanMethod, Side};
use ktax::rundir::RunDir;

use super::failures;
use super::scene::{OPS, Ran, Scene};
use crate::common::{files_below, open_counts};
use crate::fake::{scratch, scratch_path};

const RUNS: &str = "boots/001-change/runs";

fn scene() -> Scene {
    Scene::new(&["getppid", "pipe"]).layouts(2)
}

fn refused(ran: &Ran) -> String {
    let error = ran.ended.as_ref().unwrap_err();
    assert_eq!(error.blame, Blame::Host, "{error}");
    error.to_string()
}

/// A directory that no one can write to, root included.
fn block(root: &Path) {
    fs::rename(root.join(RUNS), root.join("away")).unwrap();
    fs::write(root.join(RUNS), "").unwrap();
}

fn unblock(root: &Path) {
    fs::remove_file(root.join(RUNS)).unwrap();
    fs::rename(root.join("away"), root.join(RUNS)).unwrap();
}

#[test]
fn write_errors_end_the_run_with_a_next_step() {
    let (dir, uninterrupted) = scratch_path("whole");
    scene().run(&uninterrupted).complete();
    for jobs in [1, 3] {
        let root = dir.path().join(format!("blocked-{jobs}"));
        // During the second run of the second boot of one job.
        let ran = match jobs {
            1 => scene().at_call(6, block).run(&root),
            _ => {
                scene().run(&root).complete();
                block(&root);
                scene().jobs(jobs).run(&root)
            }
        };
        let message = refused(&ran);
        assert!(message.contains(RUNS), "{message}");
        assert!(message.contains("check the permissions and the free disk space"), "{message}");
        if jobs == 1 {
            assert_eq!(ran.calls.last().unwrap(), "001-change pipe", "nothing is started after it");
        }
        unblock(&root);
        let again = scene().run(&root).complete();
        assert_eq!(again.runs(), if jobs == 1 { 5 } else { 0 });
        assert!(files_below(&root) == files_below(&uninterrupted));
    }
}

#[test]
fn unfinished_files_are_removed() {
    let dir = scratch();
    let (uninterrupted, root) = (dir.path().join("whole"), dir.path().join("killed"));
    scene().run(&uninterrupted).complete();
    let stray = |root: &Path| {
        for place in ["", "boots/000-base", "boots/000-base/runs", "boots/000-base/orders"] {
            fs::write(root.join(place).join(".new-Ab3dEf"), "half of").unwrap();
        }
    };
    scene().at_call(3, stray).cancel_at(3, false).run(&root);
    scene().run(&root).complete();
    let (found, wanted) = (files_below(&root), files_below(&uninterrupted));
    let names = |tree: &[(std::path::PathBuf, _)]| {
        tree.iter().map(|(name, _): &(_, Vec<u8>)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&found), names(&wanted));
    assert!(found == wanted);
}

#[test]
fn files_are_replaced_and_never_written_into() {
    let dir = scratch();
    let (root, links) = (dir.path().join("out"), dir.path().join("links"));
    fs::create_dir(&links).unwrap();
    let late = ["boot.json", "serial.log", "orders/pipe", "runs/pipe.profile.tsv"];
    let boot = |root: &Path| root.join("boots/000-base");
    let link = |links: &Path, name: &str| links.join(name.replace('/', "-"));
    let plant = move |root: &Path, links: &Path, name: &str| {
        fs::write(boot(root).join(name), "old").unwrap();
        fs::hard_link(boot(root).join(name), link(links, name)).unwrap();
    };
    // This one is there before the first boot.
    scene().cancel_at(1, false).run(&root);
    plant(&root, &links, "argv");
    let old = links.clone();
    let scene =
        scene().at_call(1, move |root| late.iter().for_each(|name| plant(root, &old, name)));
    scene.run(&root).complete();
    for name in late.iter().chain(&["argv"]) {
        assert_ne!(fs::read_to_string(boot(&root).join(name)).unwrap(), "old", "{name}");
        assert_eq!(fs::read_to_string(link(&links, name)).unwrap(), "old", "{name}");
    }
}

#[test]
fn a_boot_that_hangs_can_be_repeated_by_hand() {
    let dir = scratch();
    let there = Arc::new(Mutex::new(Vec::new()));
    let seen = there.clone();
    let look = move |root: &Path| {
        let names = ["boots/000-base/argv", "boots/000-base/orders/getppid"];
        seen.lock().unwrap().push(names.map(|name| root.join(name).exists()));
    };
    // The first call boots, the second runs the row.
    scene().at_call(1, look.clone()).at_call(2, look).run(dir.path()).complete();
    assert_eq!(*there.lock().unwrap(), [[true, false], [true, true]]);
}

#[test]
fn a_plan_that_was_cut_off_is_planned_again() {
    let dir = scratch();
    fs::write(dir.path().join(".new-Ab3dEf"), "{").unwrap();
    scene().run(dir.path()).complete();
    let names = files_below(dir.path()).into_iter().map(|(name, _)| name);
    assert!(!names.into_iter().any(|name| name.to_string_lossy().contains(".new-")));
    assert_eq!(RunDir::create(dir.path(), scene().plan).unwrap_err().kind, ErrorKind::InUse);
}

#[test]
fn a_damaged_result_is_refused_with_its_name() {
    let dir = scratch();
    scene().run(dir.path()).complete();
    let path = dir.path().join("boots/003-base/runs/pipe.json");
    let text = fs::read_to_string(&path).unwrap();
    for damaged in ["", "{", &text[..text.len() / 2], "{\"\x1b[31m\": 1}", "{\"\\u001b[31m\": 1}"] {
        fs::write(&path, damaged).unwrap();
        let Err(error) = scene().run(dir.path()).ended else { panic!("{damaged}") };
        let message = error.to_string();
        assert!(message.contains("003-base/runs/pipe.json"), "{message}");
        assert!(message.contains("measure again in a new directory"), "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

#[test]
fn a_sample_that_was_changed_is_no_number() {
    let dir = scratch();
    scene().run(dir.path()).complete();
    let path = dir.path().join("boots/003-base/runs/pipe.json");
    let mut run: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let count = &mut run["outcome"]["measured"]["counts"]["process"]["instructions"];
    *count = (count.as_u64().unwrap() + 1).into();
    fs::write(&path, run.to_string()).unwrap();
    let error = ktax::analyse::counts(&open_counts(dir.path()).unwrap()).unwrap_err().to_string();
    assert!(error.starts_with("the counts of pipe in boot 003-base add up to "), "{error}");
}

#[test]
fn a_plan_whose_rows_are_paths_is_refused() {
    let (_dir, root) = scratch_path("out");
    let plan = scene().plan;
    RunDir::create(&root, plan.clone()).unwrap();
    let open = |row: &str| {
        let mut plan = plan.clone();
        plan.method.workloads[1].row = row.to_owned();
        fs::write(
            root.join("plan.json"),
            serde_json::to_vec(&plan.map_method(PlanMethod::from)).unwrap(),
        )
        .unwrap();
        open_counts(&root)
    };
    assert!(open("fork-pages:pages=16,ops=3").is_ok());
    let long = "a".repeat(101);
    for row in
        ["../../x", "..", ".", "", "/etc/passwd", "a/b", "a\0b", "A", "ü", "a b", "a\n", &long]
    {
        let message = open(row).unwrap_err().to_string();
        assert!(message.contains("is damaged or not written by ktax"), "{row:?}: {message}");
        assert!(message.contains("row") && message.contains("measure again"), "{message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

#[test]
fn a_plan_that_points_outside_itself_is_refused() {
    let (_dir, root) = scratch_path("out");
    RunDir::create(&root, scene().plan).unwrap();
    let text = fs::read_to_string(root.join("plan.json")).unwrap();
    for (from, to) in [
        ("\"layout\": 1", "\"layout\": 2"),
        ("\"side\": \"base\"", "\"side\": \"../base\""),
        (format!("\"format\": {FORMAT}").as_str(), "\"format\": 1"),
        ("\"row\": \"pipe\"", "\"row\": \"getppid\""),
        ("\"index\": 2", "\"index\": 1"),
        (&"ab".repeat(32), "../../x"),
        (format!("\"ops\": {OPS}").as_str(), "\"ops\": 0"),
        ("\"seed\": 1,", "\"seed\": 1, \"\\u001b]0;evil\\u0007\": 1,"),
    ] {
        assert!(text.contains(from), "{from}");
        fs::write(root.join("plan.json"), text.replacen(from, to, 1)).unwrap();
        let error = open_counts(&root).unwrap_err();
        let problem = match to {
            "\"format\": 1" => "has format 1, and this ktax reads format",
            _ => "is damaged or not written by ktax",
        };
        assert!(error.message().contains(problem), "{to}: {error}");
        assert!(!error.to_string().contains(char::is_control), "{:?}", error.to_string());
    }
}

/// A full disk is no guest's fault, and no commit's: `git bisect run` must not skip one for it.
#[test]
fn host_failures_have_the_exit_status_of_the_host() {
    let status = |failure: Failure| {
        let dir = scratch();
        let scene = Scene::new(&["getppid", "pipe"]).layouts(3);
        scene.fails("pipe", Side::Change, 1, failure).run(dir.path()).complete();
        Exit::from_comparisons(&[failures::compared(dir.path())]) as u8
    };
    for (failure, _) in failures::every_failure() {
        let is_host_failure = matches!(failure, Failure::Host { .. } | Failure::Setting { .. });
        let wanted = if is_host_failure { 1 } else { 69 };
        assert_eq!(status(failure.clone()), wanted, "{failure}");
    }
    let full = Failure::Host { operation: "cannot write".into(), reason: "no space".into() };
    assert!(full.next_step().contains("free 2 GiB") && !full.next_step().contains("DIR"));
}
