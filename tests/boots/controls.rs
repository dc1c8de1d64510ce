//! The promises of METHODOLOGY.md, each on real boots: zero is zero, the sum is the total, planted
//! costs are found, meaningless changes are not.

use std::sync::OnceLock;

use ktax::model::{Comparison, Context, Outcome, Run, Verdict};

use crate::common::rows::{LONG, rows_of_one_cpu, short_row_of_each, workloads};
use crate::common::{
    Loops, MEANINGLESS, compare, compare_lines, files_below, ktax, measurements, own_cache, row,
    run, scratch, with_status,
};

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
    short(&EVERY_WAY)
}

/// A call, two tasks that wait for each other, faults and a new program, likewise.
fn some_ways() -> Vec<String> {
    short(&["getppid", "pipe", "page-fault", "fork-exec"])
}

fn short(names: &[&str]) -> Vec<String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let names = short_row_of_each(&names, 8);
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
        let (ran, _) = compare_lines(&out, [base, &change], &args(&rows, &more));
        assert!(matches!(ran.status, 3 | 4), "{}", ran.stderr);
        results.push(measurements(&out));
    }
    let [quiet, loaded] = results.try_into().unwrap();
    assert_eq!(quiet.len(), 2 * EVERY_WAY.len() * 2);
    for (quiet, loaded) in quiet.iter().zip(&loaded) {
        assert_eq!(quiet.0, loaded.0);
        assert!(quiet.1 == loaded.1, "{} differs", quiet.0.display());
    }
    let message = format!("{0} of {0} sample and profile files are equal", quiet.len());
    assert!(include_str!("../../METHODOLOGY.md").contains(&message), "{message}");
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
        // Parse by hand: the reader refuses a file that does not add up.
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
fn rep_movsb_of_4096_is_one_instruction_and_4096_iterations() {
    let dir = scratch();
    let out = dir.path().join("out");
    let rows = rows(&["control-rep:ops=1", "control-rep:ops=1001", "control-rep:bytes=0,ops=1001"]);
    let (_, comparison) = compare(&out, ["", ""], &args(&rows, &["--layouts", "1"]));
    let counts = |name: &str| {
        let sample = |metric: usize| row(&comparison, name).effects()[metric].samples.base[0];
        (sample(0), sample(1))
    };
    let [single, thousand, nothing] = [1, 3, 5].map(|index| counts(&rows[index]));
    assert_eq!((single.1, thousand.1, nothing.1), (4096, 1001 * 4096, 0));
    // Six instructions an operation stand in control-rep.c, and the REP is one of them.
    assert_eq!(thousand.0 - single.0, 1000 * 6, "{single:?} {thousand:?}");
    assert_eq!(thousand.0, nothing.0);
}

