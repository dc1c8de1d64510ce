//! `ktax kvm-host`: real KVM within QEMU, on the distribution's own kernel. Every test is a boot.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use common::kvm::{LINE, compiled, initrd, initrd_of, kernel, kvm_host};
use common::{Ran, cache, ktax, processes, run, scratch, until};
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
    linux_of(&initrd(dir.path()), options, line, guest)
}

fn linux_of(initrd: &Path, options: &[&str], line: &str, guest: &[&str]) -> Ran {
    let vmlinuz = format!("vmlinuz={}", kernel().display());
    let initrd = format!("initrd={}", initrd.display());
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
    // Half a minute is what it may take; a machine that is busy has three of them.
    let boot = |_| linux(&["--time-limit", "30"], LINE, &[]);
    let ran = (0..3).map(boot).find(|ran| ran.status == 0).expect("it boots in half a minute");
    assert!(ran.stdout.contains("init sees 1 processors and clock kvm-clock"), "{}", ran.stdout);
    assert!(exits(&ran.stderr)[0]["KVM_EXIT_IO"].as_u64().unwrap() > 100, "{}", ran.stderr);
}

#[test]
fn two_processors_start_and_the_guest_goes_off_by_itself() {
    let line = "console=ttyS0 quiet panic=-1 -- off";
    let ran = linux(&[], line, &["--cpus", "2"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("init sees 2 processors"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("machine restart"), "{}", ran.stdout);
    let exits = exits(&ran.stderr);
    assert!(exits.iter().all(|vcpu| vcpu["KVM_EXIT_IO"].is_u64()), "{}", ran.stderr);
}

/// The first process of a guest with two processors: one is busy, the other interrupts it twenty
/// times, and each interrupt is counted by the kernel. It has no other exit until the host's tick.
const INTERRUPTS: &str = r#"
#define _GNU_SOURCE
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { TIMES = 20 };
static volatile int is_busy, is_done;
static void stay_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}
static void *be_busy(void *unused)
{
    stay_on(1);
    is_busy = 1;
    while (!is_done)
        ;
    return unused;
}
static long calls(void)
{
    char line[256];
    long of_first, of_second = -1;
    FILE *file = fopen("/proc/interrupts", "r");
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, "CAL:"))
            sscanf(strstr(line, "CAL:") + 4, "%ld %ld", &of_first, &of_second);
    return of_second;
}
int main(void)
{
    pthread_t thread;
    long before, failed = 0;
    mount("proc", "/proc", "proc", 0, NULL);
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    stay_on(0);
    pthread_create(&thread, NULL, be_busy, NULL);
    while (!is_busy)
        sched_yield();
    before = calls();
    for (int i = 0; i < TIMES; i++)
        failed += syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0;
    printf("sent %d, failed %ld, taken %ld\n", TIMES, failed, calls() - before);
    fflush(stdout);
    return reboot(RB_AUTOBOOT);
}
"#;

#[test]
fn a_busy_processor_takes_each_interrupt_once() {
    let dir = scratch();
    let initrd = initrd_of(dir.path(), INTERRUPTS);
    let ran = linux_of(&initrd, &["--exact"], LINE, &["--cpus", "2"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let said = ran.stdout.lines().find_map(|line| line.split_once("sent 20, failed 0, taken "));
    let said = said.unwrap_or_else(|| panic!("it does not say how many: {}", ran.stdout));
    let taken: u32 = said.1.trim().parse().unwrap();
    // The kernel has some of its own to send; taken twice, there are forty.
    assert!((20..30).contains(&taken), "{taken}");
}

#[test]
fn a_feature_is_hidden_from_the_guest() {
    let ran = linux(&[], LINE, &["--without", "kvmclock"]);
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
    command.env("KTAX_CACHE", cache()).args(["--quiet", "--return", "--command"]);
    command.arg(shlex::try_join(words).unwrap()).arg("/dev/null").stdin(Stdio::null());
    let ran = run(&mut command);
    assert_eq!(ran.status, 0, "{ran:?}");
    for said in ["out", "err"] {
        assert!(ran.stdout.contains(&format!("{said}\\u{{1b}}[2J")), "{ran:?}");
        assert!(!ran.stdout.contains(&format!("{said}\x1b")), "{ran:?}");
    }
}

#[test]
fn a_host_without_modules_says_so() {
    // The same kernel as a file: nobody knows where its modules are.
    let ran = kvm_host(&["--kernel", &kernel().display().to_string()], &["/ktax"]);
    assert_eq!(ran.status, 69, "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot find /dev/kvm"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("give a kernel with KVM for AMD, --kernel\n"), "{}", ran.stderr);
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

#[test]
fn files_are_read_before_there_is_a_host() {
    // None could boot with it, and none tries.
    let no_host = ["--qemu", "/no/such/qemu", "--file"];
    let at = |file: &str| run(ktax().arg("kvm-host").args(no_host).args([file, "--", "/ktax"]));
    for (file, said) in [
        ("a=/nonexistent", "cannot read /nonexistent: No such file or directory"),
        ("a=/", "cannot read /: Is a directory"),
        ("a=/dev/zero", "with /dev/zero the host's files are more than 256 MiB; give fewer"),
    ] {
        let ran = at(file);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
    assert_eq!(at("a=/dev/null").status, 69);
}
