//! An engine whose times are what the scene says.

use std::cell::RefCell;
use std::path::Path;
use std::{fs, io};

use ktax::analyse::{
    compare_blocks, estimates, never_ran, planned_sides, progress, times, wants_more,
};
use ktax::engine::{self, BootOutput, Cancel, Stop, Timed};
use ktax::model::{
    Comparison, Facts, Failure, Noise, Plan, Row, Side, TimedBlock, TimedBoot, TimedPair,
    TimedSubject, TimesComparison, TimesPlan, Verdict, Workload,
};
use ktax::plan::{Experiment, ParamValue, TimesExperiment};
use ktax::report::{MARKDOWN, TextOptions, render};
use ktax::run::{Ended, TimesDriver};
use ktax::rundir::RunDir;

use crate::common::{ktax, open_times, run};
use crate::fake::{scratch, scratch_path};

/// Behaviour of the fake; `seen` counts its Boots.
pub struct Scene {
    /// Nanoseconds of an operation: of a row, in the change or not, in which Boot.
    pub ns: fn(&str, bool, usize) -> f64,
    /// Failure of a row.
    pub failure: fn(&str, bool) -> Option<Failure>,
    /// Consoles of its guests, if something ends them early.
    pub console: Vec<u8>,
    /// Failure of every Boot.
    pub stop: Option<Stop>,
    /// The host loses the Boot of this number.
    pub lost_at: Option<usize>,
    /// Facts beside its work.
    pub beside: fn(&str, bool) -> u64,
    pub facts: fn(bool) -> Facts,
    pub noise: Noise,
    /// After so many Boots the user stops.
    pub cancel_after: usize,
    pub cancel: Cancel,
    pub seen: RefCell<usize>,
    /// Which Boots were the change's.
    pub order: RefCell<Vec<bool>>,
}

pub fn scene(ns: fn(&str, bool, usize) -> f64) -> Scene {
    Scene {
        ns,
        failure: |_, _| None,
        console: Vec::new(),
        stop: None,
        lost_at: None,
        beside: |_, _| 1,
        facts: |_| Facts::new(),
        noise: Noise { seconds: 1.0, cpus: 2, ..Noise::default() },
        cancel_after: usize::MAX,
        cancel: Cancel::default(),
        seen: RefCell::new(0),
        order: RefCell::default(),
    }
}

/// Spread of 0.5 %, the same for each Boot's number.
pub fn noise_of(boot: usize) -> f64 {
    1.0 + 0.005 * ((boot * 7919 % 101) as f64 / 50.0 - 1.0)
}

impl Timed for Scene {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<BootOutput, Stop> {
        let is_change = subject.thp.is_some() || !subject.prefix.is_empty();
        self.order.borrow_mut().push(is_change);
        let number = self.seen.replace_with(|seen| *seen + 1);
        if number == self.cancel_after {
            self.cancel.cancel();
            return Err(Stop::Cancelled);
        }
        if self.lost_at == Some(number) {
            return Err(Failure::QemuLost { reason: "signal 9".into() }.into());
        }
        if let Some(stop) = &self.stop {
            return Err(stop.clone());
        }
        let wire = |workload: &&Workload| {
            let row = workload.row.as_str();
            if let Some(failure) = (self.failure)(row, is_change) {
                return Err(failure);
            }
            let ns = (self.ns)(row, is_change, number) * workload.ops as f64;
            let mut text = format!("ktax 1\nstart {}\n", workload.program);
            for (name, value) in &workload.signature {
                text += &format!("sig {name} {value}\n");
            }
            text += &format!("sig beside {}\n", (self.beside)(row, is_change));
            text += &format!("value nanoseconds {}\nend\n", ns as u64);
            Ok(text.into_bytes())
        };
        let (facts, wires) = ((self.facts)(is_change), loops.iter().map(wire).collect());
        Ok(BootOutput { facts, wires, console: self.console.clone() })
    }

    fn end(&self) -> Result<(), Stop> {
        Ok(())
    }
}

