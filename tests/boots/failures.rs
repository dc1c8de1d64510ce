//! Nothing hangs, nothing lies: every way in which a guest, a kernel file, QEMU or the disk can
//! fail gives a typed Failure, a message that ends with the next step, the right exit code, and no
//! orphan.

mod busy;
mod disk;
mod lost;

use std::fs;

use crate::common::{
    KERNEL, QUICK_BOOT, Ran, assert_no_orphans, compare, ktax, own_cache, row, run, scratch,
};
use ktax::model::{Comparison, Failure, Verdict};

/// Compares one kernel with itself over some rows, one layout, and returns what each Side's failure
/// is.
fn failures(lines: [&str; 2], rows: &[&str], more: &[&str]) -> (Ran, Comparison) {
    let dir = scratch();
    let mut args: Vec<&str> = rows.iter().flat_map(|row| ["-w", row]).collect();
    args.extend(["--layouts", "1"]);
    args.extend(more);
    let lines = lines.map(|line| format!("{QUICK_BOOT} {line}"));
    let result = compare(&dir.path().join("out"), [&lines[0], &lines[1]], &args);
    assert_no_orphans(dir.path());
    result
}

fn failure<'a>(comparison: &'a Comparison, name: &str) -> &'a Failure {
    let row = row(comparison, name);
    assert_eq!(row.verdict, Verdict::Failed, "{row:?}");
    &row.failures[0].failure
}

#[test]
fn every_misbehaving_guest_is_a_failed_row_and_other_rows_stand() {
    let bad = ["bad-garbage", "bad-longline", "bad-silent", "bad-escape", "bad-panic"];
    let together = ["processes=0,threads=9", "processes=9,threads=0", "processes=3,threads=3"]
        .map(|counts| format!("bad-together:{counts}"));
    let together = together.iter().map(String::as_str);
    let rows: Vec<&str> = bad.into_iter().chain(["getppid"]).chain(together.clone()).collect();
    let (ran, comparison) = failures(["", ""], &rows, &[]);
    assert_eq!(ran.status, 69, "{}", ran.stderr);
    assert!(matches!(failure(&comparison, "bad-garbage"), Failure::Garbled { .. }));
    let long = failure(&comparison, "bad-longline");
    assert!(matches!(long, Failure::Garbled { .. } | Failure::Flood { .. }), "{long:?}");
    assert!(matches!(
        failure(&comparison, "bad-silent"),
        Failure::Garbled { .. } | Failure::Silent { .. }
    ));
    assert!(matches!(failure(&comparison, "bad-escape"), Failure::Refused { .. }));
    for row in together {
        assert!(matches!(failure(&comparison, row), Failure::Refused { .. }), "{row}");
    }
    let panic = failure(&comparison, "bad-panic");
    assert!(matches!(panic, Failure::Panic { message } if message.contains("sysrq")), "{panic:?}");
    assert_eq!(row(&comparison, "getppid").verdict, Verdict::NoDetectedChange);
    let escapes = |text: &str| text.bytes().any(|byte| byte < b' ' && byte != b'\n');
    assert!(!escapes(&ran.stdout) && !escapes(&ran.stderr), "{}", ran.stdout);
}

#[test]
fn no_format_lets_an_escape_of_the_guest_through() {
    let dir = scratch();
    let out = dir.path().join("out");
    compare(&out, [QUICK_BOOT; 2], &["-w", "bad-escape", "--layouts", "1"]);
    for format in ["text", "json", "csv", "markdown"] {
        let ran = run(ktax().arg("report").arg(&out).args(["--format", format]));
        assert_eq!(ran.status, 0);
        assert!(!ran.stdout.bytes().any(|byte| byte < b' ' && byte != b'\n'), "{format}");
        assert!(format != "markdown" || !ran.stdout.contains("<script"), "{}", ran.stdout);
    }
}

#[test]
fn a_guest_that_never_ends_is_stopped_in_cpu_and_in_virtual_time() {
    let (ran, comparison) = failures(["", ""], &["bad-hang"], &["--time-limit", "8"]);
    assert_eq!(ran.status, 69);
    let hang = failure(&comparison, "bad-hang");
    assert_eq!(*hang, Failure::CpuTime { limit_s: 8 });
    assert!(hang.next_step().contains("--time-limit 40;"), "{}", hang.next_step());
    let (_, comparison) = failures(["", ""], &["bad-sleep"], &[]);
    assert_eq!(*failure(&comparison, "bad-sleep"), Failure::VirtualTime { limit_s: 300 });
}

#[test]
fn a_kernel_that_panics_at_boot_is_a_failed_row_with_its_own_words() {
    let (ran, comparison) = failures(["", "rdinit=/nothing"], &["getppid"], &[]);
    assert_eq!(ran.status, 69);
    let row = row(&comparison, "getppid");
    assert!(
        matches!(&row.failures[0].failure, Failure::Panic { message } if message.contains("VFS"))
    );
    assert_eq!(row.failures.len(), 1, "the base is fine: {row:?}");
}

#[test]
fn a_panic_that_does_not_end_the_guest_is_named_at_once() {
    // The limit is there so that a panic that is not noticed does not take minutes.
    let more = ["--time-limit", "60"];
    let (ran, comparison) = failures(["panic=0", "panic=0 rdinit=/nothing"], &["bad-panic"], &more);
    assert_eq!(ran.status, 69);
    let failures = row(&comparison, "bad-panic").failures.iter().map(|failed| &failed.failure);
    for (failure, word) in failures.zip(["sysrq", "VFS"]) {
        assert!(
            matches!(failure, Failure::Panic { message } if message.contains(word)),
            "{failure:?}"
        );
    }
}

