//! Sweeps of a parameter: where the curves of both Sides cross.

use ktax::engine;
use ktax::model::{Plan, TimesPlan, Verdict};
use ktax::plan::{ParamValue, TimesExperiment};

use super::timed::{compared, of_times, planned, scene, verdicts};
use crate::common::scratch;

/// A row of each number of groups, in this order.
fn of_groups(groups: &[u64]) -> Plan<TimesPlan> {
    let mut experiment = TimesExperiment::new(&engine::host::ENGINE);
    experiment.workloads = vec!["messaging".into()];
    experiment.change.thp = Some("never".into());
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
        let comparison = compared(&dir.path().join(name), &of_groups(groups), &scene(ns));
        of_times(&comparison).crossings.clone()
    };
    let through = crossings("through", &[1, 2, 4]);
    assert_eq!(through.iter().map(|crossing| crossing.between).collect::<Vec<_>>(), [(1, 4)]);
    // What only touches 1 does not cross it.
    assert_eq!(crossings("touching", &[2, 3, 4]), []);
    // A curve is in the order of its parameter, whoever typed it how.
    assert_eq!(crossings("typed", &[4, 1, 2]), through);
    let back = crossings("back", &[4, 8, 16]);
    assert_eq!(back.iter().map(|crossing| crossing.between).collect::<Vec<_>>(), [(4, 16)]);
}

#[test]
fn rows_without_an_answer_cross_nothing() {
    let dir = scratch();
    let plan = of_groups(&[1, 4]);
    let ns = |row: &str, is_change: bool, _: usize| match (row.ends_with("=1"), is_change) {
        (true, true) => 900.0,
        (false, true) => 1100.0,
        _ => 1000.0,
    };
    let mut scene = scene(ns);
    let calm = compared(&dir.path().join("calm"), &plan, &scene);
    assert_eq!(of_times(&calm).crossings.len(), 1);
    scene.noise.steal_percent = 50.0;
    let comparison = compared(&dir.path().join("stolen"), &plan, &scene);
    assert_eq!(verdicts(&comparison.rows), [Verdict::Inconclusive; 2]);
    assert_eq!(of_times(&comparison).crossings, []);
}
