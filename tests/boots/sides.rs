//! What only one side's guest has: settings, modules, a disk, files and a setup.

use std::fs;
use std::path::Path;

use ktax::model::{Failure, Outcome, Run, Sample, Side, Verdict};

use crate::common::{KERNEL, QUICK_BOOT, ktax, open_counts, printed, row, run, scratch};

/// What a side measured under the first layout.
fn sample(out: &Path, side: Side, row: &str) -> Sample {
    let dir = open_counts(out).unwrap();
    let steps = &dir.plan().method.steps;
    let step = steps.iter().find(|step| step.side == side && step.layout == 0).unwrap();
    let run: Run = dir.run(step, row).unwrap().unwrap();
    match run.outcome {
        Outcome::Measured(sample) => sample,
        Outcome::Failed(failure) => panic!("{failure}"),
    }
}

/// Instructions that a side executed in functions whose names begin like this.
fn executed(out: &Path, side: Side, row: &str, prefix: &str) -> u64 {
    let dir = open_counts(out).unwrap();
    let steps = &dir.plan().method.steps;
    let step = steps.iter().find(|step| step.side == side).unwrap();
    let profile = dir.profile(step, row).unwrap();
    let lines = profile.lines.iter().filter(|line| line.function.starts_with(prefix));
    lines.map(|line| line.counts[ktax::model::Basic::Instructions]).sum()
}

/// Prints what its guest has, as numbers.
const LOOK: &str = "echo conf: $(cat conf); echo mark: $(cat /tmp/mark)\n\
    echo swappiness: $(cat /proc/sys/vm/swappiness)\n\
    echo schedstats: $(cat /proc/sys/kernel/sched_schedstats)\n\
    test -e /sys/block/zram2 && echo zram: 1 || echo zram: 0\n";

#[test]
fn each_side_has_settings_of_its_own() {
    let dir = scratch();
    let path = dir.path();
    fs::write(path.join("old.conf"), "3\n").unwrap();
    fs::write(path.join("new.conf"), "4\n").unwrap();
    let names = ["conf", "mark", "swappiness", "zram", "schedstats"];
    let numbers = names.iter().flat_map(|name| ["--number".to_owned(), format!("{name}={name}")]);
    let boot_line = ["--base-boot-line", QUICK_BOOT, "--change-boot-line", QUICK_BOOT];
    let base = ["--base-set", "vm.swappiness=11", "--base-file", "old.conf:conf"];
    let base_setup = "read x <conf; echo 5$x >/tmp/mark";
    let change = ["--change-set", "vm.swappiness=12", "--change-file", "new.conf:conf"];
    let change_setup = "echo 6 >/tmp/mark; echo 1 >/proc/sys/kernel/sched_schedstats";
    let disks = ["--base-disk", "ext4 mkfs='-O ^metadata_csum'", "--change-disk", "ext4"];
    let ran = run(ktax()
        .current_dir(path)
        .args(["compare", "--kernel", KERNEL, "--layouts", "1", "--json", "--out", "out"])
        .args(boot_line)
        .args(base)
        .args(change)
        .args(disks)
        .args(["--base-setup", base_setup, "--change-setup", change_setup])
        .args(["--change-module", "zram num_devices=3", "-w", "fs-append"])
        .args(numbers)
        .args(["--any-output", "--", "sh", "-ec", LOOK]));
    let out = path.join("out");
    let comparison = printed::comparison(&ran.stdout);
    // The program prints other numbers on each side, which is other work.
    assert_eq!(row(&comparison, "program:sh").verdict, Verdict::DifferentWork, "{}", ran.stderr);
    let seen = |side| {
        let signature = sample(&out, side, "program:sh").signature;
        names.map(|name| signature[name])
    };
    assert_eq!(seen(Side::Base), [3, 53, 11, 0, 0]);
    assert_eq!(seen(Side::Change), [4, 6, 12, 1, 1]);
    let append = "fs-append:fsync=1";
    let checksums = |side| executed(&out, side, append, "crc");
    let (with, without) = (checksums(Side::Change), checksums(Side::Base));
    assert!(executed(&out, Side::Base, append, "ext4_") > 0 && with > 10 * without.max(1));
    // The CPU has an instruction for them, and its module is loaded on both sides.
    for plain in ["crc32_body", "crc32c_le", "__crc32c_le", "crc32_le"] {
        assert_eq!(executed(&out, Side::Change, append, plain), 0, "{plain}");
    }
    // The report shows what differs, and both are asked for again.
    let shown = run(ktax().current_dir(path).args(["report", "out"])).stdout;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "crc32c by crc32c-intel",
        "file=old.conf:conf",
        "zram num_devices=3",
        "metadata_csum",
        "swappiness=12",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let mail = run(ktax().current_dir(path).args(["report", "out", "--format", "mail"])).stdout;
    let mail = mail.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ");
    for words in [
        "--base-set vm.swappiness=11",
        "--change-module 'zram num_devices=3'",
        "--base-file old.conf:conf",
        "--change-disk ext4",
        "-w fs-append:fsync=1",
    ] {
        assert!(mail.contains(words), "{words}: {mail}");
    }
}

#[test]
fn a_side_that_cannot_be_set_up_fails_alone_and_says_why() {
    let dir = scratch();
    let ran = run(ktax()
        .current_dir(dir.path())
        .args(["compare", "--kernel", KERNEL, "--layouts", "1", "--json", "--out", "out"])
        .args(["--base-boot-line", QUICK_BOOT, "--change-boot-line", QUICK_BOOT])
        .args(["--change-set", "kernel.no_such_setting=1", "-w", "getppid"]));
    assert_eq!(ran.status, 69, "{}", ran.stderr);
    let comparison = printed::comparison(&ran.stdout);
    let failures = &row(&comparison, "getppid").failures;
    assert_eq!((failures.len(), failures[0].side), (1, Side::Change));
    let Failure::Refused { message } = &failures[0].failure else { panic!("{failures:?}") };
    let file = "failed to write 1 to /proc/sys/kernel/no_such_setting: No such file";
    assert!(message.contains(file), "{message}");
}