#[test]
fn a_kernel_that_never_reports_is_stopped() {
    // The guest spins before it says hello. A base with the same limit could be too slow for it.
    let spins = "ktax.never=1";
    let (ran, comparison) = failures([spins, spins], &["getppid"], &["--time-limit", "4"]);
    assert_eq!(ran.status, 69);
    // On a slow machine the kernel itself has not printed a line by then.
    let stopped = [Failure::CpuTime { limit_s: 4 }, Failure::CpuTime { limit_s: 4 }.mute()];
    for failed in &row(&comparison, "getppid").failures {
        assert!(stopped.contains(&failed.failure), "{failed:?}");
    }
    assert_eq!(row(&comparison, "getppid").failures.len(), 2);
    // It sleeps: virtual time flies.
    let (_, comparison) = failures(["", "ktax.never=2"], &["getppid"], &[]);
    assert_eq!(*failure(&comparison, "getppid"), Failure::VirtualTime { limit_s: 300 });
    assert_eq!(row(&comparison, "getppid").failures.len(), 1);
}

#[test]
fn what_a_failure_tells_to_read_is_there() {
    let dir = scratch();
    let out = dir.path().join("out");
    let rows = ["-w", "bad-panic", "-w", "bad-garbage", "--layouts", "1"];
    compare(&out, [QUICK_BOOT, &format!("{QUICK_BOOT} rdinit=/nothing")], &rows);
    let boot = |side: &str| {
        let name = ["000", "001"].map(|index| out.join("boots").join(format!("{index}-{side}")));
        name.into_iter().find(|path| path.exists()).unwrap()
    };
    for (path, word) in [
        (boot("change").join("serial.log"), "VFS"),
        (boot("change").join("argv"), "rdinit=/nothing"),
        (boot("base").join("runs/bad-panic.serial.log"), "sysrq triggered crash"),
        (boot("base").join("runs/bad-garbage.wire.log"), "start bad-garbage"),
    ] {
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        assert!(text.contains(word), "{}: {text}", path.display());
    }
}

#[test]
fn a_mistyped_boot_parameter_is_a_warning() {
    let (ran, comparison) = failures(["", "mitigatons=\"off on\""], &["getppid"], &[]);
    assert!(matches!(ran.status, 0 | 4), "{}", ran.stderr);
    assert_eq!(comparison.warnings.len(), 1, "{comparison:?}");
    let warning = comparison.warnings.iter().find(|w| w.fact.contains("mitigatons=\"off on\""));
    assert!(warning.is_some_and(|warning| warning.fact.contains("change")), "{comparison:?}");
}

#[test]
fn a_first_program_that_says_nothing_is_a_failed_row() {
    // It exits at once, and a kernel without its first program panics.
    let (_, comparison) = failures(["", "rdinit=/bin/hello"], &["getppid"], &[]);
    assert!(matches!(failure(&comparison, "getppid"), Failure::Panic { .. }));
}

#[test]
fn other_work_gets_no_verdict() {
    let (ran, comparison) = failures(["ktax.value=1", "ktax.value=2"], &["bad-sig"], &[]);
    assert_eq!(ran.status, 4, "{comparison:?}");
    let row = row(&comparison, "bad-sig");
    assert_eq!(row.verdict, Verdict::DifferentWork);
    assert!(row.reason.as_ref().unwrap().contains("value"), "{row:?}");
    let (ran, _) = failures(["ktax.value=1", "ktax.value=1"], &["bad-sig"], &[]);
    assert_eq!(ran.status, 0);
}

#[test]
fn a_missing_and_a_dying_qemu_are_told_apart() {
    let dir = scratch();
    let ran = run(ktax().args([
        "plan",
        "--same",
        "-w",
        "pipe",
        "--kernel",
        KERNEL,
        "--qemu",
        "/nonexistent",
    ]));
    assert_eq!(ran.status, 69);
    assert!(ran.stderr.contains("apt-get install qemu-system-x86"), "{}", ran.stderr);
    let fake = dir.path().join("qemu");
    let version = "[ \"$1\" = --version ] && exec qemu-system-x86_64 --version";
    fs::write(&fake, format!("#!/bin/sh\n{version}\necho 'no such device' >&2\nexit 1\n")).unwrap();
    fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let fake = fake.display().to_string();
    let cache = own_cache(dir.path()).display().to_string();
    let more = ["--qemu", fake.as_str(), "--cache", cache.as_str()];
    let (ran, comparison) = failures(["", ""], &["pipe"], &more);
    assert_eq!(ran.status, 69);
    let found = failure(&comparison, "pipe");
    assert!(
        matches!(found, Failure::QemuDied { stderr, .. } if stderr == "no such device"),
        "{found:?}"
    );
}

#[test]
fn an_output_that_cannot_be_written_is_refused_with_the_next_step() {
    let args = ["plan", "--same", "-w", "pipe", "--kernel", KERNEL, "--out", "/dev/null/out"];
    let ran = run(ktax().args(args));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("--out"), "{}", ran.stderr);
}
