//! `ktax vmm`: guests on this machine's KVM, whose exits are known beforehand; and what it says to
//! files that are no kernels.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::common::kvm::has_kvm;
use crate::common::{Ran, ktax, run, scratch, ticks, until};
use ktax::vmm::raw;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn vmm(args: &[&str]) -> Ran {
    run(ktax().arg("vmm").args(args))
}

fn account(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_raw_guest_leaves_as_often_as_it_is_told() {
    if !has_kvm() {
        return;
    }
    let ran =
        vmm(&["raw", "--out", "200", "--mmio", "300", "--cpuid", "400", "--hlt", "100"]).exits(0);
    let vcpu = &account(&ran.stderr)["vcpus"][0];
    // The last OUT is the guest's end; CPUID is answered by KVM.
    let exits = r#"{"KVM_EXIT_HLT":100,"KVM_EXIT_IO":201,"KVM_EXIT_MMIO":300}"#;
    assert_eq!(vcpu["exits"].to_string(), exits);
    assert!(vcpu["wall_ns"].as_u64().unwrap() > 0);
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_raw_guest_without_loops_only_ends() {
    if !has_kvm() {
        return;
    }
    let dir = scratch();
    let file = dir.path().join("account.json");
    let ran = vmm(&["raw", "--account", file.to_str().unwrap()]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let expected = r#"{"KVM_EXIT_IO":1}"#;
    let exits = |text: &str| account(text)["vcpus"][0]["exits"].to_string();
    assert_eq!(exits(&fs::read_to_string(&file).unwrap()), expected);
    let ran = run(ktax().args(["vmm", "raw", "--account", "-"]).current_dir(dir.path()));
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    assert_eq!(exits(&ran.stdout), expected);
    assert!(!dir.path().join("-").exists());
}

#[test]
fn a_linux_guest_has_stdout_for_itself() {
    let dir = scratch();
    let linux = ["vmm", "linux", "--kernel", "x", "--account", "-"];
    let ran = run(ktax().args(linux).current_dir(dir.path())).exits(2);
    assert!(ran.stderr.ends_with("remove --account, or name a file\n"), "{}", ran.stderr);
    assert!(!dir.path().join("-").exists());
}

#[test]
fn files_larger_than_the_guest_are_refused() {
    for files in [&["--kernel", "/dev/zero"][..], &["--kernel", "x", "--initrd", "/dev/zero"]] {
        let ran = vmm(&[&["linux", "--memory-mib", "32"], files].concat()).exits(2);
        let message = "/dev/zero is larger than the guest's 32 MiB of memory";
        ran.says(message);
    }
}

#[test]
fn a_signal_ends_a_guest_and_leaves_its_account() {
    if !has_kvm() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = ktax();
        command.args(["vmm", "raw", "--out", "4000000000"]).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let tasks = format!("/proc/{}/task", child.id());
        until("the guest runs", || has_run(Path::new(&tasks), "vcpu 0"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130));
        let account = account(&String::from_utf8(output.stderr).unwrap());
        assert!(account["vcpus"][0]["exits"]["KVM_EXIT_IO"].as_u64().is_some(), "{account}");
    }
}

/// Whether a thread of that name has had a tick of CPU time: its guest has left by then.
fn has_run(tasks: &Path, name: &str) -> bool {
    let stats = fs::read_dir(tasks).into_iter().flatten().flatten();
    let mut stats = stats.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
    stats.any(|stat| stat.contains(&format!("({name}) ")) && ticks(&stat, [11, 12]) > 0)
}

#[test]
fn what_is_no_kernel_is_refused_before_there_is_a_machine() {
    let dir = scratch();
    let missing = dir.path().join("missing");
    let ran = vmm(&["linux", "--kernel", missing.to_str().unwrap()]).exits(2);
    assert!(ran.stderr.ends_with("give the path of a bzImage\n"), "{}", ran.stderr);
    let text = dir.path().join("text");
    for content in ["", "#!/bin/sh\n", &"x".repeat(5000)] {
        fs::write(&text, content).unwrap();
        let ran = vmm(&["linux", "--kernel", text.to_str().unwrap()]).exits(2);
        assert!(ran.stderr.ends_with("give arch/x86/boot/bzImage\n"), "{}", ran.stderr);
    }
}

#[test]
fn arguments_out_of_range_are_refused() {
    let kernel = ["linux", "--kernel", "x"];
    for wrong in [["--cpus", "0"], ["--cpus", "17"], ["--memory-mib", "1"], ["--without", "nx"]] {
        let ran = vmm(&[&kernel[..], &wrong].concat());
        assert_eq!(ran.status, 2, "{wrong:?}: {}", ran.stderr);
    }
}

#[test]
fn what_no_raw_guest_can_do_is_refused_before_there_is_a_machine() {
    for (wrong, next) in [
        (&["--hlt", "1", "--pic", "1"][..], "remove --pic or --hlt\n"),
        (&["--hlt", "1", "--ipi", "1", "--out", "1"], "remove --ipi or --hlt\n"),
        (&["--fault", "196097"], "use at most --fault 196096\n"),
    ] {
        let ran = vmm(&[&["raw"], wrong].concat());
        assert_eq!(ran.status, 2, "{wrong:?}: {}", ran.stderr);
        assert!(ran.stderr.ends_with(next), "{wrong:?}: {}", ran.stderr);
    }
}

#[test]
fn it_is_not_in_the_list_of_commands_and_has_its_own_help() {
    let ran = run(ktax().arg("--help"));
    assert!(!ran.stdout.contains("vmm"), "{}", ran.stdout);
    let ran = vmm(&["linux", "--help"]);
    assert!(ran.stdout.contains("--without <FEATURE>"), "{}", ran.stdout);
    assert!(ran.stdout.contains("kvm-pv-eoi"), "{}", ran.stdout);
}

#[test]
fn a_guest_that_cannot_go_on_ends_with_its_place() {
    if !has_kvm() {
        return;
    }
    let ended = |code: &[u8]| raw::run_code(code).unwrap().end.unwrap_err();
    // nop; ud2, and there is no table of handlers
    let error = ended(&[0x90, 0x0f, 0x0b]);
    assert!(error.message().starts_with("vCPU 0 shut down at "), "{error}");
    // mov eax, MMIO_ADDRESS; jmp rax: there is no memory
    let error = ended(&[0xb8, 0, 0, 0x20, 0, 0xff, 0xe0]);
    assert!(error.message().starts_with("KVM cannot run vCPU 0 at "), "{error}");
}
