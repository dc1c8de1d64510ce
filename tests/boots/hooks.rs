//! Hooks before the guest is frozen and before each run, and the numbers that a program prints.

use std::fs;
use std::path::Path;

use ktax::model::{Comparison, Failure, Outcome, Run, Sample, Side, Verdict};

use crate::common::files::script;
use crate::common::{
    KERNEL, MEANINGLESS, QUICK_BOOT, Ran, compare, executed, ktax, open_counts, printed, row, run,
    scratch, with_status,
};
use crate::program::measured;

fn compared(dir: &Path, more: &[&str]) -> (Ran, Comparison) {
    compare(&dir.join("out"), [""; 2], &[&["--layouts", "1"], more].concat())
}

/// Sample of the first boot of a run directory.
fn sample(dir: &Path, row: &str) -> Sample {
    let dir = open_counts(&dir.join("out")).unwrap();
    let run: Run = dir.run(&dir.plan().method.steps[0], row).unwrap().unwrap();
    match run.outcome {
        Outcome::Measured(sample) => sample,
        Outcome::Failed(failure) => panic!("{failure}"),
    }
}

#[test]
fn hooks_run_once_before_the_freeze_and_before_each_run_and_are_not_counted() {
    let dir = scratch();
    let count = "echo lines: $(wc -l < state)";
    let hooks = ["--setup", "echo set up > state", "--prepare", "echo prepared >> state"];
    let program = ["--warm-up", "3", "--number", "lines=lines", "--", "sh", "-c", count];
    with_status(0, compared(dir.path(), &[&hooks[..], &program].concat()));
    let with = sample(dir.path(), "program:sh");
    assert_eq!(with.signature["lines"], 2);
    // A hook that works for long costs the row nothing.
    let other = scratch();
    let long = "echo prepared >> state; i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done";
    let hooks = ["--setup", "echo set up > state", "--prepare", long];
    with_status(0, compared(other.path(), &[&hooks[..], &program].concat()));
    let other = sample(other.path(), "program:sh");
    assert_eq!(other.signature, with.signature);
    assert!(other.total.abs_diff(with.total) < with.total / 10, "{} {}", other.total, with.total);
}

#[test]
#[ignore = "boots a guest of its own: make test-long"]
fn hooks_of_rows_change_what_a_row_costs() {
    let [without, with] = [scratch(), scratch()];
    let setup = ["--setup", "echo 1 > /proc/sys/kernel/sched_schedstats"];
    compared(without.path(), &["-w", "pipe"]);
    let (ran, comparison) = compared(with.path(), &[&["-w", "pipe"], &setup[..]].concat());
    assert_eq!(row(&comparison, "pipe").verdict, Verdict::NoDetectedChange);
    let [without, with] = [without.path(), with.path()].map(|dir| sample(dir, "pipe").total);
    assert!(with > without, "{with} {without}");
    ran.says("everything is in");
}

