//! A KVM host waits until its kernel is idle before it is frozen, and names who never is.

use std::process::Command;

use ktax::kvmhost::FREEZE_PATH;
use rustix::process::getuid;

use crate::common::{Need, require, run};

/// What the host's program says after this shell command, in a PID namespace of its own: nobody
/// else's tasks are there, and none outlives it.
fn quiet_after(shell: &str) -> Option<String> {
    let unshared = if getuid().is_root() { "-pf" } else { "-rpf" };
    let within = |script: &str| {
        let mut command = Command::new("unshare");
        command.args([unshared, "--mount-proc", "sh", "-c", script, FREEZE_PATH]);
        run(&mut command)
    };
    let can = within("true").status == 0;
    if !require(Need::Namespaces, can, "this user cannot make a PID namespace") {
        return None;
    }
    let ran = within(&format!("{shell} exec \"$0\" quiet"));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""), "{ran:?}");
    Some(ran.stdout)
}

#[test]
fn a_host_that_is_never_idle_names_who_runs() {
    let Some(said) = quiet_after("while :; do :; done &") else { return };
    assert_eq!(said, "sh\n");
}
