use std::fs;
use std::process::Command;

use ktax::model::Verdict;

use crate::common::{self, Need, own, printed, require, run, scratch};

/// `ktax ARGUMENTS` in a mount namespace in which the kernel's names of this boot and of its boot
/// line are others.
fn booted(boot_id: &std::path::Path, arguments: &[&str]) -> common::Ran {
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && \
                  mount --bind \"$0\" /proc/cmdline && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(boot_id).arg(env!("CARGO_BIN_EXE_ktax"));
    run(own(command.args(arguments)))
}

/// A ktax of this machine's that changes settings holds the lock of the usual state directory.
#[test]
fn another_ktax_that_changes_this_machine_is_nothing_to_the_tests() {
    let dir = scratch();
    let script = "mount -t tmpfs none /var/lib && mkdir -m 755 /var/lib/ktax && \
                  echo {} >/var/lib/ktax/journal.json && exec flock /var/lib/ktax/lock \"$@\"";
    let quick = ["--same", "--engine", "host", "--loops", "1", "-w", "control-planted:ops=50"];
    let beside = |name: &str, state: &str| {
        let mut command = Command::new("unshare");
        own(&mut command).args(["-m", "sh", "-c", script, "sh", "env", state]);
        command.arg(env!("CARGO_BIN_EXE_ktax")).arg("compare").args(quick);
        run(command.args(["--pairs", "10", "--out"]).arg(dir.path().join(name)))
    };
    let can_mount = Command::new("unshare").args(["-m", "true"]).status();
    let can_mount = can_mount.is_ok_and(|status| status.success());
    if !require(Need::Namespaces, can_mount, "this user cannot mount in a namespace of its own") {
        return;
    }
    let ran = beside("tests", "LANG=C");
    assert!(matches!(ran.status, 0 | 3 | 4), "{ran:?}");
    let ran = beside("usual", "--unset=KTAX_STATE");
    assert!(ran.status == 2 && ran.stderr.contains("another ktax"), "{ran:?}");
}

#[test]
fn a_side_is_measured_in_a_boot_of_its_own() {
    let dir = scratch();
    let out = dir.path().join("run");
    let out = out.to_str().unwrap();
    let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
    fs::write(&one, "11111111-0000-4000-8000-000000000000\n").unwrap();
    fs::write(&two, "22222222-0000-4000-8000-000000000000\n").unwrap();
    let can_mount = booted(&one, &["--version"]).status == 0;
    if !require(Need::Namespaces, can_mount, "this user cannot mount in a namespace of its own") {
        return;
    }
    let kernels = ["--base-set", "kernel=old", "--change-set", "kernel=new"];
    let rows = ["--engine", "host", "--seed", "1", "--loops", "1", "-w", "control-planted:ops=50"];
    let compare = [&["compare"], &rows[..], &kernels[..], &["--out", out]].concat();
    let refused = booted(&one, &compare);
    assert_eq!(refused.status, 2);
    assert!(
        refused.stderr.contains("`plan` for `compare` and with --out DIR"),
        "{}",
        refused.stderr
    );
    let planned = booted(&one, &[&["plan"], &rows[..], &kernels[..], &["--out", out]].concat());
    assert_eq!(planned.status, 0, "{}", planned.stderr);
    assert!(planned.stderr.contains("--side base"), "{}", planned.stderr);
    for (boot, arguments, status, said) in [
        (
            &one,
            &["run", out][..],
            2,
            "the sides are kernels that you boot; boot old and type `ktax run",
        ),
        (&one, &["run", out, "--side", "base", "--peek"], 2, "remove --peek"),
        (&one, &["analyse", out], 2, "no pair yet"),
        (&one, &["run", out, "--side", "base"], 0, "the next block in the randomized order"),
        (&one, &["run", out, "--side", "change"], 2, "reboot first"),
        (&one, &["run", out, "--side", "base"], 2, "reboot first"),
        (&two, &["run", out, "--side", "base"], 2, "boot that one"),
        (&two, &["run", out, "--side", "change"], 0, "ktax analyse"),
        (&two, &["analyse", out], 4, "in"),
    ] {
        let ran = booted(boot, arguments);
        assert_eq!(ran.status, status, "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(said) || status == 4, "{arguments:?}: {}", ran.stderr);
    }
    let report = booted(&two, &["report", "--json", out]);
    let comparison = printed::comparison(&report.stdout);
    assert_eq!(comparison.title, "old against new");
    assert!(comparison.rows[0].times().unwrap().ns.change.is_some(), "{comparison:?}");
    // A machine that is too busy to measure says so first.
    let verdict = comparison.rows[0].verdict;
    assert!(matches!(verdict, Verdict::TooFewBoots | Verdict::Inconclusive), "{comparison:?}");
}