#[test]
fn a_failed_hook_is_reported_and_ends_the_run() {
    let dir = scratch();
    let comparison = with_status(
        69,
        compared(dir.path(), &["-w", "getppid", "--setup", "echo sorry >&2; exit 7"]),
    );
    let failure = row(&comparison, "getppid").failures[0].failure.to_string();
    assert!(failure.contains("set-up") && failure.contains("expected 0: sorry"), "{failure}");
    let report = run(ktax().arg("report").arg(dir.path().join("out"))).stdout;
    let words: Vec<&str> = report.split_whitespace().collect();
    assert!(words.join(" ").contains("correct the commands of --setup"), "{report}");
    let dir = scratch();
    let hook = ["--prepare", "false", "--", "true"];
    let comparison = with_status(69, compared(dir.path(), &hook));
    match &row(&comparison, "program:true").failures[0].failure {
        Failure::Program { message } => assert!(message.contains("preparation"), "{message}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_row_is_prepared_and_the_functions_of_its_kernel_are_named() {
    let dir = scratch();
    let prepare = ["-w", "getppid", "-w", "stat", "--prepare", "test ! -e /tmp/once && touch once"];
    let comparison = with_status(0, compared(dir.path(), &prepare));
    assert!(executed(&dir.path().join("out"), "stat", "vfs_statx") > 0, "{comparison:?}");
}

#[test]
fn what_is_more_than_its_first_digits_is_no_number() {
    let dir = scratch();
    let path = dir.path();
    let printed = ["1,024", "2e9", "99999999999999999999", "many", "12. 7, 1-2"];
    let text: String =
        printed.iter().enumerate().map(|(n, text)| format!("echo n{n}: {text}\n")).collect();
    script(path, "prints.sh", &format!("#!/bin/sh\n{text}"));
    let program_text = |n: usize| {
        format!(
            "[[program]]\ncommand = [\"./prints.sh\"]\nname = \"n{n}\"\n\
             numbers = {{ n = \"n{n}\" }}\n"
        )
    };
    let programs: String = (0..printed.len()).map(program_text).collect();
    let (_, comparison) = measured(path, &programs, &[]);
    let failure_of =
        |n: usize| row(&comparison, &format!("program:n{n}")).failures[0].failure.to_string();
    for n in 0..2 {
        assert!(failure_of(n).contains("no whole number of plain digits"), "{}", failure_of(n));
    }
    assert!(
        failure_of(2).contains("too large a number") && failure_of(3).contains("printed no number")
    );
    assert_eq!(sample(path, "program:n4").signature["n"], 12);
}

#[test]
fn numbers_that_a_program_prints_are_its_work_and_its_operations() {
    let dir = scratch();
    let path = dir.path();
    script(
        path,
        "prints.sh",
        "#!/bin/sh\nread line < /proc/cmdline\necho \"$line\"\n\
        echo operations: 40, rows = 7\n",
    );
    let program = path.join("prints.sh").display().to_string();
    let compared = |name: &str, more: &[&str]| {
        fs::create_dir(path.join(name)).unwrap();
        let words = [&["--layouts", "1"], more, &["--", &program]].concat();
        compare(&path.join(name).join("out"), ["", MEANINGLESS], &words)
    };
    let (_, other) = compared("other", &["--number", "rows=rows"]);
    let other = row(&other, "program:prints-sh");
    assert_eq!(other.verdict, Verdict::DifferentWork);
    let any = ["--any-output", "--ops-from", "operations", "--number", "rows=rows"];
    let (_, any_output) = compared("any", &any);
    let any_output = row(&any_output, "program:prints-sh");
    assert_eq!(any_output.ops, 40);
    let effect = &any_output.effects()[0];
    let raw = effect.samples.get(Side::Base)[0];
    assert!((effect.base * 40.0 - raw as f64).abs() < 1.0, "{effect:?}");
    let signature = sample(&path.join("any"), "program:prints-sh").signature;
    assert_eq!((signature["rows"], signature["ops"]), (7, 40));
    assert!(!signature.contains_key("stdout"));
    // The user can check the values here.
    let seen = any_output.counts().unwrap().observed_values.as_ref().unwrap();
    assert_eq!((seen.base["rows"], seen.change["ops"]), (7, 40));
    let (ran, missing) = compared("missing", &["--any-output", "--number", "rows=columns"]);
    assert_eq!(ran.status, 69);
    let failure = row(&missing, "program:prints-sh").failures[0].failure.to_string();
    assert!(failure.contains("no number behind columns"), "{failure}");
}

#[test]
#[ignore = "three more boots: make test-long"]
fn a_disk_may_compress_and_may_take_its_time() {
    let dir = scratch();
    let measured_on = |name: &str, device: &str| {
        let subject = format!("{{ kernel = \"{KERNEL}\", boot_line = \"{QUICK_BOOT}\" }}");
        let text = format!(
            "title = \"t\"\nsame = true\nlayouts = 1\nworkloads = [\"fs-append:fsync=1\"]\n\
             base = {subject}\nchange = {subject}\n\
             disk = {{ fs = \"ext4\", mib = 32, {device} }}\n"
        );
        let file = dir.path().join(format!("{name}.toml"));
        fs::write(&file, text).unwrap();
        let out = dir.path().join(name).join("out");
        fs::create_dir(dir.path().join(name)).unwrap();
        let ran = run(ktax().args(["compare", "--out"]).arg(&out).arg(&file));
        assert_eq!(ran.status, 0, "{name}: {}{}", ran.stdout, ran.stderr);
        sample(&dir.path().join(name), "fs-append:fsync=1")
    };
    let fast = measured_on("fast", "device = \"null_blk\"");
    let slow = measured_on("slow", "device = \"null_blk\", latency_us = 200");
    // Each of the syncs waits for its requests, on the guest's clock.
    assert!(slow.tsc > fast.tsc + fast.ops * 200_000, "{} {}", slow.tsc, fast.tsc);
    measured_on("zram", "device = \"zram\"");
    assert!(executed(&dir.path().join("zram/out"), "fs-append:fsync=1", "zram_") > 0);
    assert!(executed(&dir.path().join("slow/out"), "fs-append:fsync=1", "null_") > 0);
}

// Resources of only one side's guest: settings, modules, a disk, files and a setup.

/// Sample of a side under the first layout.
fn sample_of_side(out: &Path, side: Side, row: &str) -> Sample {
    let dir = open_counts(out).unwrap();
    let steps = &dir.plan().method.steps;
    let step = steps.iter().find(|step| step.side == side && step.layout == 0).unwrap();
    let run: Run = dir.run(step, row).unwrap().unwrap();
    match run.outcome {
        Outcome::Measured(sample_of_side) => sample_of_side,
        Outcome::Failed(failure) => panic!("{failure}"),
    }
}

/// Instructions that a side executed in functions whose names begin like this.
fn executed_on(out: &Path, side: Side, row: &str, prefix: &str) -> u64 {
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
        let signature = sample_of_side(&out, side, "program:sh").signature;
        names.map(|name| signature[name])
    };
    assert_eq!(seen(Side::Base), [3, 53, 11, 0, 0]);
    assert_eq!(seen(Side::Change), [4, 6, 12, 1, 1]);
    let append = "fs-append:fsync=1";
    let checksums = |side| executed_on(&out, side, append, "crc");
    let (with, without) = (checksums(Side::Change), checksums(Side::Base));
    assert!(executed_on(&out, Side::Base, append, "ext4_") > 0 && with > 10 * without.max(1));
    // The CPU has an instruction for them, and its module is loaded on both sides.
    for plain in ["crc32_body", "crc32c_le", "__crc32c_le", "crc32_le"] {
        assert_eq!(executed_on(&out, Side::Change, append, plain), 0, "{plain}");
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
    let comparison = printed::comparison(
        &run(ktax()
            .current_dir(dir.path())
            .args(["compare", "--kernel", KERNEL, "--layouts", "1", "--json", "--out", "out"])
            .args(["--base-boot-line", QUICK_BOOT, "--change-boot-line", QUICK_BOOT])
            .args(["--change-set", "kernel.no_such_setting=1", "-w", "getppid"]))
        .exits(69)
        .stdout,
    );
    let failures = &row(&comparison, "getppid").failures;
    assert_eq!((failures.len(), failures[0].side), (1, Side::Change));
    let Failure::Refused { message } = &failures[0].failure else { panic!("{failures:?}") };
    let file = "failed to write 1 to /proc/sys/kernel/no_such_setting: No such file";
    assert!(message.contains(file), "{message}");
}
