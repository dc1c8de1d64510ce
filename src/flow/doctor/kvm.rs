//! Tests whether the kvm engine can measure on this machine, by running guests.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Finding, problem};
use crate::engine::kvm::{GuestSetup, Kvm, device_fix, open_device};
use crate::engine::qemu::Qemu;
use crate::engine::{Cancel, Limits, Stop, die_with_parent, noise};
use crate::kernel::Kernel;
use crate::model::{Failure, TimedMachine};
use crate::text::escape;

/// CPU model that is tried if QEMU ends with the default one. Hypervisors often refuse to set the
/// MSR of this feature.
const FALLBACK_CPU: &str = "host,arch-capabilities=off";

/// Runs a small guest, then boots `kernel`, if there is one. `None` if the user stopped the check.
pub(super) fn check_kvm(
    qemu: Option<Qemu>,
    cache: &Path,
    kernel: Option<&Kernel>,
    limits: &Limits,
    cancel: &Cancel,
) -> Option<Finding> {
    if let Err(error) = open_device() {
        return Some(describe_device_error(&error));
    }
    if let Err(why) = run_small_guest(limits, cancel)? {
        let message = format!("cannot run a small guest ({why}): {CANNOT_MEASURE}");
        return Some(problem(message, "read the reason at the end of `dmesg`"));
    }
    let untried = |why: &str, fix: &str| {
        problem(format!("{SMALL_GUEST_RUNS}; a kernel was not tried, because {why}"), fix)
    };
    match (kernel, qemu) {
        (None, _) => Some(untried("the cache has none", "name a kernel with --kernel FILE")),
        (_, None) => Some(untried("there is no QEMU", "install QEMU, as above")),
        (Some(kernel), Some(qemu)) => try_kernel(qemu, cache, kernel, limits, cancel),
    }
}

const CANNOT_MEASURE: &str = "the kvm engine cannot measure here";

const SMALL_GUEST_RUNS: &str = "runs a small guest";

/// Describes why /dev/kvm cannot be opened.
fn describe_device_error(error: &io::Error) -> Finding {
    let message = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("/dev/kvm does not exist: {CANNOT_MEASURE}; the exact engine needs no KVM")
        }
        _ => format!("/dev/kvm cannot be opened ({error}): {CANNOT_MEASURE}"),
    };
    problem(message, device_fix(error))
}

/// Describes a kernel that does not boot, although a small guest runs. `other_cpu` is a CPU model
/// with which the kernel boots.
fn describe_boot_failure(kernel: &str, failure: &Failure, other_cpu: Option<&str>) -> Finding {
    let why = escape(&failure.to_string());
    match (failure, other_cpu) {
        (Failure::RealTime { limit_s }, _) => problem(
            format!(
                "{SMALL_GUEST_RUNS} but does not boot {kernel} within {limit_s} s: {CANNOT_MEASURE}"
            ),
            "wait longer with --time-limit SECONDS, or try another kernel with --kernel FILE",
        ),
        (failure, None) if has_qemu_ended(failure) => problem(
            format!(
                "{SMALL_GUEST_RUNS}, but QEMU ends when it boots {kernel} ({why}): {CANNOT_MEASURE}"
            ),
            "measure with `--engine exact`, which needs no KVM, or try another QEMU with `ktax \
             doctor --qemu PROGRAM`",
        ),
        (_, Some(cpu)) => problem(
            format!(
                "{SMALL_GUEST_RUNS}, but QEMU ends when it boots {kernel} ({why}); with --cpu \
                 {cpu} it boots"
            ),
            format!("add --cpu {cpu} to commands with --engine kvm"),
        ),
        (_, None) => problem(
            format!("{SMALL_GUEST_RUNS} but does not boot {kernel} ({why}): {CANNOT_MEASURE}"),
            "try another kernel with --kernel FILE, or another machine",
        ),
    }
}

/// Returns true if QEMU itself ended, so that another kernel is no fix.
fn has_qemu_ended(failure: &Failure) -> bool {
    matches!(failure, Failure::QemuLost { .. } | Failure::QemuDied { .. })
}

/// Runs a guest of a few instructions in a child process, so that only the child hangs if KVM does.
/// An error is the reason of a failure. `None` if the user stopped the check.
fn run_small_guest(limits: &Limits, cancel: &Cancel) -> Option<Result<(), String>> {
    let start = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["vmm", "raw", "--out", "10", "--cpuid", "10"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C only reaches this process, which then kills the child.
        command.process_group(0);
        die_with_parent(&mut command, [None, None]);
        command.spawn()
    };
    let mut child = match start() {
        Ok(child) => child,
        Err(error) => return Some(Err(error.to_string())),
    };
    let ended = wait_for_end(&mut child, limits, cancel);
    // Do not wait for the child: a process that hangs in the kernel ignores every signal.
    drop(child.kill());
    Some(match ended? {
        Ok(true) => Ok(()),
        Ok(false) => Err(stderr_of(&mut child)),
        Err(()) => Err(format!("the guest does not end within {} s", limits.time.as_secs())),
    })
}

