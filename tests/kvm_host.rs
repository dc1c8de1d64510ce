//! `ktax kvm-host`: real KVM within QEMU, on the distribution's own kernel. Every test is a boot.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use common::{KERNEL, Ran, cache, ktax, processes, run, scratch, until};
use cpio::newc::{Builder, trailer};
use ktax::kernel::{Talk, modules, obtain};
use ktax::kvmhost::MODULES;
use ktax::model::Subject;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The first process of a guest: says what it sees, and resets, or goes off if it is told to.
const INIT: &str = r#"
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char clock[64] = "";
    FILE *file;
    (void)argv;
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r");
    if (!file || !fgets(clock, sizeof clock, file))
        return 1;
    printf("init sees %ld processors and clock %s", sysconf(_SC_NPROCESSORS_CONF), clock);
    fflush(stdout);
    return reboot(argc > 1 ? RB_POWER_OFF : RB_AUTOBOOT);
}
"#;
const LINE: &str = "console=ttyS0 quiet panic=-1 reboot=k";

fn kvm_host(options: &[&str], command: &[&str]) -> Ran {
    // What it is told about a download is not what it is asked for.
    kernel();
    run(ktax().arg("kvm-host").args(options).arg("--").args(command))
}

/// The exits of each vCPU.
fn exits(account: &str) -> Vec<Value> {
    let account: Value =
        serde_json::from_str(account).unwrap_or_else(|error| panic!("{error}: {account}"));
    account["vcpus"].as_array().unwrap().iter().map(|vcpu| vcpu["exits"].clone()).collect()
}

/// The image that the host boots too: stock, from the distribution, with its modules.
fn kernel() -> PathBuf {
    let quiet: &dyn Fn(&str) = &|_| {};
    let talk = Talk { note: quiet, status: quiet, is_cancelled: &|| false };
    static KERNEL_IMAGE: OnceLock<PathBuf> = OnceLock::new();
    let fetch = || {
        let kernel = obtain(&Subject::of(KERNEL, ""), &cache(), &talk).unwrap();
        modules(&kernel, &MODULES, &cache(), &talk).unwrap();
        kernel.image
    };
    KERNEL_IMAGE.get_or_init(fetch).clone()
}

/// An initial RAM disk with only a static init.
fn initrd(dir: &Path) -> PathBuf {
    let (source, program) = (dir.join("init.c"), dir.join("init"));
    fs::write(&source, INIT).unwrap();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut build = Command::new(compiler);
    build.args(["-static", "-O2", "-o"]).args([&program, &source]);
    assert!(build.status().unwrap().success());
    let mut archive = Vec::new();
    for name in ["dev", "sys"] {
        let directory = Builder::new(name).mode(0o040_755).nlink(2);
        directory.write(&mut archive, 0).finish().unwrap();
    }
    let console = Builder::new("dev/console").mode(0o020_600).rdev_major(5).rdev_minor(1);
    console.write(&mut archive, 0).finish().unwrap();
    let program = fs::read(program).unwrap();
    let init = Builder::new("init").mode(0o100_755).nlink(1);
    let mut init = init.write(&mut archive, program.len().try_into().unwrap());
    std::io::Write::write_all(&mut init, &program).unwrap();
    init.finish().unwrap();
    trailer(&mut archive).unwrap();
    let path = dir.join("initrd");
    fs::write(&path, archive).unwrap();
    path
}

/// A stock Linux guest within the host.
fn linux(options: &[&str], line: &str, guest: &[&str]) -> Ran {
    let dir = scratch();
    let vmlinuz = format!("vmlinuz={}", kernel().display());
    let initrd = format!("initrd={}", initrd(dir.path()).display());
    let files = ["--file", &vmlinuz, "--file", &initrd];
    let files_there = ["--kernel", "/files/vmlinuz", "--initrd", "/files/initrd"];
    let append = ["--append", line];
    let command = [&["/ktax", "vmm", "linux"], &files_there[..], &append, guest].concat();
    kvm_host(&[options, &files].concat(), &command)
}