/// Two rows that decide and a secondary one; the change is known by its `thp`, or by a prefix.
pub fn plan() -> Plan<TimesPlan> {
    let mut experiment = TimesExperiment::new(&engine::host::ENGINE);
    experiment.workloads = vec!["getppid".into(), "pipe".into()];
    experiment.secondary = vec!["stat".into()];
    experiment.asked.subjects.change.thp = Some("never".into());
    experiment.asked.loops = 3;
    planned("planted", experiment)
}

/// The Plan of an experiment, with the seed and threshold that files have by default.
pub fn planned(title: &str, method: TimesExperiment) -> Plan<TimesPlan> {
    let title = title.to_owned();
    Experiment { title, seed: 1, threshold_percent: 1.0, method }.plan().unwrap()
}

/// Evidence of a Comparison of times about all rows together.
pub fn times_evidence(comparison: &Comparison) -> &TimesComparison {
    comparison.times().unwrap()
}

/// Runs a scene into a directory.
pub fn drive(
    root: &Path,
    plan: &Plan<TimesPlan>,
    scene: &Scene,
) -> Result<Ended, ktax::model::Error> {
    with_driver(root, plan, scene, |driver| driver.run())
}

/// Adds a block of five Boots to a directory.
pub fn block(
    root: &Path,
    plan: &Plan<TimesPlan>,
    scene: &Scene,
    side: Side,
    boot_id: String,
) -> Result<Ended, ktax::model::Error> {
    with_driver(root, plan, scene, |driver| driver.run_block(side, boot_id, 5))
}

fn with_driver(
    root: &Path,
    plan: &Plan<TimesPlan>,
    scene: &Scene,
    work: impl FnOnce(&TimesDriver) -> Result<Ended, ktax::model::Error>,
) -> Result<Ended, ktax::model::Error> {
    let dir = match root.join("plan.json").exists() {
        true => open_times(root)?,
        false => RunDir::create(root, plan.clone())?,
    };
    let asked = |pairs: &[TimedPair]| wants_more(dir.plan(), pairs);
    asking(&dir, scene, &asked, work)
}

/// Runs a scene; whoever is asked whether it wants more may look at whatever it likes.
pub fn drive_asking(
    dir: &RunDir<TimesPlan>,
    scene: &Scene,
    wants_more: &dyn Fn(&[TimedPair]) -> bool,
) -> Result<Ended, ktax::model::Error> {
    asking(dir, scene, wants_more, |driver| driver.run())
}

fn asking(
    dir: &RunDir<TimesPlan>,
    scene: &Scene,
    wants_more: &dyn Fn(&[TimedPair]) -> bool,
    work: impl FnOnce(&TimesDriver) -> Result<Ended, ktax::model::Error>,
) -> Result<Ended, ktax::model::Error> {
    let _lock = dir.lock()?;
    dir.prepare_pairs()?;
    let watch = |work: &mut dyn FnMut()| -> io::Result<Noise> {
        work();
        Ok(scene.noise.clone())
    };
    let (watch, cancel) = (&watch, &scene.cancel);
    work(&TimesDriver { dir, engine: scene, cancel, wants_more, never_ran: &never_ran, watch })
}

/// Runs a scene to its end, and what is said of it.
pub fn compared(root: &Path, plan: &Plan<TimesPlan>, scene: &Scene) -> Comparison {
    assert_eq!(drive(root, plan, scene).unwrap(), Ended::Complete);
    let dir = open_times(root).unwrap();
    times(dir.plan(), &dir.pairs().unwrap())
}

/// 5 % more in `pipe`, 3 % less in `stat`.
pub fn planted(row: &str, is_change: bool, boot: usize) -> f64 {
    let factor = match (row, is_change) {
        ("pipe", true) => 1.05,
        ("stat", true) => 0.97,
        _ => 1.0,
    };
    1000.0 * factor * noise_of(boot)
}

pub fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    rows.iter().map(|row| row.verdict).collect()
}

//

/// 5 % more in `pipe`.
fn planted_blocks(row: &str, is_change: bool, boot: usize) -> f64 {
    let factor = if row == "pipe" && is_change { 1.05 } else { 1.0 };
    1000.0 * factor * noise_of(boot)
}

