use std::fs;
use std::process::Command;

use ktax::model::{TimedComparison, TimedVerdict};

use crate::common::{self, cache, run, scratch};

/// `ktax ARGUMENTS` in a mount namespace in which the kernel's names of this boot and of its boot
/// line are others.
fn booted(boot_id: &std::path::Path, arguments: &[&str]) -> common::Ran {
    let script = "mount --bind \"$0\" /proc/sys/kernel/random/boot_id && \
                  mount --bind \"$0\" /proc/cmdline && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(boot_id).arg(env!("CARGO_BIN_EXE_ktax"));
    run(command.args(arguments).env("KTAX_CACHE", cache()))
}

#[test]
fn a_side_is_measured_in_a_boot_of_its_own() {
    let dir = scratch();
    let out = dir.path().join("run");
    let out = out.to_str().unwrap();
    let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
    fs::write(&one, "11111111-0000-4000-8000-000000000000\n").unwrap();
    fs::write(&two, "22222222-0000-4000-8000-000000000000\n").unwrap();
    if booted(&one, &["--version"]).status != 0 {
        println!("skipped: no mount namespaces here");
        return;
    }
    let kernels = ["--base-set", "kernel=old", "--change-set", "kernel=new"];
    let rows = ["--engine", "host", "--loops", "1", "-w", "control-planted:ops=50"];
    let compare = [&["compare"], &rows[..], &kernels[..], &["--out", out]].concat();
    let refused = booted(&one, &compare);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("--side base"), "{}", refused.stderr);
    let planned = booted(&one, &[&["plan"], &rows[..], &kernels[..], &["--out", out]].concat());
    assert_eq!(planned.status, 0, "{}", planned.stderr);
    assert!(planned.stderr.contains("--side base"), "{}", planned.stderr);
    for (boot, arguments, status, said) in [
        (&one, &["run", out][..], 2, "say which side"),
        (&one, &["run", out, "--side", "base", "--peek"], 2, "leave --peek out"),
        (&one, &["analyse", out], 2, "no pair yet"),
        (&one, &["run", out, "--side", "base"], 0, "next by lot"),
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
    let comparison: TimedComparison = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(comparison.plan.title, "old against new");
    assert!(comparison.rows[0].ns.change.is_some(), "{comparison:?}");
    assert_eq!(comparison.rows[0].verdict, TimedVerdict::Inconclusive);
}
