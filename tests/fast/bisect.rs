//! Reasons to end a search before anything is measured, as a user of the library sees them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ktax::flow::bisect::{resume, start};
use ktax::flow::{Cancel, Error, Limits, Session, SilentObserver};
use ktax::model::{Bisection, Chain, Element, METRICS, Point, Subject};
use ktax::plan::{CountsExperiment, Experiment};
use ktax::report::{JSON, TextOptions, render};
use ktax::rundir::AnyRunDir;

use crate::common::{scratch, scratch_path};
use crate::fake::scene;

/// Session with a QEMU that prints its version and runs nothing.
fn session(dir: &Path) -> Session<'static> {
    let qemu = dir.join("qemu");
    fs::write(&qemu, "#!/bin/sh\necho 'QEMU emulator version 99.1'\n").unwrap();
    fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
    Session {
        qemu: Some(qemu),
        jobs: 1,
        cache: dir.join("cache"),
        holders: Default::default(),
        store: None,
        limits: Limits::default(),
        cancel: Cancel::default(),
        observer: &SilentObserver,
    }
}

/// Error of a search whose kernels differ in one parameter.
fn begun(out: &Path, rows: &[&str], layouts: u32) -> Error {
    let [base, change] = ["", "a=1"].map(|line| Subject::new("/none", line));
    let workloads = Some(rows.iter().map(|row| (*row).to_owned()).collect());
    let method = CountsExperiment { layouts, workloads, ..CountsExperiment::between(base, change) };
    let experiment = Experiment { title: "x".into(), seed: 1, threshold_percent: 0.1, method };
    start(experiment, out, &session(out)).unwrap_err()
}

/// Resumes a search of two elements that has measured the ends, of a base with this kernel.
fn resumed(dir: &Path, chain: Chain, names: [String; 2], kernel: &Path) -> Error {
    let mut bounds = scene::plan(&["getppid"]);
    bounds.method.asked.subjects.base = Subject::new(&kernel.display().to_string(), "");
    AnyRunDir::create(&dir.join("bounds"), bounds.map_method(Into::into)).unwrap();
    let title = "sha256 0123456789ab".to_owned();
    let element = |name| Element { name, title: title.clone(), is_merge: false };
    let bisection = Bisection {
        title: "x".into(),
        chain,
        elements: names.map(element).into(),
        likely_elements: vec![],
        row: "getppid".into(),
        metric: METRICS[0].name.into(),
        negligible: 0.1,
        points: [(0, Point::Cost(1.0)), (2, Point::Cost(2.0))].into(),
        again: Vec::new(),
        carriers: None,
    };
    let text = render(&bisection, JSON, TextOptions::default()).unwrap();
    fs::write(dir.join("bisection.json"), text).unwrap();
    resume(dir, &session(dir)).unwrap_err()
}

/// As much of a bzImage as ktax reads.
fn bzimage() -> Vec<u8> {
    let mut data = vec![0; 2048];
    data[0x1f1] = 1;
    data[0x1f4] = 64;
    data[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    data[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
    data[0x20f] = 1;
    data[0x236] = 0x3f;
    data[0x300..0x305].copy_from_slice(b"6.1.0");
    data
}

#[track_caller]
fn assert_begins(error: &Error, message: &str) {
    assert!(error.to_string().starts_with(message), "{error}");
}

#[test]
fn a_search_needs_one_row_and_enough_layouts() {
    let dir = scratch();
    let rows = begun(dir.path(), &["getppid", "pipe"], 5);
    assert_begins(&rows, "bisect needs exactly one row, but 2 are selected; ");
    let layouts = begun(dir.path(), &["getppid"], 3);
    assert_begins(&layouts, "a verdict needs at least 5 layouts, not 3; ");
}

#[test]
fn a_directory_has_one_search() {
    let dir = scratch();
    let path = dir.path().display().to_string();
    let error = resume(dir.path(), &session(dir.path())).unwrap_err();
    assert_begins(&error, &format!("{path} is not a directory of a search: No such file"));
    fs::write(dir.path().join("bisection.json"), "{}").unwrap();
    let error = begun(dir.path(), &["getppid"], 5);
    assert_begins(&error, &format!("{path} has a search already; "));
}

#[test]
fn a_search_does_not_go_on_with_a_patch_that_was_edited() {
    let dir = scratch();
    let patches = ["a", "b"].map(|name| dir.path().join(name).display().to_string());
    fs::write(&patches[0], "not what it was").unwrap();
    let error = resumed(dir.path(), Chain::Patches, patches.clone(), &dir.path().join("none"));
    assert_begins(&error, &format!("{} was edited after the search began; ", patches[0]));
}

#[test]
fn a_search_does_not_go_on_with_another_base() {
    let (dir, kernel) = scratch_path("bzImage");
    fs::write(&kernel, bzimage()).unwrap();
    let names = ["a=1", "b=1"].map(str::to_owned);
    let error = resumed(dir.path(), Chain::Parameters, names, &kernel).to_string();
    assert!(error.contains(", was abababababab; or QEMU or ktax is another)"), "{error}");
    assert!(!error.contains("(its kernel is abababababab,"), "{error}");
}
