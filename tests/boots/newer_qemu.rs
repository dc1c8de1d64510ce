//! Promises of METHODOLOGY.md on a newer QEMU, whose plugins have another interface: the one that
//! `make newer-qemu` unpacks. Skipped where it could not be had.

use crate::common::require::newer_qemu as newer;
use crate::common::{compare, row, scratch, with_status};

#[test]
fn the_controls_hold_on_a_newer_qemu() {
    let Some(qemu) = newer() else { return };
    let dir = scratch();
    let qemu = qemu.display().to_string();
    let names = ["control-loop", "control-rep:ops=1", "getppid", "pipe", "fork-exit"];
    let rows = names.iter().flat_map(|name| ["-w", *name]);
    let args: Vec<&str> = rows.chain(["--layouts", "1", "--qemu", &qemu]).collect();
    let lines = ["", "ktax.extra=1"];
    let comparison = with_status(4, compare(&dir.path().join("out"), lines, &args));
    let qemu = &comparison.counts().unwrap().key.qemu;
    assert!(!qemu.starts_with("7."), "{qemu}");
    let planted = &row(&comparison, "control-loop").effects()[0];
    assert_eq!((planted.delta, planted.delta_range), (1.0, (1.0, 1.0)));
    let rep = &row(&comparison, "control-rep:ops=1").effects()[1];
    assert_eq!(rep.samples.base, [4096]);
    for name in &names[2..] {
        let percent = row(&comparison, name).effects()[0].percent.unwrap();
        assert!(percent.abs() < 0.5, "{name}: {percent} %");
    }
    // One row with one task, one with several: of all rows, the equals of tests/boots/controls.
    let rows = ["-w", "pipe", "-w", "control-rep:ops=1"];
    let args = [&rows, &args[2 * names.len()..]].concat();
    let (ran, comparison) = compare(&dir.path().join("zero"), [lines[0]; 2], &args);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for row in &comparison.rows {
        for effect in row.effects() {
            assert_eq!(effect.samples.base, effect.samples.change, "{} {}", row.row, effect.metric);
        }
    }
}

#[test]
#[ignore = "counts two boots: make test-long"]
fn a_boot_is_counted_on_a_newer_qemu() {
    let Some(qemu) = newer() else { return };
    let (dir, qemu) = (scratch(), qemu.display().to_string());
    let args = ["-w", "kernel-boot", "--layouts", "1", "--qemu", &qemu];
    let comparison = with_status(0, compare(&dir.path().join("out"), ["", ""], &args));
    let samples = &row(&comparison, "kernel-boot").effects()[0].samples;
    assert_eq!(samples.base, samples.change);
    assert!(samples.base[0] > 300_000_000, "{samples:?}");
}
