//! The model of a machine: what is known of loops, that it repeats, and that counting is as without
//! it.

use std::fs;
use std::path::Path;

use ktax::model::{METRICS, Metric, Row, Side, Verdict};

use crate::common::files::script;
use crate::common::require::newer_qemu;
use crate::common::{MEANINGLESS, compare, scratch, with_status};
use crate::program::{compile, measured};

/// Small, so that loops are short.
const MACHINE: &str = r#"
title = "none that there is"
sources = []
l1i = { kib = 32, ways = 8 }
l1d = { kib = 32, ways = 8 }
l2 = { kib = 128, ways = 8 }
llc = { kib = 2048, ways = 16 }
itlb = { entries = 64, ways = 4, large_entries = 8, large_ways = 4 }
dtlb = { entries = 16, ways = 4, large_entries = 16, large_ways = 4 }
stlb = { entries = 4096, ways = 4 }
branches = { history = 16, table = 16, returns = 16 }
"#;

/// A loop, and what follows for each of its steps.
type Known = (&'static str, &'static str, &'static [(&'static str, f64)]);

/// Circles fit a cache only if all lines of their sets fit. Pages lie anywhere in memory, so each
/// circle is a multiple of what fits.
const KNOWN: [Known; 11] = [
    // 16 KiB.
    (
        "fits",
        r#""chase", "256", "64""#,
        &[("l1d-accesses", 1.0), ("l1d-misses", 0.0), ("dtlb-misses", 0.0), ("branches", 1.0)],
    ),
    // 64 KiB.
    ("l1", r#""chase", "1024", "64""#, &[("l1d-misses", 1.0), ("cache-references", 0.0)]),
    // 512 KiB.
    (
        "l2",
        r#""chase", "8192", "64""#,
        &[("l1d-misses", 1.0), ("cache-references", 1.0), ("cache-misses", 0.0)],
    ),
    // 8 MiB.
    ("llc", r#""chase", "131072", "64""#, &[("cache-references", 1.0), ("cache-misses", 1.0)]),
    // Each place on a page of its own, and not all in the same set of the cache.
    (
        "pages",
        r#""chase", "64", "4160""#,
        &[("l1d-misses", 0.0), ("dtlb-misses", 1.0), ("page-walks", 0.0)],
    ),
    ("walks", r#""chase", "8192", "4160""#, &[("dtlb-misses", 1.0), ("page-walks", 1.0)]),
    ("period-2", r#""branch", "2""#, &[("branches", 2.0), ("branch-misses", 0.0)]),
    ("period-7", r#""branch", "7""#, &[("branches", 2.0), ("branch-misses", 0.0)]),
    ("random", r#""branch", "0""#, &[("branches", 2.0), ("branch-misses", 0.5)]),
    ("retpoline", r#""retpoline""#, &[("branches", 6.0), ("branch-misses", 1.0)]),
    // The C library of a program after another one had it at another address.
    ("library", "", &[("branch-misses", 0.0)]),
];

fn counters() -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(|metric| metric.modelled().is_some())
}

/// Count per step on both Sides; 0 if neither has any.
fn counted(row: &Row, counter: &str) -> f64 {
    let Some(effect) = row.effect(&format!("model-{counter}")) else { return 0.0 };
    assert_eq!(effect.base, effect.change, "{}: {counter} does not repeat", row.row);
    effect.base
}

/// Compiles the loops, and counts these in a guest whose machine is modelled.
fn loops(dir: &Path, names: &[&str], more: &[&str]) -> Vec<Row> {
    compile(dir, "loops", include_str!("machine/loops.c"), &["-static"]);
    fs::write(dir.join("small.toml"), MACHINE).unwrap();
    for (name, libraries) in [("near", &[][..]), ("far", &["-Wl,--no-as-needed", "-lm"])] {
        compile(dir, name, include_str!("machine/loops.c"), libraries);
    }
    script(dir, "library", "#!/bin/sh\n./near library uncounted\n./far library\n");
    let program_text = |(name, words, _): &Known| {
        let command = match *words {
            "" => format!("command = [\"./{name}\"]\nfiles = [\"near\", \"far\"]"),
            words => format!("command = [\"./loops\", {words}]"),
        };
        format!("[[program]]\nname = {name:?}\nops = 400000\n{command}\n")
    };
    let wanted = KNOWN.iter().filter(|(name, ..)| names.contains(name));
    let programs: String = wanted.map(program_text).collect();
    let comparison =
        with_status(0, measured(dir, &programs, &[&["--model", "small.toml"], more].concat()));
    comparison.rows
}

fn is_close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 0.01 * wanted.max(0.1)
}

#[test]
#[ignore = "eleven modelled programs: make test-long"]
fn loops_miss_what_is_known_and_both_sides_the_same() {
    let dir = scratch();
    let names: Vec<&str> = KNOWN.iter().map(|(name, ..)| *name).collect();
    for (row, (name, _, known)) in loops(dir.path(), &names, &[]).iter().zip(&KNOWN) {
        assert_eq!(row.row, format!("program:{name}"));
        for (counter, wanted) in *known {
            let found = counted(row, counter);
            assert!(is_close(found, *wanted), "{name}: {found} {counter}, known are {wanted}");
        }
        for metric in counters() {
            counted(row, &metric.name["model-".len()..]);
        }
    }
}

#[test]
#[ignore = "boots guests of another QEMU: make test-long"]
fn a_newer_qemu_models_the_same() {
    let Some(qemu) = newer_qemu() else { return };
    let names = ["l2", "walks", "retpoline"];
    let (first, other) = (scratch(), scratch());
    let older = loops(first.path(), &names, &[]);
    let newer = loops(other.path(), &names, &["--qemu", &qemu.display().to_string()]);
    for (older, newer) in older.iter().zip(&newer) {
        for counter in ["l1d-misses", "dtlb-misses", "page-walks", "branches", "branch-misses"] {
            let [older_count, newer_count] = [older, newer].map(|row| counted(row, counter));
            assert!(is_close(newer_count, older_count), "{}: {counter}", newer.row);
        }
    }
}

#[test]
fn counts_are_as_without_it_and_moved_memory_gets_no_verdict() {
    let dir = scratch();
    let rows = ["-w", "getppid", "-w", "open-close"];
    let run = |name: &str, more: &[&str]| {
        let comparison = with_status(
            0,
            compare(&dir.path().join(name), ["", MEANINGLESS], &[&rows[..], more].concat()),
        );
        comparison.rows
    };
    let without = run("without", &[]);
    for (row, without) in run("with", &["--model", "skylake"]).iter().zip(&without) {
        for metric in METRICS.iter().filter(|metric| metric.modelled().is_none()) {
            let [with, without] = [row, without].map(|row| Some(&row.effect(metric.name)?.samples));
            assert_eq!(with, without, "{}: {}", row.row, metric.name);
        }
        let modelled: Vec<&str> = counters().map(|metric| metric.name).collect();
        let there = |name: &&&str| row.effect(name).is_some();
        assert!(modelled.iter().filter(there).count() > 5, "{}", row.row);
        for effect in
            row.effects().iter().filter(|effect| modelled.contains(&effect.metric.as_str()))
        {
            assert_eq!(effect.verdict, Verdict::NoDetectedChange, "{}: {}", row.row, effect.metric);
        }
        let counts = row.effect("model-branches").unwrap().counts().unwrap();
        assert!(*counts.get(Side::Base) > row.ops);
    }
}
