//! Which Boot comes when, and when it is enough.

use std::fs;

use ktax::analyse::{estimates, progress, times, wants_more};
use ktax::engine;
use ktax::model::{TimedBoot, TimedPair};
use ktax::plan::TimesExperiment;
use ktax::run::Ended;
use ktax::rundir::RunDir;

use super::timed::{compared, drive, drive_asking, of_times, plan, planned, planted, scene};
use crate::common::{ktax, open_times, run, scratch};

#[test]
fn equal_seeds_repeat_and_a_stopped_run_goes_on_to_the_same_end() {
    let dir = scratch();
    let [whole, stopped] = ["whole", "stopped"].map(|name| dir.path().join(name));
    // Times that do not depend on when they were measured: the place in the order is what is left.
    let calm = |row: &str, is_change: bool, _| planted(row, is_change, 1);
    let first = compared(&whole, &plan(), &scene(calm));
    let mut interrupted = scene(calm);
    interrupted.cancel_after = 13;
    assert_eq!(drive(&stopped, &plan(), &interrupted).unwrap(), Ended::Cancelled);
    // The pair in whose middle it was stopped is not there.
    assert_eq!(fs::read_dir(stopped.join("pairs")).unwrap().count(), 6);
    assert_eq!(compared(&stopped, &plan(), &scene(calm)), first);
    for entry in fs::read_dir(whole.join("pairs")).unwrap() {
        let name = entry.unwrap().file_name();
        let [one, other] =
            [&whole, &stopped].map(|run| fs::read(run.join("pairs").join(&name)).unwrap());
        assert_eq!(one, other, "{name:?}");
    }
}

#[test]
fn the_lot_says_which_side_runs_first() {
    let (dir, scene) = (scratch(), scene(planted));
    let root = dir.path().join("run");
    compared(&root, &plan(), &scene);
    let pairs = open_times(&root).unwrap().pairs().unwrap();
    let order = scene.order.borrow();
    assert_eq!(order.len(), 2 * pairs.len());
    for (pair, ran) in pairs.iter().zip(order.chunks(2)) {
        let wanted = match (pair.is_control, pair.change_first) {
            (true, _) => [false, false],
            (false, change_first) => [change_first, !change_first],
        };
        assert_eq!(ran, wanted, "pair {}", pair.index);
        // Whichever ran first, each time is its own side's.
        let pipe = |boot: &TimedBoot| boot.runs["pipe"].loops_ns[0];
        let ratio = pipe(&pair.boots.change) / pipe(&pair.boots.base);
        assert_eq!(ratio > 1.025, !pair.is_control, "pair {}: {ratio}", pair.index);
    }
    let lots: Vec<bool> =
        pairs.iter().filter(|pair| !pair.is_control).map(|pair| pair.change_first).collect();
    assert!(lots.contains(&true) && lots.contains(&false), "both come first");
}

#[test]
fn pairs_of_another_order_are_refused() {
    let dir = scratch();
    let root = dir.path().join("run");
    compared(&root, &plan(), &scene(planted));
    let text = fs::read_to_string(root.join("plan.json")).unwrap();
    fs::write(root.join("plan.json"), text.replace("\"seed\": 1", "\"seed\": 2")).unwrap();
    // As an earlier ktax left it: what ties the pairs to their plan is not there.
    fs::remove_file(root.join("plan.sha256")).unwrap();
    let error = drive(&root, &plan(), &scene(planted)).unwrap_err();
    assert!(error.message().ends_with(" was not run in the planned order"), "{error}");
}

#[test]
fn looking_does_not_change_when_it_stops() {
    let dir = scratch();
    let names = ["blind", "peek"].map(|name| dir.path().join(name));
    let blind = compared(&names[0], &plan(), &scene(planted));
    let looking = RunDir::create(&names[1], plan()).unwrap();
    let looks = |pairs: &[TimedPair]| {
        let shown = (progress(looking.plan(), pairs), estimates(looking.plan(), pairs));
        assert!(shown.0.pairs <= pairs.len() && shown.1.len() <= 2);
        wants_more(looking.plan(), pairs)
    };
    assert_eq!(drive_asking(&looking, &scene(planted), &looks).unwrap(), Ended::Complete);
    assert_eq!(times(looking.plan(), &looking.pairs().unwrap()), blind);
    // It is a run that stops by itself, before its cap.
    assert!(of_times(&blind).pairs < 200, "{blind:?}");
}

#[test]
fn the_command_that_peeks_goes_on_where_the_rule_does() {
    let dir = scratch();
    let root = dir.path().join("run");
    let mut experiment = TimesExperiment::new(&engine::host::ENGINE);
    experiment.workloads = vec!["control-planted:ops=50".into()];
    experiment.change.prefix = ["env", "KTAX_NONE=1"].map(str::to_owned).to_vec();
    let mut plan = planned("peek", experiment);
    (plan.method.loops, plan.method.most_pairs) = (1, 30);
    // So noisy that no look but the last sees enough.
    compared(&root, &plan, &scene(|_, _, boot| 1000.0 + 30.0 * (boot * 7919 % 101) as f64));
    let there = || fs::read_dir(root.join("pairs")).unwrap().count();
    let whole = there();
    assert!(whole > 18, "{whole}");
    let last = open_times(&root).unwrap().pairs().unwrap().len() - 1;
    fs::remove_file(root.join(format!("pairs/{last:04}.json"))).unwrap();
    assert_eq!(there(), whole - 1);
    // The rule wanted a pair after these.
    let ran = run(ktax().args(["run", "--peek"]).arg(&root));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    assert!(there() >= whole, "{} of {whole}: {}", there(), ran.stderr);
}
