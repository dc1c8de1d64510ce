use std::path::Path;

use ktax::analyse::{in_blocks, turns};
use ktax::model::{
    Comparison, Facts, Failure, Noise, Plan, Row, Side, TimedBlock, TimesPlan, Verdict,
};
use ktax::report::{MARKDOWN, TextOptions, render};
use ktax::run::Ended;

use super::timed::{Scene, block, noise_of, of_times, plan, scene};
use crate::common::{open_times, scratch};

/// 5 % more in `pipe`.
fn planted(row: &str, is_change: bool, boot: usize) -> f64 {
    let factor = if row == "pipe" && is_change { 1.05 } else { 1.0 };
    1000.0 * factor * noise_of(boot)
}

fn booted() -> Plan<TimesPlan> {
    let mut plan = plan();
    plan.method.subjects.base.kernel = Some("6.1".into());
    plan.method.subjects.change.kernel = Some("6.12".into());
    plan
}

/// Measures the Sides in these turns, each in a boot of its own, and compares.
fn measured(root: &Path, scene: &Scene, sides: impl Iterator<Item = Side>) -> Comparison {
    for (number, side) in sides.enumerate() {
        let ended = block(root, &booted(), scene, side, format!("boot-{number}")).unwrap();
        assert_eq!(ended, Ended::Complete);
    }
    compared(root)
}

fn compared(root: &Path) -> Comparison {
    let dir = open_times(root).unwrap();
    in_blocks(dir.plan(), &dir.blocks().unwrap())
}

#[test]
fn one_boot_of_each_side_is_no_verdict_and_many_by_lot_are() {
    let dir = scratch();
    let one = [Side::Base, Side::Change].into_iter();
    let first = measured(&dir.path().join("one"), &scene(planted), one);
    assert_eq!((of_times(&first).pairs, first.rows[1].verdict), (1, Verdict::TooFewBoots));
    let text = render(&first, MARKDOWN, TextOptions::default()).unwrap();
    assert!(text.contains("Blocks give less certainty"), "{text}");
    let all = measured(&dir.path().join("all"), &scene(planted), turns(&booted()).take(80));
    let [getppid, pipe, _] = &all.rows[..] else { panic!("{all:?}") };
    assert_eq!(getppid.verdict, Verdict::NoDetectedChange, "{getppid:?}");
    assert_eq!(pipe.verdict, Verdict::Slower, "{pipe:?}");
    // A boot counts once, however much was measured in it, and none after there was enough.
    let of_all = of_times(&all);
    assert_eq!(pipe.times().unwrap().pairs, of_all.pairs);
    assert!((10..=20).contains(&of_all.pairs) && of_all.controls >= 8, "{all:?}");
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
    assert_eq!(of_times(&blocks).pairs, 0, "no neighbours, no pair");
    let turns = turns(&booted()).take(80).collect::<Vec<_>>();
    let swapped = turns.chunks(2).flat_map(|pair| [pair[1], pair[0]]);
    let other = measured(&dir.path().join("other"), &scene(planted), swapped);
    assert_eq!(other.rows[1].verdict, Verdict::Inconclusive, "{other:?}");
    assert!(other.rows[1].reason.as_ref().unwrap().contains("order"), "{other:?}");
    assert!(of_times(&other).unfit.as_ref().unwrap().contains("order"));
}

#[test]
fn one_process_in_twenty_takes_no_block_away_and_nothing_of_it_is_hidden() {
    let dir = scratch();
    let root = dir.path().join("run");
    measured(&root, &scene(planted), turns(&booted()).take(80));
    let dir = open_times(&root).unwrap();
    let mut blocks = dir.blocks().unwrap();
    for block in &mut blocks {
        block.boots = (0..4).flat_map(|_| block.boots.clone()).collect();
    }
    let of_pipe = |blocks: &[TimedBlock]| in_blocks(dir.plan(), blocks).rows[1].clone();
    let pairs = |row: &Row| row.times().unwrap().pairs;
    let whole = of_pipe(&blocks);
    assert_eq!(whole.verdict, Verdict::Slower);
    let change = blocks.iter().position(|block| block.side == Side::Change).unwrap();
    let pipe = |block: &mut TimedBlock, boot: usize, failed: bool| {
        let run = block.boots[boot].runs.get_mut("pipe").unwrap();
        run.failure = failed.then_some(Failure::RealTime { limit_s: 1 });
    };
    pipe(&mut blocks[change], 7, true);
    let one = of_pipe(&blocks);
    assert_eq!((one.verdict, pairs(&one)), (Verdict::Slower, pairs(&whole)));
    pipe(&mut blocks[change], 8, true);
    let two = of_pipe(&blocks);
    assert!(pairs(&two) < pairs(&whole) || two.failures.len() == 1);
    pipe(&mut blocks[change], 7, false);
    pipe(&mut blocks[change], 8, false);
    // Other work in one of its processes, and a setting that changed in the middle.
    let boot = &mut blocks[change].boots[3];
    boot.facts.insert("THP".into(), "sometimes".into());
    boot.runs.get_mut("pipe").unwrap().signature.insert("beside".into(), 2);
    let comparison = in_blocks(dir.plan(), &blocks);
    assert_eq!(comparison.rows[1].verdict, Verdict::DifferentWork);
    let changed = format!("THP changed while block {change} was measured");
    assert!(comparison.warnings.iter().any(|warning| warning.fact == changed), "{comparison:?}");
}

#[test]
fn the_noise_of_both_sides_counts() {
    let dir = scratch();
    let (root, sides) = (dir.path().join("run"), turns(&booted()).take(40));
    for (number, side) in sides.enumerate() {
        let mut scene = scene(planted);
        scene.facts = |_| Facts::new();
        if side == Side::Change {
            scene.noise = Noise { steal_percent: 60.0, ..scene.noise };
        }
        block(&root, &booted(), &scene, side, format!("boot-{number}")).unwrap();
    }
    assert!(of_times(&compared(&root)).unfit.as_ref().unwrap().contains("hypervisor"));
}
