//! File systems of a test's own, in namespaces of its own: gone with the process.

use std::ffi::OsStr;
use std::process::Command;

use super::require::{Need, require};
use super::{Ran, isolate, run};

/// Whether this user may mount there.
#[track_caller]
pub fn may_mount() -> bool {
    let may = in_namespace("mount -t tmpfs none /mnt", &[] as &[&str]).status == 0;
    require(Need::Namespaces, may, "this user cannot mount in a namespace of its own")
}

/// Runs a shell script that may mount, with these arguments from `$1` on.
pub fn in_namespace(script: &str, arguments: &[impl AsRef<OsStr>]) -> Ran {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    run(isolate(&mut command).args(arguments))
}
