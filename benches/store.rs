//! How fast the store answers: ten thousand measurements that nobody made, each as large as a real
//! one. The size of the store stands beside the times.

mod common;

use std::process::{Command, Stdio};
use std::time::Instant;

use ktax::store::Store;

#[path = "../tests/common/made.rs"]
mod made;

#[allow(dead_code)] // the tests use more of it
#[path = "../tests/fast/stored/generated.rs"]
mod generated;

use generated::{Made, fill};

/// Number of rows of a `ktax compare` without `-w`.
const ROWS: usize = 33;
const KERNELS: usize = 303;
/// Number of functions that a small row of a real kernel executes.
const FUNCTIONS: usize = 250;
const TIMES: usize = 7;

fn main() {
    let dir = common::directory();
    let store = Store::new(dir.path().join("store"));
    let rows: Vec<String> = (0..ROWS).map(|row| format!("row-{row:02}")).collect();
    let kernels: Vec<String> =
        (0..KERNELS).map(|index| format!("6.1.{index}-1-cloud-amd64")).collect();
    let measurements = kernels.iter().enumerate().flat_map(|(index, release)| {
        let made =
            |row| Made { functions: FUNCTIONS, ..Made::new(row, release, 10_000 + index as u64) };
        rows.iter().map(move |row| made(row.as_str())).collect::<Vec<_>>()
    });
    fill(&store, measurements);
    let ktax = |words: &[&str]| {
        let started = Instant::now();
        let status = Command::new(env!("CARGO_BIN_EXE_ktax"))
            .args(words)
            .env("KTAX_STORE", store.root())
            .env("KTAX_CACHE", dir.path().join("cache"))
            .stdout(Stdio::null())
            .status();
        assert!(matches!(status.expect("ktax starts").code(), Some(0 | 3)), "{words:?}");
        started.elapsed().as_secs_f64()
    };
    let footprint = store.footprint().expect("the store can be read");
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("{} measurements in {:.1} MiB", footprint.objects, mib(footprint.bytes));
    println!("the index made                 {:6.3} s   wanted: 20 s", ktax(&["log"]));
    let [first, last] = [kernels[0].as_str(), kernels[KERNELS - 1].as_str()];
    for (what, words) in [
        ("log", vec!["log"]),
        ("log --subjects", vec!["log", "--subjects"]),
        ("diff of two subjects", vec!["diff", first, last]),
        ("the same with its page", vec!["diff", first, last, "--html", "/dev/null"]),
        ("history of a row", vec!["history", "row-07"]),
        ("history of all rows", vec!["history"]),
        ("history of a function", vec!["history", "row-07", "--function", "kernel_function_9"]),
    ] {
        let (least, middle, most) = common::spread((0..TIMES).map(|_| ktax(&words)));
        println!("{what:30} {middle:6.3} s ({least:.3} to {most:.3})   wanted: 0.2 s");
    }
}
