//! Files of a run directory that somebody edited or cut short are refused with what is wrong.

use std::fs;
use std::path::Path;

use ktax::model::{Boot, Noise, Side, Sides, Step, TimedBoot, TimedPair};
use ktax::rundir::AnyRunDir;

use crate::common::{ktax, run, scratch};
use crate::rundirs::plans;

/// Writes the first result of a directory.
fn add_result(dir: &AnyRunDir) {
    let step = Step { index: 0, side: Side::Base, layout: 0 };
    match dir {
        AnyRunDir::Counts(dir) => {
            dir.prepare(&step).unwrap();
            dir.write_boot(&step, &Boot::default()).unwrap();
        }
        AnyRunDir::Guests(dir) => {
            dir.prepare(&step).unwrap();
            dir.write_boot(&step, &Boot::default()).unwrap();
        }
        AnyRunDir::Times(dir) => {
            dir.prepare_pairs().unwrap();
            let boots = Sides { base: TimedBoot::default(), change: TimedBoot::default() };
            let (index, is_control, change_first) = (0, true, false);
            let noise = Noise::default();
            let pair = TimedPair { index, is_control, change_first, boots, noise };
            dir.write_pair(&pair).unwrap();
        }
    }
}

fn assert_is_of_another_plan(root: &Path) {
    let error = AnyRunDir::open(root).unwrap_err();
    assert!(error.message().contains(" has results of another plan"), "{error}");
    for command in ["run", "analyse", "report"] {
        let ran = run(ktax().arg(command).arg(root));
        assert_eq!((ran.status, ran.stderr), (2, format!("ktax: {error}\n")), "{command}");
    }
}

#[test]
fn results_do_not_go_on_with_a_plan_that_was_edited() {
    let dir = scratch();
    for (name, plan) in plans() {
        let root = dir.path().join(name);
        AnyRunDir::create(&root, plan).unwrap();
        let path = root.join("plan.json");
        let edit = || {
            let text = fs::read_to_string(&path).unwrap();
            let edited = text.replacen("\"seed\": ", "\"seed\": 1", 1);
            assert_ne!(edited, text);
            fs::write(&path, edited).unwrap();
        };
        // Nothing is measured yet: an edited plan is the plan.
        edit();
        let opened = AnyRunDir::open(&root).unwrap();
        add_result(&opened);
        let good = fs::read(&path).unwrap();
        AnyRunDir::open(&root).unwrap();
        edit();
        assert_is_of_another_plan(&root);
        fs::write(&path, good).unwrap();
        AnyRunDir::open(&root).unwrap();
        // An older ktax wrote no seal; the next step adds it.
        fs::remove_file(root.join("plan.sha256")).unwrap();
        add_result(&AnyRunDir::open(&root).unwrap());
        edit();
        assert_is_of_another_plan(&root);
    }
}

#[test]
fn a_plan_that_was_cut_short_is_damaged_and_of_no_other_version() {
    let dir = scratch();
    for (name, plan) in plans() {
        let root = dir.path().join(name);
        AnyRunDir::create(&root, plan).unwrap();
        let path = root.join("plan.json");
        let content = fs::read(&path).unwrap();
        for left in [0, 1, content.len() / 2, content.len() - 3] {
            fs::write(&path, &content[..left]).unwrap();
            let error = AnyRunDir::open(&root).unwrap_err();
            assert!(error.message().contains(" is damaged or "), "{error}");
            let ran = run(ktax().arg("run").arg(&root)).exits(2);
            let message = format!("ktax: {} is damaged", path.display());
            assert!(ran.stderr.starts_with(&message), "{}", ran.stderr);
            assert!(!ran.stderr.contains("version"), "{}", ran.stderr);
            ran.says("measure again in a new directory");
        }
    }
}

#[test]
fn a_comparison_that_was_cut_short_is_damaged_and_of_no_other_version() {
    let dir = scratch();
    let (name, plan) = plans().into_iter().next().unwrap();
    let root = dir.path().join(name);
    AnyRunDir::create(&root, plan).unwrap();
    let path = root.join("comparison.json");
    for cut in ["", "{", "{\n  \"format\": 3,\n  \"headline\": \"none"] {
        fs::write(&path, cut).unwrap();
        let ran = run(ktax().arg("report").arg(&root)).exits(2);
        let message = format!("ktax: cannot read {}: it is damaged (EOF while", path.display());
        assert!(ran.stderr.starts_with(&message), "{}", ran.stderr);
        assert!(!ran.stderr.contains("version"), "{}", ran.stderr);
        let again = format!("; make it again with `ktax analyse {}`\n", root.display());
        assert!(ran.stderr.ends_with(&again), "{}", ran.stderr);
    }
}