fn booted() -> Plan<TimesPlan> {
    let mut plan = plan();
    plan.method.asked.subjects.base.kernel = Some("6.1".into());
    plan.method.asked.subjects.change.kernel = Some("6.12".into());
    plan
}

/// Measures the Sides in these turns, each in a boot of its own, and compares.
fn measured(root: &Path, scene: &Scene, sides: impl Iterator<Item = Side>) -> Comparison {
    for (number, side) in sides.enumerate() {
        let ended = block(root, &booted(), scene, side, format!("boot-{number}")).unwrap();
        assert_eq!(ended, Ended::Complete);
    }
    compared_in_blocks(root)
}

fn compared_in_blocks(root: &Path) -> Comparison {
    let dir = open_times(root).unwrap();
    compare_blocks(dir.plan(), &dir.blocks().unwrap())
}

#[test]
fn one_boot_of_each_side_is_no_verdict_and_many_by_lot_are() {
    let dir = scratch();
    let sides = [Side::Base, Side::Change].into_iter();
    let first = measured(&dir.path().join("one"), &scene(planted_blocks), sides);
    assert_eq!((times_evidence(&first).pairs, first.rows[1].verdict), (1, Verdict::TooFewBoots));
    let text = render(&first, MARKDOWN, TextOptions::default()).unwrap();
    assert!(text.contains("Blocks give less certainty"), "{text}");
    let every_row = measured(
        &dir.path().join("all"),
        &scene(planted_blocks),
        planned_sides(&booted()).take(80),
    );
    let [getppid, pipe, _] = &every_row.rows[..] else { panic!("{every_row:?}") };
    assert_eq!(getppid.verdict, Verdict::NoDetectedChange, "{getppid:?}");
    assert_eq!(pipe.verdict, Verdict::Slower, "{pipe:?}");
    // A boot counts once, however much was measured in it, and none after there was enough.
    let of_all = times_evidence(&every_row);
    assert_eq!(pipe.times().unwrap().pairs, of_all.pairs);
    assert!((10..=20).contains(&of_all.pairs) && of_all.controls >= 8, "{every_row:?}");
}

#[test]
fn turns_that_the_lot_did_not_draw_have_no_verdict() {
    let dir = scratch();
    let sides = [Side::Base; 18].into_iter().chain([Side::Change; 18]);
    // A step between the two halves, and nothing else.
    let step = |_: &str, is_change: bool, boot: usize| {
        1000.0 * noise_of(boot) * if is_change { 1.05 } else { 1.0 }
    };
    let blocks = measured(&dir.path().join("halves"), &scene(step), sides);
    assert_eq!(times_evidence(&blocks).pairs, 0, "no neighbours, no pair");
    let turns = planned_sides(&booted()).take(80).collect::<Vec<_>>();
    let swapped = turns.chunks(2).flat_map(|pair| [pair[1], pair[0]]);
    let other = measured(&dir.path().join("other"), &scene(planted_blocks), swapped);
    assert_eq!(other.rows[1].verdict, Verdict::Inconclusive, "{other:?}");
    assert!(other.rows[1].reason.as_ref().unwrap().contains("order"), "{other:?}");
    assert!(times_evidence(&other).unfit.as_ref().unwrap().contains("order"));
}

