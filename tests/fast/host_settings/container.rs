//! Settings that are mounted read-only, as in most containers.

use std::fs;
use std::process::Command;

use crate::common::{Need, Ran, ktax, own, require, run, scratch};
use rustix::process::getuid;

/// `ktax ARGUMENTS` where settings are mounted as in a container.
fn in_a_container(arguments: &[&str]) -> Ran {
    let script = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && \
                  exec \"$0\" \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_ktax")]);
    run(own(command.args(arguments)))
}

#[test]
fn root_is_not_enough_where_settings_are_read_only() {
    let can = getuid().is_root() && in_a_container(&["--version"]).status == 0;
    if !require(Need::Root, can, "this user cannot mount settings read-only") {
        return;
    }
    let of_root = |ran: Ran| {
        let findings: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
        let root = findings.into_iter().find(|finding| finding["what"] == "root").unwrap();
        (root["ok"] == true, root["found"].to_string())
    };
    let look = ["doctor", "--qemu", "/nonexistent", "--json"];
    let may = fs::File::options().write(true).open("/proc/sys/kernel/panic").is_ok();
    assert_eq!(of_root(run(ktax().args(look))).0, may);
    let (ok, found) = of_root(in_a_container(&look));
    assert!(!ok && found.contains("Read-only file system"), "{found}");
    let dir = scratch();
    let out = dir.path().join("out");
    let compare = ["compare", "--engine", "host", "-w", "getppid", "--change-set"];
    let options = ["vm.swappiness=1", "--out", out.to_str().unwrap()];
    let ran = in_a_container(&[&compare[..], &options].concat());
    assert!(ran.status == 1 && ran.stderr.contains("read-only here"), "{ran:?}");
}
