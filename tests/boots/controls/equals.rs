//! What is equal is equal, on rows of every kind; on all rows in `make test-long`.

use ktax::model::Verdict;

use super::{args, every_way, rows};
use crate::common::rows::{LONG, rows_of_one_cpu, short_row_of_each, workloads};
use crate::common::{QUICK_BOOT, compare, scratch, tree};

#[test]
fn zero_is_zero_on_every_layout() {
    zero_is_zero(&every_way(), 5);
}

#[test]
#[ignore = "minutes: make test-long"]
fn zero_is_zero_on_every_row() {
    zero_is_zero(&[], 2);
}

/// Of these rows, or of all that are compared by default.
fn zero_is_zero(rows: &[String], layouts: usize) {
    let dir = scratch();
    let (ran, comparison) = compare(
        &dir.path().join("out"),
        ["", ""],
        &args(rows, &["--layouts", &layouts.to_string()]),
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(comparison.rows.len() == rows.len() / 2 || comparison.rows.len() > 25);
    for row in &comparison.rows {
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{}", row.row);
        for effect in row.effects() {
            assert_eq!(effect.samples.base, effect.samples.change, "{} {}", row.row, effect.metric);
            assert_eq!(effect.samples.base.len(), layouts);
            assert_eq!(effect.delta_range, (0.0, 0.0));
        }
    }
}

#[test]
fn a_short_row_of_every_workload_of_every_group_repeats_to_the_last_digit() {
    let names = short_row_of_each(&workloads(), 32);
    assert_eq!(repeat(&names), workloads().len());
}

#[test]
#[ignore = "ten minutes: make test-long"]
fn every_row_of_every_group_repeats_to_the_last_digit() {
    // Rows that need several CPUs run twice in every comparison: tests/long/cpus.rs.
    assert!(repeat(&rows_of_one_cpu(&workloads())) > 150);
}

#[test]
#[ignore = "ten minutes: make test-long"]
fn the_long_rows_repeat_to_the_last_digit() {
    // A million calls take ten minutes, and mmap-stress-short is the first of them.
    let rows = LONG.iter().filter(|row| !matches!(**row, "mmap-stress" | "lame"));
    assert!(repeat(&rows.map(|row| (*row).to_owned()).collect::<Vec<_>>()) > 10);
}

/// Each row twice under one Layout; how many there were.
fn repeat(names: &[String]) -> usize {
    let dir = scratch();
    let rows = rows(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let args = args(&rows, &["--layouts", "1", "--time-limit", "900"]);
    let (ran, comparison) = compare(&dir.path().join("out"), ["", ""], &args);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for row in &comparison.rows {
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{}: {:?}", row.row, row.failures);
        assert!(row.effects().iter().all(|effect| effect.delta == 0.0), "{}", row.row);
    }
    comparison.rows.len()
}

#[test]
fn a_meaningless_change_gets_no_verdict() {
    meaningless(&every_way());
}

#[test]
#[ignore = "ten minutes: make test-long"]
fn a_meaningless_change_gets_no_verdict_on_any_row() {
    meaningless(&[]);
}

/// On these rows, or on all that are compared by default.
fn meaningless(rows: &[String]) {
    let dir = scratch();
    // One more character on the boot line, in a parameter that nothing reads.
    let lines = ["a", "ab"].map(|word| format!("{QUICK_BOOT} ktax.none={word}"));
    let lines = [&*lines[0], &*lines[1]];
    let (ran, comparison) = compare(&dir.path().join("out"), lines, &args(rows, &[]));
    for row in &comparison.rows {
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{}: {:?}", row.row, row.effects()[0]);
    }
    assert_eq!(ran.status, 0);
    assert!(tree(dir.path()).len() > 100);
}