#[test]
fn a_raw_guest_leaves_as_often_as_it_is_told() {
    let guest = ["--out", "2000", "--mmio", "2000", "--cpuid", "2000", "--hlt", "1000"];
    let ran = kvm_host(&[], &[&["/ktax", "vmm", "raw"], &guest[..]].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    // The last OUT is the guest's end; CPUID never gets to user space.
    let expected = r#"{"KVM_EXIT_HLT":1000,"KVM_EXIT_IO":2001,"KVM_EXIT_MMIO":2000}"#;
    let exits = exits(&ran.stderr);
    assert_eq!((exits.len(), exits[0].to_string().as_str()), (1, expected));
}

#[test]
fn a_stock_kernel_boots_to_its_init() {
    let ran = linux(&["--time-limit", "30"], LINE, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("init sees 1 processors and clock kvm-clock"), "{}", ran.stdout);
    assert!(exits(&ran.stderr)[0]["KVM_EXIT_IO"].as_u64().unwrap() > 100, "{}", ran.stderr);
}

#[test]
fn two_processors_start_and_the_guest_goes_off_by_itself() {
    let line = "console=ttyS0 quiet panic=-1 -- off";
    let ran = linux(&["--time-limit", "60"], line, &["--cpus", "2"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("init sees 2 processors"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("machine restart"), "{}", ran.stdout);
    let exits = exits(&ran.stderr);
    assert!(exits.iter().all(|vcpu| vcpu["KVM_EXIT_IO"].is_u64()), "{}", ran.stderr);
}

#[test]
fn a_feature_is_hidden_from_the_guest() {
    let ran = linux(&["--time-limit", "60"], LINE, &["--without", "kvmclock"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("init sees 1 processors and clock "), "{}", ran.stdout);
    assert!(!ran.stdout.contains("kvm-clock"), "{}", ran.stdout);
}

#[test]
fn exact_runs_are_the_same_to_the_nanosecond() {
    let runs = [(); 2].map(|()| linux(&["--exact"], LINE, &[]));
    for ran in &runs {
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert!(
            ran.stdout.contains("init sees 1 processors and clock kvm-clock"),
            "{}",
            ran.stdout
        );
    }
    assert_eq!(runs[0].stdout, runs[1].stdout);
    assert_eq!(runs[0].stderr, runs[1].stderr);
}

#[test]
fn a_command_that_fails_gives_its_exit_status() {
    let ran = kvm_host(&[], &["/ktax", "vmm", "linux", "--kernel", "/files/none"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("ktax: cannot read /files/none: "), "{}", ran.stderr);
    let ran = kvm_host(&[], &["/no-such-program"]);
    assert_eq!(ran.status, 127, "{}", ran.stderr);
    assert!(ran.stderr.starts_with("/no-such-program: "), "{}", ran.stderr);
}

#[test]
fn a_command_that_hangs_ends_at_the_limit() {
    let endless = ["/ktax", "vmm", "raw", "--out", "4000000000"];
    let ran = kvm_host(&["--time-limit", "8"], &endless);
    assert_eq!(ran.status, 69, "{}", ran.stderr);
    let expected = "ktax: the KVM host did not answer: no result within 8 s of real time";
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("run `ktax doctor`\n"), "{}", ran.stderr);
}

#[test]
fn a_signal_takes_the_host_with_it() {
    let dir = scratch();
    symlink(cache().join("kernels"), dir.path().join("kernels")).unwrap();
    kernel();
    let mut command = ktax();
    command.env("KTAX_CACHE", dir.path()).arg("kvm-host").arg("--");
    command.args(["/ktax", "vmm", "raw", "--out", "4000000000"]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    until("the host runs", || !processes(dir.path()).is_empty());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "ktax: stopped\n");
    assert_eq!(processes(dir.path()), [""; 0]);
    assert_eq!(fs::read_dir(dir.path().join("runs")).unwrap().count(), 0);
}

#[test]
fn init_is_for_the_first_process_only_and_names_are_names() {
    let ran = run(ktax().arg("kvm-host-init"));
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.ends_with("use `ktax kvm-host`\n"), "{}", ran.stderr);
    let ran = kvm_host(&["--file", "../a=b"], &["/ktax"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("write NAME=PATH"), "{}", ran.stderr);
}
