//! Nothing hangs, nothing lies: every way in which a guest, a kernel file, QEMU or the disk can
//! fail gives a typed Failure, a message that ends with the next step, the right exit code, and no
//! orphan.

use std::fs;
use std::path::Path;
use std::time::Instant;

use ktax::model::{Comparison, Failure, Verdict};
use rustix::process::Signal;

use crate::common::mounts::{in_namespace, may_mount};
use crate::common::{
    self, KERNEL, Loops, QUICK_BOOT, Ran, assert_no_orphans, compare, counts_plan, ktax, own_cache,
    printed, row, run, scratch, with_status,
};

/// Compares one kernel with itself over some rows, one layout, and returns what each Side's failure
/// is.
fn failures(words: [&str; 2], rows: &[&str], more: &[&str]) -> (Ran, Comparison) {
    let dir = scratch();
    let mut args: Vec<&str> = rows.iter().flat_map(|row| ["-w", row]).collect();
    args.extend(["--layouts", "1"]);
    args.extend(more);
    let result = compare(&dir.path().join("out"), words, &args);
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
        Failure::Garbled { .. } | Failure::NoAnswer { .. }
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
fn a_guest_that_never_ends_is_stopped_in_cpu_and_in_virtual_time() {
    // The boot is made here, without a limit.
    failures(["", ""], &["getppid:ops=1"], &[]);
    let (ran, comparison) = failures(["", ""], &["bad-hang"], &["--time-limit", "2"]);
    assert_eq!(ran.status, 69);
    let hang = failure(&comparison, "bad-hang");
    assert_eq!(*hang, Failure::CpuTime { limit_s: 2 });
    assert!(hang.next_step().contains("--time-limit 10;"), "{}", hang.next_step());
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
    let stopped =
        [Failure::CpuTime { limit_s: 4 }, Failure::CpuTime { limit_s: 4 }.without_output()];
    for failed in &row(&comparison, "getppid").failures {
        assert!(stopped.contains(&failed.failure), "{failed:?}");
    }
    assert_eq!(row(&comparison, "getppid").failures.len(), 2);
    // While the guest sleeps, virtual time passes quickly.
    let (_, comparison) = failures(["", "ktax.never=2"], &["getppid"], &[]);
    assert_eq!(*failure(&comparison, "getppid"), Failure::VirtualTime { limit_s: 300 });
    assert_eq!(row(&comparison, "getppid").failures.len(), 1);
}

#[test]
fn what_a_failure_tells_to_read_is_there() {
    let dir = scratch();
    let out = dir.path().join("out");
    let rows = ["-w", "bad-panic", "-w", "bad-garbage", "--layouts", "1"];
    compare(&out, ["", "rdinit=/nothing"], &rows);
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
fn a_missing_and_a_dying_qemu_have_different_errors() {
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
    ran.says("name a working QEMU with --qemu or KTAX_QEMU");
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
    let ran = run(ktax().args(args)).exits(2);
    ran.says("--out");
}

//

#[test]
#[ignore = "keeps all CPUs busy: make test-long"]
fn a_busy_machine_fails_no_boot_and_no_run() {
    let dir = scratch();
    let cache = own_cache(dir.path()).display().to_string();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let of_alone = scratch();
    let alone = own_cache(of_alone.path()).display().to_string();
    let started = Instant::now();
    failures(["", ""], &["getppid"], &["--jobs", "1", "--cache", &alone]);
    // Both boots alone fit into this; among eight loops on each CPU, one boot alone takes longer.
    let limit_s = (1 + started.elapsed().as_secs()).to_string();
    let _loops = Loops::start(8 * cpus);
    let more = ["--time-limit", &limit_s, "--jobs", "1", "--cache", &cache];
    let comparison = with_status(0, failures(["", ""], &["getppid"], &more));
    assert_eq!(row(&comparison, "getppid").verdict, Verdict::NoDetectedChange);
}

// A disk that is full is said, with what to free.

/// The SHA-256 of the kernel that the tests boot.
fn cached_image() -> String {
    let planned = run(ktax().args(["plan", "--same", "-w", "getppid", "--kernel", KERNEL]));
    counts_plan(&planned.stdout).kernels.base.sha256
}

#[test]
fn a_full_disk_is_a_failure_with_the_next_step() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let image = cached_image();
    let (ktax, small) = (env!("CARGO_BIN_EXE_ktax"), dir.path().join("small"));
    fs::create_dir(&small).unwrap();
    // A mount of our own, gone with the process. The kernels fit, a snapshot does not.
    let run_in = |size: &str, ktax_args: &str| {
        let script = format!(
            "mount -t tmpfs -o size={size} none \"$2\" && mkdir \"$2/kernels\" && \
             cp -a \"$3/{image}\" \"$3/by-package\" \"$2/kernels\" && \
             \"$1\" {ktax_args} --same --kernel debian:cloud-amd64 -w getppid \
             --cache \"$2\" --out \"$4\""
        );
        let kernels = common::cache().join("kernels");
        in_namespace(&script, &[Path::new(ktax), &small, &kernels, &dir.path().join(size)])
    };
    let ran = run_in("80m", "compare --layouts 1").exits(1);
    assert!(ran.stdout.contains("too full"), "{}", ran.stdout);
    assert!(ran.stdout.contains("free 2 GiB"), "{}", ran.stdout);
    let again = format!("again with `ktax run {}`", dir.path().join("80m").display());
    ran.says(&again);
    // If there is no space for apt's index, ktax does without it.
    run_in("40m", "plan").exits(0);
}

#[test]
fn a_kernel_that_does_not_fit_is_no_trouble_of_the_network() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let (ktax, small) = (env!("CARGO_BIN_EXE_ktax"), dir.path().join("small"));
    let tools = dir.path().join("tools");
    fs::create_dir(&small).unwrap();
    fs::create_dir(&tools).unwrap();
    let stanza = "Package: linux-image-x\nVersion: 1\nArchitecture: amd64\n";
    // apt quotes the C library as dd does.
    let download = "case \"$*\" in *print-uris*) exit 0;; esac\n\
         dd if=/dev/zero of=x.deb bs=1M count=8 || exit 100";
    for (name, does) in [("apt-cache", format!("printf '{stanza}'")), ("apt-get", download.into())]
    {
        fs::write(tools.join(name), format!("#!/bin/sh\n{does}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(tools.join(name), executable).unwrap();
    }
    let image = common::cache().join("kernels").join(cached_image()).join("image");
    let image = image.display().to_string();
    for kernel in ["debian:linux-image-x", &image] {
        let script = "mount -t tmpfs -o size=1m none \"$2\" && PATH=\"$3:$PATH\" \
             \"$1\" plan --same -w getppid --kernel \"$4\" --cache \"$2\"";
        let ran =
            in_namespace(script, &[Path::new(ktax), &small, &tools, Path::new(kernel)]).exits(1);
        let path = small.join("kernels").display().to_string();
        for words in
            [path.as_str(), "No space left on device", "free 2 GiB", "`ktax cache clean --all`"]
        {
            assert!(ran.stderr.contains(words), "{kernel}: {words}: {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("network"), "{}", ran.stderr);
    }
}

#[test]
fn results_that_do_not_fit_end_the_run_with_the_next_step() {
    if !may_mount() {
        return;
    }
    let dir = scratch();
    let (ktax, small) = (env!("CARGO_BIN_EXE_ktax"), dir.path().join("small"));
    fs::create_dir(&small).unwrap();
    compare(&dir.path().join("warm"), ["", ""], &["-w", "getppid", "--layouts", "1"]);
    let script = "mount -t tmpfs -o size=24k none \"$2\" && \
         \"$1\" compare --same --kernel debian:cloud-amd64 \
         -w getppid -w pipe -w fork-exec --layouts 1 --cache \"$3\" --out \"$2/out\"";
    let ran = in_namespace(script, &[Path::new(ktax), &small, &common::cache()]).exits(1);
    ran.says("space");
    assert_no_orphans(dir.path());
}

// A boot that the host lost is made again, and one that must fail is made once.

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
    // Each signal needs a boot line that nobody has booted yet.
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
