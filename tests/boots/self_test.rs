//! The self-test of the quantum: its guest finds its lock taken as often as the quantum says, and a
//! QEMU that gives CPUs other slices is refused before anything is counted.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::common::files::wrapped_qemu;
use crate::common::require::newer_qemu as newer;
use crate::common::{KERNEL, Ran, compare_lines, ktax, own_cache, run, scratch};
use crate::exact::engine;
use ktax::engine::exact::SelfTest;
use ktax::model::QUANTUM;
use ktax::wire::{Answer, parse_answer};

/// A quantum, and how many percent of all acquisitions find the lock taken at it.
const SHARES: [(u32, f64); 6] =
    [(100_000, 0.09), (10_000, 0.8), (1_000, 8.6), (200, 42.8), (50, 92.6), (20, 100.0)];

/// Number of acquisitions.
const ALL: u64 = 80_000;

/// How many acquisitions were contended, what the counter counted, and the profile.
fn test(qemu: &Path, what: SelfTest, quantum: u32) -> (u64, u64, String) {
    let answer = engine(Some(qemu)).self_test(what, quantum).unwrap();
    let Ok(Answer::Done(done)) = parse_answer(&answer.wire, "self-test") else {
        panic!("{}", String::from_utf8_lossy(&answer.wire))
    };
    (done.signature["contended"], done.signature["counter"], answer.profile)
}

#[test]
fn the_lock_is_contended_as_often_as_the_quantum_says() {
    let Some(qemu) = newer() else { return };
    for (quantum, expected) in SHARES {
        let first = test(&qemu, SelfTest::Locked, quantum);
        // Runs have the first of these; the second is finer.
        if [QUANTUM, 200].contains(&quantum) {
            assert!(first == test(&qemu, SelfTest::Locked, quantum), "{quantum} does not repeat");
        }
        let (contended, counter, profile) = first;
        assert_eq!(counter, ALL, "{quantum}");
        let share = contended as f64 / ALL as f64 * 100.0;
        assert!((share - expected).abs() <= 1.0, "{quantum}: {share} instead of {expected} %");
        let lines: Vec<Vec<&str>> =
            profile.lines().map(|line| line.split('\t').collect()).collect();
        let makespan = lines.iter().find(|line| line[0] == "makespan").unwrap()[1];
        let cpus: Vec<u64> = lines
            .iter()
            .filter(|line| line[0] == "cpu")
            .map(|line| line[2..].iter().map(|time| time.parse::<u64>().unwrap()).sum())
            .collect();
        assert_eq!(cpus, [makespan.parse::<u64>().unwrap(); 4], "{quantum}");
    }
}

/// A copy of an unpacked QEMU in which no plugin finds the function by which it ends slices: as if
/// QEMU were built without modules, for which it exports that.
fn without_exports(dir: &Path, qemu: &Path) -> PathBuf {
    let [from, to] = [qemu.parent().unwrap(), dir].map(|root| root.join("root/usr"));
    fs::create_dir_all(to.join("bin")).unwrap();
    for name in ["lib", "share"] {
        symlink(from.join(name).canonicalize().unwrap(), to.join(name)).unwrap();
    }
    let [from, to] = [from, to].map(|usr| usr.join("bin/qemu-system-x86_64"));
    let mut program = fs::read(&from).unwrap();
    let name = b"\0cpu_exit\0";
    let offset =
        program.windows(name.len()).position(|bytes| bytes == name).expect("it is exported");
    program[offset + 1] = b'x';
    fs::write(&to, program).unwrap();
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
    let wrapper = dir.join("qemu-system-x86_64");
    fs::copy(qemu, &wrapper).unwrap();
    wrapper
}

#[test]
fn a_qemu_that_exports_nothing_ends_slices_too() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    let without = without_exports(dir.path(), &qemu);
    let first = test(&without, SelfTest::Locked, QUANTUM);
    assert!(first == test(&without, SelfTest::Locked, QUANTUM), "it does not repeat");
    let (with, (contended, counter, _)) = (test(&qemu, SelfTest::Locked, QUANTUM).0, first);
    assert_eq!(counter, ALL);
    assert!(contended.abs_diff(with) <= ALL / 100, "{contended} instead of {with}");
}

#[test]
fn a_counter_without_a_lock_loses_what_others_count() {
    let Some(qemu) = newer() else { return };
    let default = QUANTUM;
    assert_eq!(test(&qemu, SelfTest::Locked, default).1, ALL);
    let (contended, counter, _) = test(&qemu, SelfTest::Unlocked, default);
    assert!(contended == 0 && counter < ALL * 3 / 4, "{counter}");
}

#[test]
fn a_qemu_with_other_slices_is_refused() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    let long = "case $word in *,quantum=*) word=${word%quantum=*}quantum=100000;; esac";
    let qemu = wrapped_qemu(dir.path(), &qemu, long);
    let message = "fails ktax's scheduling self-test, so --cpus cannot be used: at a \
                quantum of 200, 0.1 % of a lock's acquisitions are contended instead of";
    let out = dir.path().join("out");
    let kernel = ["compare", "--kernel", KERNEL, "--same", "-w", "getppid", "--cpus", "2"];
    let ran = run(ktax().args(kernel).arg("--out").arg(&out).arg("--qemu").arg(&qemu)).exits(69);
    ran.says(message);
    ran.says("; use another QEMU, such as");
    assert!(!out.join("boots").exists());
    let found = run(ktax().arg("doctor").arg("--qemu").arg(&qemu)).stdout;
    let found: Vec<&str> = found.split_whitespace().collect();
    assert!(found.join(" ").contains(message), "{found:?}");
}

#[test]
#[ignore = "boots on two CPUs in a cache of its own: make test-long"]
fn a_qemu_is_tested_once_and_for_several_cpus_only() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    let cache = own_cache(dir.path()).display().to_string();
    let [first, second] = ["first", "second"].map(|name| {
        let place = dir.path().join(name);
        fs::create_dir(&place).unwrap();
        let log = place.join("log");
        let count = format!("case $word in */self-test) echo {name} >> '{}';; esac", log.display());
        (wrapped_qemu(&place, &qemu, &count), log)
    });
    let tests = |log: &Path| fs::read_to_string(log).unwrap_or_default().lines().count();
    let compared = |(qemu, log): &(PathBuf, PathBuf), cpus: &str| -> usize {
        let out = scratch();
        let qemu = qemu.display().to_string();
        let args = ["-w", "getppid", "--layouts", "1", "--cpus", cpus, "--cache", &cache, "--qemu"];
        let (ran, _): (Ran, _) =
            compare_lines(&out.path().join("out"), ["", ""], &[&args[..], &[&qemu]].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        tests(log)
    };
    assert_eq!(compared(&first, "1"), 0);
    assert!(!Path::new(&cache).join("self-tests").exists());
    assert_eq!(compared(&first, "2"), 1);
    assert_eq!(compared(&first, "2"), 1);
    assert_eq!(compared(&second, "2"), 1);
}