#[test]
fn one_failed_process_in_twenty_keeps_its_block() {
    let (_dir, root) = scratch_path("run");
    measured(&root, &scene(planted_blocks), planned_sides(&booted()).take(80));
    let dir = open_times(&root).unwrap();
    let mut blocks = dir.blocks().unwrap();
    for block in &mut blocks {
        block.boots = (0..4).flat_map(|_| block.boots.clone()).collect();
    }
    let of_pipe = |blocks: &[TimedBlock]| compare_blocks(dir.plan(), blocks).rows[1].clone();
    let pairs = |row: &Row| row.times().unwrap().pairs;
    let longest = of_pipe(&blocks);
    assert_eq!(longest.verdict, Verdict::Slower);
    let change = blocks.iter().position(|block| block.side == Side::Change).unwrap();
    let pipe = |block: &mut TimedBlock, boot: usize, failed: bool| {
        let run = block.boots[boot].runs.get_mut("pipe").unwrap();
        run.failure = failed.then_some(Failure::RealTime { limit_s: 1 });
    };
    pipe(&mut blocks[change], 7, true);
    let shorter = of_pipe(&blocks);
    assert_eq!((shorter.verdict, pairs(&shorter)), (Verdict::Slower, pairs(&longest)));
    pipe(&mut blocks[change], 8, true);
    let two = of_pipe(&blocks);
    assert!(pairs(&two) < pairs(&longest) || two.failures.len() == 1);
    pipe(&mut blocks[change], 7, false);
    pipe(&mut blocks[change], 8, false);
    // Other work in one of its processes, and a setting that changed in the middle.
    let boot = &mut blocks[change].boots[3];
    boot.facts.insert("THP".into(), "sometimes".into());
    boot.runs.get_mut("pipe").unwrap().signature.insert("beside".into(), 2);
    let comparison = compare_blocks(dir.plan(), &blocks);
    assert_eq!(comparison.rows[1].verdict, Verdict::DifferentWork);
    let changed = format!("THP changed while block {change} was measured");
    assert!(comparison.warnings.iter().any(|warning| warning.fact == changed), "{comparison:?}");
}

#[test]
fn the_noise_of_both_sides_counts() {
    let dir = scratch();
    let (root, sides) = (dir.path().join("run"), planned_sides(&booted()).take(40));
    for (number, side) in sides.enumerate() {
        let mut scene = scene(planted_blocks);
        scene.facts = |_| Facts::new();
        if side == Side::Change {
            scene.noise = Noise { steal_percent: 60.0, ..scene.noise };
        }
        block(&root, &booted(), &scene, side, format!("boot-{number}")).unwrap();
    }
    assert!(
        times_evidence(&compared_in_blocks(&root)).unfit.as_ref().unwrap().contains("hypervisor")
    );
}

// Sweeps of a parameter: where the curves of both Sides cross.

/// A row of each number of groups, in this order.
fn plan_of_groups(groups: &[u64]) -> Plan<TimesPlan> {
    let mut experiment = TimesExperiment::new(&engine::host::ENGINE);
    experiment.workloads = vec!["messaging".into()];
    experiment.asked.subjects.change.thp = Some("never".into());
    let groups = groups.iter().copied().map(ParamValue::Number).collect();
    experiment.sweep = [("groups".into(), groups)].into();
    planned("curve", experiment)
}

#[test]
fn a_point_at_exactly_one_is_on_no_side_of_a_crossing() {
    let dir = scratch();
    let ns = |row: &str, is_change: bool, _: usize| match (row.rsplit('=').next(), is_change) {
        (Some("1"), true) => 900.0,
        (Some("4"), true) => 1100.0,
        (Some("16"), true) => 950.0,
        _ => 1000.0,
    };
    let crossings = |name: &str, groups: &[u64]| {
        let comparison = compared(&dir.path().join(name), &plan_of_groups(groups), &scene(ns));
        times_evidence(&comparison).crossings.clone()
    };
    let through = crossings("through", &[1, 2, 4]);
    assert_eq!(through.iter().map(|crossing| crossing.neighbours).collect::<Vec<_>>(), [(1, 4)]);
    // An interval that touches 1 does not cross it.
    assert_eq!(crossings("touching", &[2, 3, 4]), []);
    // A curve is in the order of its parameter, whoever typed it how.
    assert_eq!(crossings("typed", &[4, 1, 2]), through);
    let back = crossings("back", &[4, 8, 16]);
    assert_eq!(back.iter().map(|crossing| crossing.neighbours).collect::<Vec<_>>(), [(4, 16)]);
}

