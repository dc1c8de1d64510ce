//! File systems and modules of the guest.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ktax::model::{AWAITED, Comparison, Failure, Side, Verdict};

use crate::common::files::script;
use crate::common::{KERNEL, Ran, compare, ktax, open_counts, row, run, scratch, with_status};

const FSYNC: &str = "fs-append:fsync=1";

fn header_of(dir: &Path) -> String {
    run(ktax().current_dir(dir).args(["report", "out"])).stdout
}

fn on_disk(dir: &Path, more: &[&str]) -> (Ran, Comparison) {
    let args = [&["--layouts", "1", "--memory", "512"], more].concat();
    compare(&dir.join("out"), [""; 2], &args)
}

/// Whether a row executed a function whose name begins like this.
fn executed(dir: &Path, row: &str, prefix: &str) -> bool {
    let dir = open_counts(&dir.join("out")).unwrap();
    let profile = dir.profile(&dir.plan().method.steps[0], row).unwrap();
    profile.lines.iter().any(|line| line.function.starts_with(prefix))
}

#[test]
fn rows_and_programs_have_their_files_on_the_disk() {
    let dir = scratch();
    let dir = dir.path();
    let rows = ["-w", "fs-append", "-w", "fs-rename", "-w", "getppid"];
    let program = ["--", "sh", "-c", "echo text >/tmp/file"];
    let comparison =
        with_status(0, on_disk(dir, &[&["--disk", "ext4"], &rows[..], &program].concat()));
    for row in &comparison.rows {
        assert_eq!(row.verdict, Verdict::NoDetectedChange, "{row:?}");
        let effect = &row.effects()[0];
        assert_eq!(effect.samples.get(Side::Base), effect.samples.get(Side::Change), "{row:?}");
    }
    for name in ["fs-append:fsync=0", "fs-append:fsync=1", "fs-rename", "program:sh"] {
        assert!(executed(dir, name, "ext4_"), "{name}");
    }
    assert!(executed(dir, "fs-append:fsync=1", "jbd2_"));
    assert!(!executed(dir, "getppid", "ext4_") && !executed(dir, "fs-rename", "shmem_"));
    // The journal's thread commits what an fsync waits for; getppid waits for none.
    let awaited =
        |name: &str| row(&comparison, name).effect(AWAITED).map_or(0.0, |effect| effect.base);
    let process = row(&comparison, "fs-append:fsync=1").effects()[0].base;
    assert!(awaited("fs-append:fsync=1") > process / 2.0, "{comparison:?}");
    assert_eq!([awaited("fs-append:fsync=0"), awaited("getppid")], [0.0; 2]);
    assert!(header_of(dir).contains("Kernel threads that rows wait for"), "{}", header_of(dir));
    let explained = run(ktax().current_dir(dir).args(["report", "out", "--explain", FSYNC])).stdout;
    let of_threads = explained.split("of kernel threads that it waits for").nth(1).unwrap();
    assert!(of_threads.contains("jbd2_journal_commit_transaction"), "{explained}");
    let again = run(ktax().current_dir(dir).args(["report", "out", "--format", "mail"]));
    let again: Vec<&str> = again.stdout.split_whitespace().filter(|word| *word != "\\").collect();
    let again = again.join(" ");
    assert!(again.contains("--disk ext4") && again.contains("-- sh -c"), "{again}");
    let header = run(ktax().current_dir(dir).args(["report", "out"]));
    for words in [" · modules brd, ext4 · ", " · disk ext4, 320 MiB on brd"] {
        assert!(header.stdout.replace('\n', " ").contains(words), "{}", header.stdout);
    }
}

#[test]
#[ignore = "boots two guests of its own: make test-long"]
fn a_program_has_its_own_files_on_the_disk_as_they_were() {
    let dir = scratch();
    let dir = dir.path();
    fs::create_dir_all(dir.join("deep/er")).unwrap();
    fs::write(dir.join("deep/er/file"), "text\n").unwrap();
    symlink("er/file", dir.join("deep/link")).unwrap();
    script(dir, "deep/tool", "#!/bin/sh\n");
    let checks = "read line <deep/link; test $line = text && test -h deep/link && \
        test -x deep/tool && test ! deep/er -nt deep/tool && echo text >copy";
    let file = dir.join("deep").display().to_string() + ":deep";
    let program = ["--disk", "ext4", "--file", &file, "--", "sh", "-c", checks];
    with_status(0, on_disk(dir, &program));
    assert!(executed(dir, "program:sh", "ext4_create"));
    // Without the disk it is in memory.
    let other = scratch();
    let (ran, _) =
        compare(&other.path().join("out"), [""; 2], &[&["--layouts", "1"], &program[2..]].concat());
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(!executed(other.path(), "program:sh", "ext4_"));
}

#[test]
fn modules_are_loaded_with_their_dependencies_or_named() {
    let dir = scratch();
    let dir = dir.path();
    // veth is needed by nothing here; nf_tables needs others.
    let comparison = with_status(
        0,
        on_disk(
            dir,
            &["--module", "nf_tables", "--module", "zram num_devices=3", "--", "sh", "-c", SHOW],
        ),
    );
    assert_eq!(row(&comparison, "program:sh").verdict, Verdict::NoDetectedChange);
    let dir = scratch();
    let words = ["--module", "zram num_devices=many", "-w", "getppid"];
    let comparison = with_status(69, on_disk(dir.path(), &words));
    let failure = &row(&comparison, "getppid").failures[0].failure;
    let Failure::Refused { message } = failure else { panic!("{failure:?}") };
    assert_eq!(message, "the module zram cannot be loaded: Invalid argument");
}

/// Fails unless the modules are there, as they were asked for.
const SHOW: &str = "set -e; test -b /dev/zram2; test ! -e /dev/zram3; \
                    while read -r name rest; do test $name = nf_tables && exit 0; done \
                    </proc/modules; exit 1";

#[test]
fn what_cannot_be_made_or_loaded_is_named_before_a_boot() {
    for (words, reason) in [
        (&["--disk", "ext5"][..], "choose ext4, xfs, btrfs, f2fs, overlay or tmpfs"),
        (&["--disk", "ext4 size=3"], "is not a key of a disk"),
        (&["--module", "no-such-module"], "contains no module no-such-module.ko"),
        (&["--engine", "kvm", "--disk", "ext4"], "--disk"),
    ] {
        let dir = scratch();
        let ran = run(ktax()
            .args(["compare", "--same", "--kernel", KERNEL, "-w", "getppid", "--out"])
            .arg(dir.path().join("out"))
            .args(words));
        assert!(ran.status == 2 || ran.status == 65, "{words:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{words:?}: {}", ran.stderr);
    }
}