/// Ten boots for two tests: one instruction more in an operation of control-loop, and memory that
/// is cleared when it is allocated, which control-loop does not do.
fn planted() -> &'static Comparison {
    static PLANTED: OnceLock<Comparison> = OnceLock::new();
    PLANTED.get_or_init(|| {
        let dir = scratch();
        let rows = rows(&["control-loop", "af-unix", "getppid", "create-delete:bytes=0"]);
        // Memory is cleared by default.
        let lines = ["init_on_alloc=0", "ktax.extra=1"];
        with_status(3, compare(&dir.path().join("out"), lines, &args(&rows, &[])))
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
    let without = format!("initcall_blacklist={skipped}");
    let (_, comparison) = compare(&out, ["", &without], &args(&rows, &["--layouts", "1"]));
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

// Equal sides show no change, on rows of every kind; `make test-long` runs all rows.

#[test]
fn zero_is_zero_on_every_layout() {
    zero_is_zero(&some_ways(), 5);
}

#[test]
#[ignore = "minutes: make test-long"]
fn zero_is_zero_on_every_row() {
    zero_is_zero(&[], 2);
}

/// Compares these rows, or all that are compared by default.
fn zero_is_zero(rows: &[String], layouts: usize) {
    let dir = scratch();
    let comparison = with_status(
        0,
        compare(
            &dir.path().join("out"),
            ["", ""],
            &args(rows, &["--layouts", &layouts.to_string()]),
        ),
    );
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
    let comparison = with_status(0, compare(&dir.path().join("out"), ["", ""], &args));
    for row in &comparison.rows {
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{}: {:?}", row.row, row.failures);
        assert!(row.effects().iter().all(|effect| effect.delta == 0.0), "{}", row.row);
    }
    comparison.rows.len()
}

#[test]
fn a_meaningless_change_gets_no_verdict() {
    meaningless(&some_ways());
}

#[test]
#[ignore = "ten minutes: make test-long"]
fn a_meaningless_change_gets_no_verdict_on_any_row() {
    meaningless(&[]);
}

/// On these rows, or on all that are compared by default.
fn meaningless(rows: &[String]) {
    let dir = scratch();
    let (ran, comparison) = compare(&dir.path().join("out"), ["", MEANINGLESS], &args(rows, &[]));
    for row in &comparison.rows {
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{}: {:?}", row.row, row.effects()[0]);
    }
    assert_eq!(ran.status, 0);
    assert!(files_below(dir.path()).len() > 80);
}

// A Region begins on an idle kernel, whose random number generator has a seed.

/// In 6.12 the self-tests of ciphers still run when init begins.
#[test]
fn an_idle_kernel_does_next_to_nothing_in_a_region() {
    idle(["debian:cloud-amd64", "debian:6.12-cloud-amd64"]);
}

#[test]
#[ignore = "two minutes, and 300 MB of packages: make test-long"]
fn idle_kernels_of_every_flavour_do_next_to_nothing() {
    idle(["debian:amd64", "debian:6.12-amd64"]);
    idle(["debian:rt-amd64", "debian:6.12-rt-amd64"]);
}

/// These two kernels, in a process that sleeps and in one that does not.
fn idle(kernels: [&str; 2]) {
    let dir = scratch();
    let out = dir.path().join("out");
    let rows = rows(&["control-sleep", "getppid"]);
    let ran = run(ktax()
        .args(["compare", "--layouts", "1", "--base", kernels[0], "--change", kernels[1]])
        .arg("--out")
        .arg(&out)
        .args(&rows));
    assert!(matches!(ran.status, 0 | 3 | 4), "{}", ran.stderr);
    assert!(!ran.stdout.contains("not idle"), "{}", ran.stdout);
    let mut samples = 0;
    for (path, content) in measurements(&out) {
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let run: Run = serde_json::from_slice(&content).unwrap();
        let Outcome::Measured(sample) = run.outcome else { panic!("{} failed", run.row) };
        // A preempt-rt kernel has threads for interrupts, which is most of this.
        let counts_of = |context: Context| sample.counts.get(&context).copied().unwrap_or_default();
        let background = [counts_of(Context::Kthread), counts_of(Context::Interrupt)];
        let executed: u64 = background.iter().map(|counts| counts.executed()).sum();
        let of_a_thousand = 1000 * executed / sample.tsc;
        assert!(of_a_thousand < 3, "{}: {sample:?}", path.display());
        samples += 1;
    }
    assert_eq!(samples, 4);
}

#[test]
#[ignore = "the guest waits to be idle: make test-long"]
fn who_still_runs_is_named_in_the_report() {
    let dir = scratch();
    let rows = rows(&["control-loop:ops=1"]);
    let (_, comparison) =
        compare(&dir.path().join("out"), ["", "ktax.never=3"], &args(&rows, &["--layouts", "1"]));
    let facts: Vec<&str> =
        comparison.warnings.iter().map(|warning| warning.fact.as_str()).collect();
    let expected = "the change's kernel was not idle when the workloads began: never-idle ran";
    assert_eq!(facts, [expected]);
}

/// Without the instructions that give the generator its first seed.
#[test]
fn a_cpu_without_random_numbers_gets_a_seed() {
    let dir = scratch();
    let measured = |name: &str, cpu: &str| {
        let rows = rows(&["create-delete:bytes=0"]);
        let options = args(&rows, &["--layouts", "1", "--cpu", cpu]);
        let (_, comparison) = compare(&dir.path().join(name), [""; 2], &options);
        assert_eq!(comparison.warnings, []);
        row(&comparison, "create-delete:bytes=0").effects()[0].base
    };
    let (with, without) = (measured("with", "max"), measured("without", "max,-rdrand,-rdseed"));
    assert!((without / with - 1.0).abs() < 0.01, "{without} {with}");
}

/// A generator without a seed makes each file 87 % dearer.
#[test]
fn a_kernel_that_does_not_trust_the_cpu_gets_a_seed() {
    let dir = scratch();
    let rows = rows(&["create-delete:bytes=0"]);
    let untrusting = "random.trust_cpu=off random.trust_bootloader=off";
    let (_, comparison) =
        compare(&dir.path().join("out"), ["", untrusting], &args(&rows, &["--layouts", "1"]));
    let effect = &row(&comparison, "create-delete:bytes=0").effects()[0];
    assert!(effect.percent.unwrap().abs() < 1.0, "{effect:?}");
    assert_eq!(comparison.warnings, []);
}
