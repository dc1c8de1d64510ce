//! Several CPUs on all rows: what is contended repeats at every quantum, whatever else this machine
//! does, and a meaningless change gets no verdict.

use std::fs;
use std::path::{Path, PathBuf};

use ktax::model::{SPIN_WAIT, Verdict, Workload};
use ktax::plan::{definitions, select_rows};

use crate::common::require::newer_qemu;
use crate::common::rows::{short_row_of_each, workloads};
use crate::common::{Loops, compare_lines, measurements, own_cache, row, scratch};

/// Rows whose CPUs meet at a lock: of the table of files, of the address space, of a socket.
const CONTENDED: [&str; 3] = [
    "scale:call=dup,cpus=4,ops=400",
    "scale:call=mmap,cpus=4,ops=200",
    "scale:call=unix,cpus=4,ops=100",
];

/// Rows of one comparison: a verdict that is not wanted is known before all of them ran.
const AT_A_TIME: usize = 24;

/// The last entry has two variants, by whether CPUs wait.
const QUANTA: [&[&str]; 4] =
    [&["--quantum", "200"], &["--quantum", "500"], &["--quantum", "2000"], &[]];

/// How often each of them is measured: five times, of two sides, each of which runs twice.
const TIMES: usize = 5;

#[test]
fn contended_rows_repeat_ten_of_ten_times_at_every_quantum_under_load() {
    let Some(qemu) = newer_qemu() else { return };
    let qemu = qemu.display().to_string();
    let _loops = Loops::start(2);
    for quantum in QUANTA {
        let (mut traces, mut profiles) = (Vec::new(), Vec::new());
        let dir = scratch();
        // The boot is made under load, too; tests/boots/cpus.rs makes each anew.
        let cache = own_cache(dir.path()).display().to_string();
        for time in 0..TIMES {
            let out = dir.path().join(format!("out-{time}"));
            let rows = CONTENDED.iter().flat_map(|row| ["-w", *row]);
            let more = ["--cpus", "4", "--layouts", "1", "--qemu", &qemu, "--cache", &cache];
            let args: Vec<&str> = rows.chain(more).chain(quantum.iter().copied()).collect();
            let (ran, comparison) = compare_lines(&out, ["", ""], &args);
            let failures = comparison.rows.iter().flat_map(|row| &row.failures);
            let failures: Vec<_> = failures.map(|failure| format!("{failure:?}")).collect();
            assert_eq!(ran.status, 0, "at {quantum:?}: {failures:?} {}", ran.stderr);
            for name in CONTENDED {
                let waits = row(&comparison, name).effect(SPIN_WAIT).unwrap();
                assert!(waits.base > 0.0, "{name} at {quantum:?} is not contended");
            }
            for (path, text) in profiles_of(&out) {
                let trace = text.lines().find(|line| line.starts_with("trace\t")).unwrap();
                traces.push((path.clone(), trace.to_owned()));
                profiles.push((path, text));
            }
        }
        for name in CONTENDED {
            let contents = |files: &[(PathBuf, String)]| -> Vec<String> {
                let of_row = |(path, _): &&(PathBuf, String)| path.to_string_lossy().contains(name);
                files.iter().filter(of_row).map(|(_, text)| text.clone()).collect()
            };
            for texts in [contents(&traces), contents(&profiles)] {
                assert_eq!(texts.len(), 2 * TIMES, "{name}");
                assert!(
                    texts.iter().all(|text| *text == texts[0]),
                    "{name} at {quantum:?}: {texts:?}"
                );
            }
            println!("{name} at {quantum:?}: {} of {} equal", 2 * TIMES, 2 * TIMES);
        }
    }
}

/// The profiles of a run directory, by the path of each.
fn profiles_of(out: &Path) -> Vec<(PathBuf, String)> {
    let paths = measurements(out).into_iter().map(|(path, _)| path);
    let profiles =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "tsv"));
    profiles.map(|path| (path.clone(), fs::read_to_string(out.join(&path)).unwrap())).collect()
}

/// Each call of the table of scalability, on shared and on own objects, on four CPUs.
fn calls() -> Vec<String> {
    let mut rows = select_rows(&definitions().unwrap(), Some(&["scale".to_owned()])).unwrap();
    rows.retain(|row| row.params["cpus"] == 4);
    let short = |row: &Workload| format!("{},ops={}", row.row, row.ops / 8);
    rows.iter().map(short).collect()
}

#[test]
fn a_meaningless_change_gets_no_verdict_on_any_row_with_four_cpus() {
    let Some(qemu) = newer_qemu() else { return };
    let qemu = qemu.display().to_string();
    let names: Vec<String> = workloads().into_iter().filter(|name| name != "scale").collect();
    let rows = [calls(), short_row_of_each(&names, 32)].concat();
    let mut found = Vec::new();
    for some in rows.chunks(AT_A_TIME) {
        let dir = scratch();
        let names = some.iter().flat_map(|row| ["-w", row.as_str()]);
        let args: Vec<&str> = names.chain(["--cpus", "4", "--qemu", &qemu]).collect();
        let lines = ["ktax.none=a", "ktax.none=ab"];
        let (ran, comparison) = compare_lines(&dir.path().join("out"), lines, &args);
        assert_eq!(comparison.rows.len(), some.len(), "{}", ran.stderr);
        for row in &comparison.rows {
            if row.verdict != Verdict::NoDetectedChange {
                println!("{}: {:?} {:?}", row.row, row.verdict, row.failures);
                println!("{:#?}", row.effects());
                found.push(row.row.clone());
            }
        }
        println!("{} rows with four CPUs, {} with a verdict so far", some.len(), found.len());
    }
    assert!(rows.len() > 60 && found.is_empty(), "{found:?} of {}", rows.len());
}
