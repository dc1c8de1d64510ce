//! How fast ktax itself is: ratios of alternating pairs in one run, on the newest cloud kernel of
//! the distribution.
//!
//! Times on a shared machine are not worth comparing between runs; these ratios are. Of what is
//! counted the ratio is of QEMU's CPU time in user mode: how long the host takes for pages of
//! memory is nothing of ktax's.

mod common;

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use ktax::engine::argv::CallPaths;
use ktax::engine::exact::Exact;
use ktax::engine::qemu::Qemu;
use ktax::engine::{Cancel, Engine, Frozen, Limits, Request, Stop};
use ktax::kernel::{self, Talk};
use ktax::model::{Layout, Machine, Subject, Workload};
use ktax::plan::ModelKey;
use ktax::{plan, wire};

const PAIRS: usize = 5;

/// Pairs of all rows of a comparison: one takes two minutes, and more on a slower machine.
const PAIRS_OF_ALL: usize = 2;

const BOOT: &str = "boot to the snapshot / boot by hand";

/// Overhead of call paths.
const ALL_PATHS: &str = "call paths / counted without, all rows of a comparison";

/// Overhead of call paths and costly instructions.
const ALL_WITH_COSTLY: &str =
    "call paths and costly instructions / counted without, all rows of a comparison";

/// Overhead of a model.
const ALL_MODELLED: &str = "with the model of skylake / counted, all rows of a comparison";

const ROWS: [&str; 4] =
    ["getppid:ops=1000000", "pipe:ops=30000", "fork-exit:ops=1500", "open-close:ops=30000"];

fn main() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let request = request(&dir.path().join("kernels"));
    if common::is_asked_for(BOOT) {
        boots(&dir.path().join("cold"), &request);
    }
    let engine = engine(&dir.path().join("warm"));
    let boot = engine.boot(&request).map_err(describe).expect("the kernel boots");
    let skylake = ModelKey::Name("skylake".to_owned()).model().expect("it is built in");
    let machine = Machine { model: Some(skylake), ..Machine::default() };
    let modelled = engine.boot(&Request { machine, ..request.clone() }).map_err(describe);
    let modelled = modelled.expect("it is there");
    let pathless = engine.boot_with_paths(&request, CallPaths::NotFollowed).map_err(describe);
    let pathless = pathless.expect("it is there");
    let plain = engine.boot_with_paths(&request, CallPaths::NotFollowedNorCostly).map_err(describe);
    let plain = plain.expect("it is there");
    let uncounted = engine.freeze(&request).map_err(describe).expect("the snapshot is there");
    let nothing = "one run, nothing to do";
    if common::is_asked_for(nothing) {
        let fixed = order("getppid:ops=1");
        let times = sample(|| boot.run(&fixed).map_err(describe).expect("it runs"));
        let (least, middle, most) = common::spread(times);
        println!("{nothing}   {middle:.3} s ({least:.3} to {most:.3})   wanted: at most 0.6 s");
    }
    let orders = orders(None);
    let every_row = |boot: &dyn Frozen| {
        for order in &orders {
            drop(boot.run(order).map_err(describe).expect("it runs"));
        }
    };
    pairs_of_cpu(ALL_PATHS, 1.15, PAIRS_OF_ALL, || every_row(&*boot), || every_row(&*pathless));
    pairs_of_cpu(ALL_WITH_COSTLY, 1.2, PAIRS_OF_ALL, || every_row(&*boot), || every_row(&*plain));
    pairs_of_cpu(ALL_MODELLED, 3.0, PAIRS_OF_ALL, || every_row(&*modelled), || every_row(&*boot));
    for row in ROWS {
        let order = order(row);
        pairs_of_cpu(
            &format!("call paths / counted without, {row}"),
            1.15,
            PAIRS,
            || drop(boot.run(&order).map_err(describe).expect("it runs")),
            || drop(pathless.run(&order).map_err(describe).expect("it runs")),
        );
        pairs_of_cpu(
            &format!("with the model of skylake / counted, {row}"),
            3.0,
            PAIRS,
            || drop(modelled.run(&order).map_err(describe).expect("it runs")),
            || drop(boot.run(&order).map_err(describe).expect("it runs")),
        );
        pairs_of_cpu(
            &format!("counted without call paths / not counted, {row}"),
            1.15,
            PAIRS,
            || drop(pathless.run(&order).map_err(describe).expect("it runs")),
            || drop(uncounted.run_uncounted(&order).map_err(describe).expect("it runs")),
        );
    }
}

