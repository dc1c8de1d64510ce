//! `ktax kvm-host`: real KVM within QEMU, on the distribution's own kernel. Every test is a boot.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::kvm::{LINE, compiled, initrd, kernel, kvm_host};
use crate::common::{Ran, isolate, ktax, link_shared, processes, run, scratch, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The exits of each vCPU.
fn exits(account: &str) -> Vec<Value> {
    let account: Value =
        serde_json::from_str(account).unwrap_or_else(|error| panic!("{error}: {account}"));
    account["vcpus"].as_array().unwrap().iter().map(|vcpu| vcpu["exits"].clone()).collect()
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
    let ran = linux(&[], LINE, &[]).exits(0);
    assert!(ran.stdout.contains("init sees 1 processors and clock kvm-clock"), "{}", ran.stdout);
    assert!(exits(&ran.stderr)[0]["KVM_EXIT_IO"].as_u64().unwrap() > 100, "{}", ran.stderr);
}

#[test]
fn two_processors_start_and_the_guest_goes_off_by_itself() {
    let line = "console=ttyS0 quiet panic=-1 -- off";
    let ran = linux(&[], line, &["--cpus", "2"]).exits(0);
    assert!(ran.stdout.contains("init sees 2 processors"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("machine restart"), "{}", ran.stdout);
    let exits = exits(&ran.stderr);
    assert!(exits.iter().all(|vcpu| vcpu["KVM_EXIT_IO"].is_u64()), "{}", ran.stderr);
}

/// Runs a command five times, until it fails. A shell would need its libraries in the host.
const FIVE_TIMES: &str = r#"
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    for (int turn = 0; turn < 5; turn++) {
        int status;
        if (fork() == 0) {
            execv(argv[1], argv + 1);
            _exit(127);
        }
        if (wait(&status) < 0 || status)
            return 1;
    }
    return argc < 2;
}
"#;

#[test]
fn five_guests_run_one_after_the_other_in_one_host() {
    let [of_guest, of_host] = [scratch(), scratch()];
    let files = [
        ("vmlinuz", kernel()),
        ("initrd", initrd(of_guest.path())),
        ("repeat", compiled(of_host.path(), FIVE_TIMES)),
    ];
    let files = files.map(|(name, path)| format!("--file={name}={}", path.display()));
    let options =
        [&["--exact", "--time-limit=900"], &files.each_ref().map(String::as_str)[..]].concat();
    let record = ["/files/repeat", "/ktax", "exits", "record", "--level", "exits", "--"];
    let guest = ["/ktax", "vmm", "linux", "--kernel", "/files/vmlinuz"];
    let rest = ["--initrd", "/files/initrd", "--append", LINE];
    let ran = kvm_host(&options, &[&record[..], &guest, &rest].concat()).exits(0);
    let booted = ran.stdout.matches("init sees 1 processors and clock kvm-clock").count();
    let recorded = ran.stdout.matches("vCPU wall time ").count();
    assert_eq!((booted, recorded), (5, 5), "{}", ran.stdout);
    assert_eq!(ran.stderr.matches("KVM_EXIT_IO").count(), 5, "{}", ran.stderr);
}

#[test]
fn a_feature_is_hidden_from_the_guest() {
    let ran = linux(&[], LINE, &["--without", "kvmclock"]).exits(0);
    assert!(ran.stdout.contains("init sees 1 processors and clock "), "{}", ran.stdout);
    assert!(!ran.stdout.contains("kvm-clock"), "{}", ran.stdout);
}

#[test]
fn a_command_that_fails_gives_its_exit_status() {
    let ran = kvm_host(&[], &["/ktax", "vmm", "linux", "--kernel", "/files/none"]).exits(2);
    assert!(ran.stderr.starts_with("ktax: cannot read /files/none: "), "{}", ran.stderr);
    let ran = kvm_host(&[], &["/no-such-program"]).exits(127);
    assert!(ran.stderr.starts_with("/no-such-program: "), "{}", ran.stderr);
}

const CLEARS: &str = r#"
#include <stdio.h>
int main(void)
{
    fputs("out\033[2J\n", stdout);
    fputs("err\033[2J\n", stderr);
    return 0;
}
"#;

#[test]
fn what_a_command_prints_does_nothing_to_a_terminal() {
    let dir = scratch();
    let file = format!("clears={}", compiled(dir.path(), CLEARS).display());
    let ran = kvm_host(&["--file", &file], &["/files/clears"]);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\x1b[2J\n", "err\x1b[2J\n"));
    let words = [env!("CARGO_BIN_EXE_ktax"), "kvm-host", "--file", &file, "--", "/files/clears"];
    let mut command = Command::new("script");
    isolate(&mut command).args(["--quiet", "--return", "--command"]);
    command.arg(shlex::try_join(words).unwrap()).arg("/dev/null").stdin(Stdio::null());
    let ran = run(&mut command).exits(0);
    for stream in ["out", "err"] {
        assert!(ran.stdout.contains(&format!("{stream}\\u{{1b}}[2J")), "{ran:?}");
        assert!(!ran.stdout.contains(&format!("{stream}\x1b")), "{ran:?}");
    }
}

#[test]
fn a_host_without_modules_says_so() {
    // A kernel given as a file has no known modules.
    let ran = kvm_host(&["--kernel", &kernel().display().to_string()], &["/ktax"]).exits(69);
    ran.says("cannot find /dev/kvm");
    assert!(ran.stderr.ends_with("give a kernel with KVM for AMD (--kernel)\n"), "{}", ran.stderr);
}

#[test]
fn a_command_that_hangs_ends_at_the_limit() {
    let endless = ["/ktax", "vmm", "raw", "--out", "4000000000"];
    let ran = kvm_host(&["--time-limit", "8"], &endless).exits(69);
    let expected = "ktax: the KVM host did not answer: no result within 8 s of real time";
    assert!(ran.stderr.starts_with(expected), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("run `ktax doctor`\n"), "{}", ran.stderr);
}

#[test]
fn a_signal_takes_the_host_with_it() {
    let dir = scratch();
    link_shared(dir.path(), &["kernels"]);
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
    let ran = run(ktax().arg("kvm-host-init")).exits(1);
    ran.says("which ktax itself boots");
    let ran = kvm_host(&["--file", "../a=b"], &["/ktax"]).exits(2);
    ran.says("write NAME=PATH");
}

#[test]
fn files_are_read_before_there_is_a_host() {
    // None could boot with it, and none tries.
    let no_host = ["--qemu", "/no/such/qemu", "--file"];
    let with_file =
        |file: &str| run(ktax().arg("kvm-host").args(no_host).args([file, "--", "/ktax"]));
    for (file, stream) in [
        ("a=/nonexistent", "cannot read /nonexistent: No such file or directory"),
        ("a=/", "cannot read /: Is a directory"),
        ("a=/dev/zero", "with /dev/zero the host's files exceed 256 MiB; give fewer"),
    ] {
        let ran = with_file(file).exits(2);
        ran.says(stream);
    }
    assert_eq!(with_file("a=/dev/null").status, 69);
}