/// Waits for a process, and returns true if it succeeded. An error means that it did not end in
/// time; `None` that the user stopped the check.
fn wait_for_end(child: &mut Child, limits: &Limits, cancel: &Cancel) -> Option<Result<bool, ()>> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(Ok(status.success())),
            _ if cancel.is_cancelled() => return None,
            _ if started.elapsed() > limits.time => return Some(Err(())),
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Beginning of a process's standard error, as one line.
fn stderr_of(child: &mut Child) -> String {
    const MAX_BYTES: u64 = 300;
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        drop(stderr.take(MAX_BYTES).read_to_end(&mut text));
    }
    let text = escape(&String::from_utf8_lossy(&text));
    text.trim_start_matches("ktax: ").to_owned()
}

/// Boots a kernel under KVM. `None` if the user stopped the check.
fn try_kernel(
    qemu: Qemu,
    cache: &Path,
    kernel: &Kernel,
    limits: &Limits,
    cancel: &Cancel,
) -> Option<Finding> {
    let name = escape(kernel.identity.name());
    let boot = |shape| {
        let setup = GuestSetup {
            programs: None,
            qemu: qemu.clone(),
            cache: cache.to_owned(),
            images: BTreeMap::new(),
            shape,
            cpus: Vec::new(),
            host_facts: noise::facts,
            limits: limits.clone(),
            cancel: cancel.clone(),
        };
        Kvm::new(setup).map_err(Stop::from).and_then(|kvm| kvm.try_boot(&kernel.image))
    };
    let started = Instant::now();
    let failure = match boot(TimedMachine::default()) {
        Ok(_) => {
            let seconds = started.elapsed().as_secs_f64();
            return Some(Ok(format!("boots {name} in {seconds:.1} s: the kvm engine works here")));
        }
        // Stopping kills QEMU, which may look like a failure of QEMU.
        Err(_) if cancel.is_cancelled() => return None,
        Err(Stop::Cancelled) => return None,
        Err(Stop::Failed(failure, _)) => timeout_if_silent(failure),
    };
    let fallback = || TimedMachine { cpu: FALLBACK_CPU.into(), ..TimedMachine::default() };
    let boots_with_fallback = has_qemu_ended(&failure) && boot(fallback()).is_ok();
    match cancel.is_cancelled() {
        true => None,
        false => Some(describe_boot_failure(
            &name,
            &failure,
            boots_with_fallback.then_some(FALLBACK_CPU),
        )),
    }
}

/// Turns silence until the time limit into a timeout, because a slow machine may print later.
fn timeout_if_silent(failure: Failure) -> Failure {
    match failure {
        Failure::NoOutput { cause } if matches!(*cause, Failure::RealTime { .. }) => *cause,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_until_the_limit_is_a_timeout() {
        let late = Failure::RealTime { limit_s: 4 };
        assert_eq!(timeout_if_silent(late.clone().without_output()), late);
        let silent = Failure::NoAnswer { console: String::new() }.without_output();
        assert_eq!(timeout_if_silent(silent.clone()), silent);
    }

    #[test]
    fn each_finding_says_whether_the_kvm_engine_can_measure() {
        let device_error = |kind: io::ErrorKind| describe_device_error(&kind.into());
        let (ended, kvm64) = (Failure::QemuLost { reason: "it stopped".into() }, Some("kvm64"));
        let boot_failure =
            |failure: &Failure, cpu| describe_boot_failure("6.1.0-56-cloud-amd64", failure, cpu);
        let panic = Failure::Panic { message: "no init".into() };
        for (finding, ending) in [
            (device_error(io::ErrorKind::NotFound), "the exact engine needs no KVM"),
            (device_error(io::ErrorKind::PermissionDenied), "cannot measure here"),
            (boot_failure(&panic, None), "cannot measure here"),
            (boot_failure(&ended, None), "cannot measure here"),
            (boot_failure(&ended, kvm64), "; with --cpu kvm64 it boots"),
        ] {
            let (text, fix) = finding.unwrap_err();
            assert!(text.ends_with(ending) && !fix.is_empty(), "{text}");
        }
        let (_, fix) = boot_failure(&ended, kvm64).unwrap_err();
        assert_eq!(fix, "add --cpu kvm64 to commands with --engine kvm");
        let (text, fix) = boot_failure(&Failure::RealTime { limit_s: 20 }, None).unwrap_err();
        assert!(text.contains(" does not boot 6.1.0-56-cloud-amd64 within 20 s: "), "{text}");
        assert!(fix.contains("--time-limit"));
    }

    #[test]
    fn waiting_ends_at_the_limit_and_when_the_user_stops() {
        let endless = || Command::new("sleep").arg("600").spawn().unwrap();
        let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
        let mut child = endless();
        assert_eq!(wait_for_end(&mut child, &limits, &Cancel::default()), Some(Err(())));
        let cancelled = Cancel::default();
        cancelled.cancel();
        assert_eq!(wait_for_end(&mut child, &Limits::default(), &cancelled), None);
        child.kill().unwrap();
        let end = wait_for_end(&mut child, &Limits::default(), &Cancel::default());
        assert_eq!(end, Some(Ok(false)));
    }
}
