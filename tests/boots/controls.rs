//! The promises of METHODOLOGY.md, each on real boots: zero is zero, the sum is the total, planted
//! costs are found, meaningless changes are not.

mod equals;
mod idle;

use std::sync::OnceLock;

use crate::common::rows::short_row_of_each;
use crate::common::{Loops, QUICK_BOOT, compare, measurements, own_cache, row, scratch};
use ktax::model::{Comparison, Context, Outcome, Run, Verdict};
use ktax::rundir::profile;

/// Rows that together enter the kernel every way that the workloads do.
const EVERY_WAY: [&str; 8] = [
    "getppid",
    "pipe",
    "signal-handle",
    "page-fault",
    "fork-exec",
    "create-delete:bytes=0",
    "select-tcp",
    "fork-pages:pages=64",
];

fn rows(names: &[&str]) -> Vec<String> {
    names.iter().flat_map(|name| ["-w".to_owned(), (*name).to_owned()]).collect()
}

/// Those, with as few operations as will do.
fn every_way() -> Vec<String> {
    let names = short_row_of_each(&EVERY_WAY.map(str::to_owned), 8);
    rows(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn args<'a>(rows: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    rows.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

#[test]
fn two_runs_of_one_plan_are_byte_identical_also_under_load() {
    let dir = scratch();
    let rows = every_way();
    let mut results = Vec::new();
    for (name, loops) in [("quiet", 0), ("loaded", 2)] {
        let _loops = Loops::start_nice(loops);
        let out = dir.path().join(name);
        std::fs::create_dir(&out).unwrap();
        // Every boot is made anew.
        let cache = own_cache(&out).display().to_string();
        let out = out.join("out");
        let more = ["--layouts", "1", "--cache", &cache];
        // The timer is the users' own; random bits of the time-stamp counter move the stack in
        // every system call.
        let base = "randomize_kstack_offset=on";
        let change = format!("{base} lsm=capability");
        let (ran, _) = compare(&out, [base, &change], &args(&rows, &more));
        assert!(matches!(ran.status, 3 | 4), "{}", ran.stderr);
        results.push(measurements(&out));
    }
    let [quiet, loaded] = results.try_into().unwrap();
    assert_eq!(quiet.len(), 2 * EVERY_WAY.len() * 2);
    for (quiet, loaded) in quiet.iter().zip(&loaded) {
        assert_eq!(quiet.0, loaded.0);
        assert!(quiet.1 == loaded.1, "{} differs", quiet.0.display());
    }
    let said = format!("{0} of {0} sample and profile files are equal", quiet.len());
    assert!(include_str!("../../METHODOLOGY.md").contains(&said), "{said}");
}

#[test]
fn the_functions_add_up_to_the_total_of_every_run() {
    let dir = scratch();
    let rows = every_way();
    compare(dir.path().join("out").as_path(), ["", ""], &args(&rows, &["--layouts", "1"]));
    let mut runs = 0;
    for (path, content) in measurements(&dir.path().join("out")) {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let run: Run = serde_json::from_slice(&content).unwrap();
        let Outcome::Measured(sample) = run.outcome else { panic!("{} failed", run.row) };
        let tsv = dir.path().join("out").join(path.with_extension("profile.tsv"));
        let text = std::fs::read_to_string(tsv).unwrap();
        // By hand, not by the reader that refuses the file if it does not add up.
        let columns = |n: usize| {
            text.lines()
                .filter(|line| line.starts_with("fn\t"))
                .map(|line| line.split('\t').nth(n).unwrap().parse::<u64>().unwrap())
                .sum::<u64>()
        };
        assert_eq!(columns(2) + columns(3), sample.total, "{}", run.row);
        // The guest's own clock counts the same instructions, without those that fault and are
        // retried.
        let faults = sample.signature.get("faults").copied().unwrap_or(0);
        assert!(sample.total + 100 >= sample.tsc, "{}: {sample:?}", run.row);
        if run.row == "getppid" {
            assert!(sample.tsc.abs_diff(sample.total) < 16, "{}: {sample:?}", run.row);
        }
        if run.row == "page-fault" {
            assert!(sample.tsc.abs_diff(sample.total - faults) < 64, "{}: {sample:?}", run.row);
        }
        runs += 1;
    }
    assert_eq!(runs, 2 * EVERY_WAY.len());
}

#[test]
fn a_profile_that_does_not_add_up_is_refused() {
    let text = "ktax-profile\t1\napi\t1\nregion\t1\ntotal\t7\nfn\tprocess\t4\t2\tf\nend\n";
    assert_eq!(profile::parse(text), Err(profile::ProfileError::Sum { sum: 6, total: 7 }));
    assert!(profile::parse(&text.replace("\t7", "\t6")).is_ok());
}

#[test]
fn rep_movsb_of_4096_is_one_instruction_and_4096_iterations() {
    let dir = scratch();
    let out = dir.path().join("out");
    let rows = rows(&["control-rep:ops=1", "control-rep:ops=1001", "control-rep:bytes=0,ops=1001"]);
    let (_, comparison) = compare(&out, ["", ""], &args(&rows, &["--layouts", "1"]));
    let counts = |name: &str| {
        let sample = |metric: usize| row(&comparison, name).effects()[metric].samples.base[0];
        (sample(0), sample(1))
    };
    let [one, thousand, nothing] = [1, 3, 5].map(|at| counts(&rows[at]));
    assert_eq!((one.1, thousand.1, nothing.1), (4096, 1001 * 4096, 0));
    // Six instructions an operation stand in control-rep.c, and the REP is one of them.
    assert_eq!(thousand.0 - one.0, 1000 * 6, "{one:?} {thousand:?}");
    assert_eq!(thousand.0, nothing.0);
}

/// Ten boots for two tests: one instruction more in an operation of control-loop, and memory that
/// is cleared when it is allocated, which control-loop does not do.
fn planted() -> &'static Comparison {
    static PLANTED: OnceLock<Comparison> = OnceLock::new();
    PLANTED.get_or_init(|| {
        let dir = scratch();
        let rows = rows(&["control-loop", "af-unix", "getppid", "create-delete:bytes=0"]);
        let lines = ["init_on_alloc=0 ktax.extra=0", "init_on_alloc=1 ktax.extra=1"]
            .map(|line| format!("{QUICK_BOOT} {line}"));
        let lines = [&*lines[0], &*lines[1]];
        let (ran, comparison) = compare(&dir.path().join("out"), lines, &args(&rows, &[]));
        assert_eq!(ran.status, 3, "{}", ran.stderr);
        comparison
    })
}

#[test]
fn one_planted_instruction_is_found_exactly() {
    let row = row(planted(), "control-loop");
    assert_eq!(row.verdict, Verdict::Slower);
    let effect = &row.effects()[0];
    for (base, change) in effect.samples.base.iter().zip(&effect.samples.change) {
        assert_eq!(change - base, row.ops, "{effect:?}");
    }
    assert_eq!((effect.delta, effect.delta_range), (1.0, (1.0, 1.0)));
    assert_eq!(effect.functions.len(), 1);
    assert_eq!((effect.functions[0].function.as_str(), effect.functions[0].delta), ("[user]", 1.0));
}

#[test]
fn init_on_alloc_is_attributed_to_the_functions_that_do_it() {
    assert_eq!(row(planted(), "getppid").verdict, Verdict::NoDetectedChange);
    // Clearing is REP work: one instruction each, thousands of iterations.
    for (name, function, at_least) in
        [("create-delete:bytes=0", "memset_erms", 4000.0), ("af-unix", "memset_erms", 500.0)]
    {
        let row = row(planted(), name);
        assert_eq!(row.verdict, Verdict::Slower, "{row:?}");
        let rep = row.effect("rep-iterations").unwrap();
        assert_eq!(rep.verdict, Verdict::Slower);
        let first = &rep.functions[0];
        assert_eq!((first.function.as_str(), first.context), (function, Context::Process));
        assert!(first.rep_delta > at_least, "{first:?}");
        // All functions together are the whole difference.
        let sum: f64 = rep.functions.iter().map(|function| function.rep_delta).sum();
        assert!((sum - rep.delta).abs() < 1e-6, "{sum} {}", rep.delta);
    }
}

#[test]
fn a_boot_is_counted_with_all_that_it_does() {
    let dir = scratch();
    let out = dir.path().join("out");
    let (skipped, rows) = ("load_system_certificate_list", rows(&["kernel-boot"]));
    let without = format!("{QUICK_BOOT} initcall_blacklist={skipped}");
    let (_, comparison) = compare(&out, [QUICK_BOOT, &without], &args(&rows, &["--layouts", "1"]));
    // Checking a signature is some sixty million instructions of the base's.
    let effect = &row(&comparison, "kernel-boot").effects()[0];
    assert!(effect.delta < -3e7 && effect.base > 3e8, "{effect:?}");
    let function = |boot: &str, name: &str| {
        let profile = out.join("boots").join(boot).join("runs/kernel-boot.profile.tsv");
        let text = std::fs::read_to_string(profile).unwrap();
        text.lines().any(|line| line.ends_with(&format!("\t{name}")))
    };
    // From the first function to init's last step before user mode, and nothing of user mode.
    for name in ["start_kernel", "kernel_init", skipped] {
        assert!(function("000-base", name), "{name}");
    }
    assert!(!function("001-change", skipped));
    assert_eq!(comparison.warnings, [], "the clock of a boot is not its Region's");
}
