//! A Region begins on an idle kernel, whose random number generator has a seed.

use ktax::model::{Context, Outcome, Run};

use super::{args, rows};
use crate::common::{QUICK_BOOT, compare, ktax, measurements, row, run, scratch};

/// Of 6.12 the tests of its ciphers still run when init begins.
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
        let of = |context: Context| sample.counts.get(&context).copied().unwrap_or_default();
        let background = [of(Context::Kthread), of(Context::Interrupt)];
        let executed: u64 = background.iter().map(|counts| counts.executed()).sum();
        let of_a_thousand = 1000 * executed / sample.tsc;
        assert!(of_a_thousand < 3, "{}: {sample:?}", path.display());
        samples += 1;
    }
    assert_eq!(samples, 4);
}

#[test]
fn who_still_runs_is_named_in_the_report() {
    let dir = scratch();
    let busy = format!("{QUICK_BOOT} ktax.never=3");
    let rows = rows(&["control-loop:ops=1"]);
    let (_, comparison) =
        compare(&dir.path().join("out"), [QUICK_BOOT, &busy], &args(&rows, &["--layouts", "1"]));
    let facts: Vec<&str> = comparison.warnings.iter().map(|one| one.fact.as_str()).collect();
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
        let (_, comparison) = compare(&dir.path().join(name), [QUICK_BOOT; 2], &options);
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
    let untrusting = format!("{QUICK_BOOT} random.trust_cpu=off random.trust_bootloader=off");
    let (_, comparison) = compare(
        &dir.path().join("out"),
        [QUICK_BOOT, &untrusting],
        &args(&rows, &["--layouts", "1"]),
    );
    let effect = &row(&comparison, "create-delete:bytes=0").effects()[0];
    assert!(effect.percent.unwrap().abs() < 1.0, "{effect:?}");
    assert_eq!(comparison.warnings, []);
}
