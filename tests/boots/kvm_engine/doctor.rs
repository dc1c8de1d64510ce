//! What `ktax doctor` finds of this machine's KVM.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{assert_nothing_left, kernel};
use crate::common::kvm::has_kvm;
use crate::common::{ktax, pids, processes, run, scratch, until};

/// `ktax doctor` with this image to try, and what it says of KVM.
fn doctor(cache: &Path, kernel: &Path, qemu: &Path) -> Command {
    let mut command = ktax();
    command.arg("doctor").arg("--cache").arg(cache);
    command.arg("--kernel").arg(kernel).arg("--qemu").arg(qemu).args(["--time-limit", "4"]);
    command
}

fn said_of_kvm(printed: &str) -> &str {
    printed.lines().find_map(|line| line.get(5..)?.strip_prefix("KVM      ")).expect(printed)
}

#[test]
fn doctor_tries_kvm_and_says_what_came_of_it() {
    let (dir, qemu) = (scratch(), Path::new("qemu-system-x86_64"));
    let ran = run(&mut doctor(dir.path(), &kernel(), qemu));
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    let said = said_of_kvm(&ran.stdout);
    println!("{said}");
    let known = [
        ("/dev/kvm does not exist: ", "needs no KVM"),
        ("/dev/kvm cannot be opened (", "the kvm engine cannot measure here"),
        ("cannot run a small guest (", "the kvm engine cannot measure here"),
        ("runs a small guest but does not boot 6", "the kvm engine cannot measure here"),
        ("runs a small guest, but QEMU ends when it boots 6", "the kvm engine cannot measure here"),
        ("boots 6", " s: the kvm engine works here"),
    ];
    assert!(
        known.iter().any(|(begin, end)| said.starts_with(begin) && said.ends_with(end)),
        "{said}"
    );
    let is_ok = ran.stdout.contains("\nok   KVM ");
    assert_eq!(is_ok, said.starts_with("boots "), "{}", ran.stdout);
    assert_nothing_left(dir.path());
}

#[test]
fn doctor_fetches_no_kernel() {
    if !has_kvm() {
        return;
    }
    let dir = scratch();
    let ran = run(ktax().arg("doctor").arg("--cache").arg(dir.path()));
    let said = said_of_kvm(&ran.stdout);
    assert!(
        said == "runs a small guest; a kernel was not tried, because the cache has none",
        "{said}"
    );
    assert!(!dir.path().join("kernels").exists());
    let ran = run(&mut doctor(dir.path(), Path::new("debian:cloud-amd64"), Path::new("qemu")));
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
}

/// What is behind the other parameters of a guest that never says hello.
const NEVER: &str = "ktax.never=1 no_timer_check";

/// A QEMU whose guest under KVM never says hello, whatever this machine's KVM can do: with some,
/// QEMU itself ends at once, so it is a translated one.
fn never(dir: &Path) -> PathBuf {
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *'-accel kvm'*)\n\
         for word do shift; case \"$word\" in kvm) word=tcg;; host) word=max;; esac\n\
         set -- \"$@\" \"$word\"; done; set -- \"$@\" -append '{NEVER}';; esac\n\
         exec qemu-system-x86_64 \"$@\"\n"
    );
    let path = dir.join("qemu");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn doctor_gives_up_on_a_kernel_and_stops_when_it_is_told_to() {
    if !has_kvm() {
        return;
    }
    let (dir, kernel) = (scratch(), kernel());
    let qemu = never(dir.path());
    let ran = run(&mut doctor(dir.path(), &kernel, &qemu));
    assert_eq!(ran.status, 0, "{}", ran.stdout);
    let said = said_of_kvm(&ran.stdout);
    assert!(said.starts_with("runs a small guest but does not boot "), "{said}");
    assert!(said.ends_with(" within 4 s: the kvm engine cannot measure here"), "{said}");
    let child = doctor(dir.path(), &kernel, &qemu).stdout(Stdio::null()).spawn().unwrap();
    let booting = || processes(dir.path()).iter().any(|line| line.contains(NEVER));
    until("a guest boots", booting);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130));
    until("its QEMU goes", || pids(dir.path()).is_empty());
    assert_nothing_left(dir.path());
}
