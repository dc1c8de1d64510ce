//! Every Run once, in order, and the same bytes however many at a time.

use std::fs;

use ktax::analyse;
use ktax::model::{Region, Side};
use ktax::report::Report;
use ktax::rundir::AnyRunDir;

use super::scene::Scene;
use crate::common::{open_counts, scratch, tree};

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
    // What is complete is not made again.
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
            .fails("stat", Side::Base, 1, super::failures::refused())
            .boot(Side::Change, 2, Err(super::failures::panicked()))
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
        trees.push(tree(&root));
    }
    assert!(trees[0].len() > 50, "{}", trees[0].len());
    assert!(trees[0] == trees[1] && trees[0] == trees[2]);
}

#[test]
fn no_jobs_is_one_job() {
    let dir = scratch();
    assert_eq!(Scene::new(&["pipe"]).jobs(0).run(dir.path()).complete().runs(), 2);
}