/// Boots to the snapshot in a cache that has none, against the same machine run by hand to its end.
fn boots(cache: &std::path::Path, request: &Request) {
    let file = cache.with_extension("order");
    std::fs::write(&file, order("getppid:ops=1")).expect("a writable directory");
    let warm = engine(cache);
    drop(warm.freeze(request).map_err(describe).expect("it boots"));
    let script = warm.script(request);
    let mut number = 0;
    pairs(
        BOOT,
        1.3,
        PAIRS,
        || {
            number += 1;
            let cold = engine(&cache.with_extension(number.to_string()));
            drop(cold.freeze(request).map_err(describe).expect("it boots"));
        },
        || {
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh"]).arg(&file).current_dir(cache);
            let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
            assert_eq!(status.expect("sh starts").code(), Some(43));
        },
    );
}

fn engine(cache: &std::path::Path) -> Exact {
    let qemu = Qemu::find(None).expect("QEMU");
    Exact::new(qemu, cache, Limits::default(), Cancel::default()).expect("a writable cache")
}

fn request(cache: &std::path::Path) -> Request {
    let subject = Subject::new("debian:cloud-amd64", "");
    let talk = Talk {
        note: &|note| eprintln!("{note}"),
        status: &|_| {},
        task: &|_| {},
        is_cancelled: &|| false,
    };
    let kernel = kernel::obtain(&subject, cache, &talk).expect("a kernel");
    let image: PathBuf = kernel.image;
    Request {
        image,
        image_sha256: kernel.identity.sha256,
        boot_line: String::new(),
        machine: Machine::default(),
        layout: layout(),
        modules: None,
        side_programs: None,
        program: None,
    }
}

fn layout() -> Layout {
    Layout { seed: 1, padding: 0, phase: 0 }
}

fn order(row: &str) -> String {
    orders(Some(&[row.to_owned()])).remove(0)
}

/// Measures the named rows, or all rows of a comparison.
fn orders(rows: Option<&[String]>) -> Vec<String> {
    let definitions = plan::definitions().expect("built-in workloads");
    let rows: Vec<Workload> = plan::select_rows(&definitions, rows).expect("built-in workloads");
    rows.iter().map(|row| wire::order(row, &layout())).collect()
}

fn describe(stop: Stop) -> String {
    format!("{stop:?}")
}

fn time<T>(run: &mut impl FnMut() -> T) -> f64 {
    let started = Instant::now();
    run();
    started.elapsed().as_secs_f64()
}

fn sample<T>(mut run: impl FnMut() -> T) -> Vec<f64> {
    run();
    (0..PAIRS).map(|_| time(&mut run)).collect()
}

/// Times A and B in turn and prints the ratio pair by pair.
fn pairs(what: &str, wanted: f64, count: usize, a: impl FnMut(), b: impl FnMut()) {
    pairs_by(|run| time(&mut || run()), what, wanted, count, a, b);
}

/// Ratios of the CPU time in user mode of the processes that they start and wait for.
fn pairs_of_cpu(what: &str, wanted: f64, count: usize, a: impl FnMut(), b: impl FnMut()) {
    let seconds = |run: &mut dyn FnMut()| {
        let before = common::user_seconds_of_children();
        run();
        common::user_seconds_of_children() - before
    };
    pairs_by(seconds, what, wanted, count, a, b);
}

fn pairs_by(
    seconds: impl Fn(&mut dyn FnMut()) -> f64,
    what: &str,
    wanted: f64,
    count: usize,
    mut a: impl FnMut(),
    mut b: impl FnMut(),
) {
    if !common::is_asked_for(what) {
        return;
    }
    a();
    b();
    let pairs: Vec<(f64, f64)> = (0..count).map(|_| (seconds(&mut a), seconds(&mut b))).collect();
    let (least, middle, most) = common::spread(pairs.iter().map(|(a, b)| a / b));
    let (_, seconds, _) = common::spread(pairs.iter().map(|(a, _)| *a));
    println!(
        "{what}   {middle:.3} ({least:.3} to {most:.3}, {count} pairs of {seconds:.1} s)   \
         wanted: at most {wanted}"
    );
}
