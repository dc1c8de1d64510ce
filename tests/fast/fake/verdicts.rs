//! From canned counts to what a row says.

use ktax::analyse::{counts, one_image};
use ktax::cmd::Exit;
use ktax::model::{Comparison, PlanMethod, Side, Verdict};

use super::scene::{OPS, Scene};
use super::{guests_scene, timed};
use crate::common::{open_counts, row, scratch};

fn compared(scene: &Scene) -> Comparison {
    let dir = scratch();
    scene.run(dir.path()).complete();
    counts(&open_counts(dir.path()).unwrap()).unwrap()
}

#[test]
fn one_more_instruction_an_operation_is_slower_and_the_function_is_named() {
    let plus_one = [11 * OPS; 5];
    let scene = Scene::new(&["getppid", "pipe"]).layouts(5);
    let comparison = compared(&scene.costs("pipe", Side::Change, "do_work", &plus_one));
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
    let comparison = compared(&scene.costs("pipe", Side::Change, "do_work", &[9 * OPS; 5]));
    assert_eq!(comparison.rows[0].verdict, Verdict::Faster);
}

#[test]
fn a_change_beyond_the_noise_and_below_the_threshold_has_its_own_verdict() {
    let (base, change) = ([1000 * OPS; 5], [1000 * OPS + OPS / 2; 5]);
    let scene = Scene::new(&["pipe"]).layouts(5).costs("pipe", Side::Base, "do_work", &base);
    let comparison = compared(&scene.costs("pipe", Side::Change, "do_work", &change));
    let pipe = &comparison.rows[0];
    assert_eq!((pipe.verdict, pipe.effects()[0].delta), (Verdict::BelowThreshold, 0.5));
    assert_eq!(Exit::from_comparisons(&[comparison]), Exit::Ok);
}

#[test]
fn a_change_within_what_the_layouts_do_is_not_detected() {
    // One more an operation; the layouts move two, on both sides alike.
    let noise = |more: u64| [0, 2 * OPS, OPS, OPS, OPS].map(|noise| 10 * OPS + noise + more);
    let scene = Scene::new(&["pipe"])
        .layouts(5)
        .costs("pipe", Side::Base, "do_work", &noise(0))
        .costs("pipe", Side::Change, "do_work", &noise(OPS));
    let comparison = compared(&scene);
    let pipe = &comparison.rows[0];
    assert_eq!((pipe.verdict, pipe.effects()[0].delta), (Verdict::NoDetectedChange, 1.0));
    assert_eq!((pipe.effects()[0].spread, pipe.effects()[0].functions.len()), (2.0, 0));
}

#[test]
fn four_layouts_are_too_few() {
    let scene = Scene::new(&["pipe"]).layouts(4);
    let comparison = compared(&scene.costs("pipe", Side::Change, "do_work", &[11 * OPS; 4]));
    assert_eq!(comparison.rows[0].verdict, Verdict::TooFewBoots);
}

#[test]
fn other_work_on_each_side_is_different_work() {
    let scene = Scene::new(&["getppid", "pipe"])
        .layouts(5)
        .costs("pipe", Side::Change, "do_work", &[11 * OPS; 5])
        .signs("pipe", Side::Base, "sig faults 400\n")
        .signs("pipe", Side::Change, "sig faults 401\nsig vmas 3\n");
    let comparison = compared(&scene);
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
        one_image(&plan).is_some_and(|warning| warning.fact.contains("same bytes"))
    };
    let mut scene = Scene::new(&["pipe"]).layouts(5);
    assert!(!says(scene.plan.method.clone().into()));
    let kernels = &mut scene.plan.method.kernels;
    kernels.change.sha256.clone_from(&kernels.base.sha256);
    let comparison = compared(&scene);
    assert!(comparison.warnings[0].fact.contains("abababababab"), "{:?}", comparison.warnings);
    let identity = scene.plan.method.kernels.base.clone();
    let subjects = &mut scene.plan.method.asked.subjects;
    // One kernel with two boot lines is what most ask for.
    subjects.change.kernel.clone_from(&subjects.base.kernel);
    assert!(!says(scene.plan.method.into()));

    let mut times = timed::plan().method;
    for (side, name) in [(Side::Base, "one"), (Side::Change, "other")] {
        times.subjects.get_mut(side).kernel = Some(name.into());
        times.kernels.insert(name.into(), identity.clone());
    }
    assert!(says(times.clone().into()));
    times.kernels.get_mut("other").unwrap().sha256 = "cd".repeat(32);
    assert!(!says(times.into()));

    let guests = guests_scene::FILE;
    assert!(!says(guests_scene::plan(guests).method.into()));
    let two = guests.replace("change = { kernel = \"k\"", "change = { kernel = \"other\"");
    assert!(says(guests_scene::plan(&two).method.into()));
}