#[test]
fn rows_without_a_verdict_have_no_crossings() {
    let dir = scratch();
    let plan = plan_of_groups(&[1, 4]);
    let ns = |row: &str, is_change: bool, _: usize| match (row.ends_with("=1"), is_change) {
        (true, true) => 900.0,
        (false, true) => 1100.0,
        _ => 1000.0,
    };
    let mut scene = scene(ns);
    let calm = compared(&dir.path().join("calm"), &plan, &scene);
    assert_eq!(times_evidence(&calm).crossings.len(), 1);
    scene.noise.steal_percent = 50.0;
    let comparison = compared(&dir.path().join("stolen"), &plan, &scene);
    assert_eq!(verdicts(&comparison.rows), [Verdict::Inconclusive; 2]);
    assert_eq!(times_evidence(&comparison).crossings, []);
}

// Which Boot comes when, and when it is enough.

#[test]
fn equal_seeds_repeat_and_a_stopped_run_goes_on_to_the_same_end() {
    let dir = scratch();
    let [uninterrupted, stopped] = ["whole", "stopped"].map(|name| dir.path().join(name));
    // Times that do not depend on when they were measured: the place in the order is what is left.
    let calm = |row: &str, is_change: bool, _| planted(row, is_change, 1);
    let first = compared(&uninterrupted, &plan(), &scene(calm));
    let mut interrupted = scene(calm);
    interrupted.cancel_after = 13;
    assert_eq!(drive(&stopped, &plan(), &interrupted).unwrap(), Ended::Cancelled);
    // The pair in whose middle it was stopped is not there.
    assert_eq!(fs::read_dir(stopped.join("pairs")).unwrap().count(), 6);
    assert_eq!(compared(&stopped, &plan(), &scene(calm)), first);
    for entry in fs::read_dir(uninterrupted.join("pairs")).unwrap() {
        let name = entry.unwrap().file_name();
        let [first, other] =
            [&uninterrupted, &stopped].map(|run| fs::read(run.join("pairs").join(&name)).unwrap());
        assert_eq!(first, other, "{name:?}");
    }
}

#[test]
fn the_random_order_decides_which_side_runs_first() {
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
    let (_dir, root) = scratch_path("run");
    compared(&root, &plan(), &scene(planted));
    let text = fs::read_to_string(root.join("plan.json")).unwrap();
    fs::write(root.join("plan.json"), text.replace("\"seed\": 1", "\"seed\": 2")).unwrap();
    // An older ktax wrote no link from the pairs to their plan.
    fs::remove_file(root.join("plan.sha256")).unwrap();
    let error = drive(&root, &plan(), &scene(planted)).unwrap_err();
    assert!(error.message().ends_with(" was not run in the planned order"), "{error}");
}

#[test]
fn peeking_does_not_change_when_a_run_stops() {
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
    // This run stops by itself before its cap.
    assert!(times_evidence(&blind).pairs < 200, "{blind:?}");
}

#[test]
fn the_command_that_peeks_goes_on_where_the_rule_does() {
    let (_dir, root) = scratch_path("run");
    let mut experiment = TimesExperiment::new(&engine::host::ENGINE);
    experiment.workloads = vec!["control-planted:ops=50".into()];
    experiment.asked.subjects.change.prefix = ["env", "KTAX_NONE=1"].map(str::to_owned).to_vec();
    let mut plan = planned("peek", experiment);
    (plan.method.asked.loops, plan.method.asked.max_pairs) = (1, 30);
    // Only the last look sees enough through this noise.
    compared(&root, &plan, &scene(|_, _, boot| 1000.0 + 30.0 * (boot * 7919 % 101) as f64));
    let there = || fs::read_dir(root.join("pairs")).unwrap().count();
    let count = there();
    assert!(count > 18, "{count}");
    let last = open_times(&root).unwrap().pairs().unwrap().len() - 1;
    fs::remove_file(root.join(format!("pairs/{last:04}.json"))).unwrap();
    assert_eq!(there(), count - 1);
    // The rule wanted a pair after these.
    let ran = run(ktax().args(["run", "--peek"]).arg(&root));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    assert!(there() >= count, "{} of {count}: {}", there(), ran.stderr);
}
