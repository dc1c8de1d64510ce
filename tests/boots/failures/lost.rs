//! A boot that the host lost is made again, and one that must fail is made once.

use std::path::Path;

use rustix::process::Signal;

use super::failure;
use crate::common::{
    self, KERNEL, QUICK_BOOT, compare, ktax, own_cache, printed, row, run, scratch,
};
use ktax::model::{Failure, RowFailure};

#[test]
fn what_fails_each_boot_of_a_side_is_waited_for_once() {
    let more = ["-w", "getppid", "--layouts", "5", "--jobs", "1", "--cpu", "max,none-such=on"];
    let dir = scratch();
    let (ran, comparison) = compare(&dir.path().join("out"), [QUICK_BOOT; 2], &more);
    assert_eq!(ran.status, 69);
    let failures = &row(&comparison, "getppid").failures;
    let spared = |failed: &&RowFailure| matches!(failed.failure, Failure::NotBooted { .. });
    assert_eq!((failures.len(), failures.iter().filter(spared).count()), (10, 8), "{failures:?}");
    let report = run(ktax().arg("report").arg(dir.path().join("out"))).stdout;
    // The line of the machine, and one of both sides: the other boots do not repeat it.
    let lines = report.lines().filter(|line| line.contains("none-such"));
    assert_eq!(lines.count(), 2, "{report}");
    assert!(report.contains("  boots 000-base, 001-change: getppid\n"), "{report}");
    assert!(report.contains("other boots of the change: getppid"), "{report}");
}

#[test]
fn a_qemu_that_is_killed_twice_is_a_failed_row_that_a_second_run_heals() {
    let dir = scratch();
    let cache = own_cache(dir.path());
    // One of them QEMU catches, and exits as if its guest had shut down.
    for (name, signal) in [("kill", Signal::KILL), ("term", Signal::TERM)] {
        killed_with(signal, &cache, &dir.path().join(name));
    }
}

fn killed_with(signal: Signal, cache: &Path, out: &Path) {
    // Of each signal its own, which nobody has booted yet.
    let line = format!("{QUICK_BOOT} ktax.none={}", signal.as_raw());
    let mut plan = vec!["plan", "--same", "-w", "getppid", "--layouts", "1", "--kernel", KERNEL];
    plan.extend(["--base-boot-line", &line, "--change-boot-line", &line]);
    assert_eq!(run(ktax().args(plan).arg("--cache").arg(cache).arg("--out").arg(out)).status, 0);
    let again = || {
        let mut command = ktax();
        command.args(["run", "--jobs", "1"]).arg(out).arg("--cache").arg(cache);
        command
    };
    let child = again().spawn().unwrap();
    // The first boot of a fresh cache takes seconds: this is in the middle of it, and of the second
    // try.
    let mut killed = Vec::new();
    while killed.len() < 2 {
        if let Some(id) = common::pids(cache).into_iter().find(|id| !killed.contains(id)) {
            let pid = rustix::process::Pid::from_raw(id).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
            killed.push(id);
        }
        std::thread::yield_now();
    }
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(69));
    let ran = run(ktax().args(["analyse", "--json"]).arg(out));
    let comparison = printed::comparison(&ran.stdout);
    let found = failure(&comparison, "getppid");
    assert!(matches!(found, Failure::QemuLost { .. }), "{found:?}");
    assert_eq!(ran.status, 69);
    assert_eq!(run(&mut again()).status, 0);
    assert_eq!(run(ktax().arg("analyse").arg(out)).status, 0);
}
