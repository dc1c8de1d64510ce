//! Tests whether this machine's KVM can measure, by running guests.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Found, wrong};
use crate::engine::kvm::{GuestSetup, Kvm, device_fix, open_device};
use crate::engine::qemu::Qemu;
use crate::engine::{Cancel, Limits, Stop, die_with_parent, noise};
use crate::kernel::Kernel;
use crate::model::{Failure, TimedMachine};
use crate::text::escape;

/// CPU model that is tried if QEMU ends with the usual one: hypervisors often refuse the register
/// of this feature.
const OTHER_CPU: &str = "host,arch-capabilities=off";

/// Tests KVM, with a kernel if there is one. `None` if the user stopped it.
pub(super) fn look(
    qemu: Option<Qemu>,
    cache: &Path,
    kernel: Option<&Kernel>,
    limits: &Limits,
    cancel: &Cancel,
) -> Option<Found> {
    if let Err(error) = open_device() {
        return Some(unusable(&error));
    }
    if let Err(why) = try_small(limits, cancel)? {
        let found = format!("cannot run a small guest ({why}): {NOT_HERE}");
        return Some(wrong(found, "look for the reason at the end of `dmesg`"));
    }
    let untried = |why: &str, fix: &str| {
        wrong(format!("{SMALL}; a kernel was not tried, because {why}"), fix)
    };
    match (kernel, qemu) {
        (None, _) => Some(untried("the cache has none", "name a kernel with --kernel FILE")),
        (_, None) => Some(untried("there is no QEMU", "install QEMU, as above")),
        (Some(kernel), Some(qemu)) => try_kernel(qemu, cache, kernel, limits, cancel),
    }
}

const NOT_HERE: &str = "the kvm engine cannot measure here";

const SMALL: &str = "runs a small guest";

/// Describes a device that cannot be opened.
fn unusable(error: &io::Error) -> Found {
    let found = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("/dev/kvm does not exist: {NOT_HERE}; the exact engine needs no KVM")
        }
        _ => format!("/dev/kvm cannot be opened ({error}): {NOT_HERE}"),
    };
    wrong(found, device_fix(error))
}

/// Describes a kernel that does not boot where a small guest runs. `other_cpu` is a CPU model with
/// which it does.
fn not_booted(kernel: &str, failure: &Failure, other_cpu: Option<&str>) -> Found {
    let why = escape(&failure.to_string());
    match (failure, other_cpu) {
        (Failure::RealTime { limit_s }, _) => wrong(
            format!("{SMALL} but does not boot {kernel} within {limit_s} s: {NOT_HERE}"),
            "wait longer with --time-limit SECONDS, or try another kernel with --kernel FILE",
        ),
        (failure, None) if is_qemu_lost(failure) => wrong(
            format!("{SMALL}, but QEMU ends when it boots {kernel} ({why}): {NOT_HERE}"),
            "measure with `--engine exact`, which needs no KVM, or try another QEMU with `ktax \
             doctor --qemu PROGRAM`",
        ),
        (_, Some(cpu)) => wrong(
            format!(
                "{SMALL}, but QEMU ends when it boots {kernel} ({why}); with --cpu {cpu} it boots"
            ),
            format!("add --cpu {cpu} to commands with --engine kvm"),
        ),
        (_, None) => wrong(
            format!("{SMALL} but does not boot {kernel} ({why}): {NOT_HERE}"),
            "try another kernel with --kernel FILE, or another machine",
        ),
    }
}

/// Returns true if QEMU itself ended, so that another kernel would not help.
fn is_qemu_lost(failure: &Failure) -> bool {
    matches!(failure, Failure::QemuLost { .. } | Failure::QemuDied { .. })
}

/// Runs a guest of a few instructions in another process, so that a hanging KVM blocks only that
/// process. `None` if the user stopped it.
fn try_small(limits: &Limits, cancel: &Cancel) -> Option<Result<(), String>> {
    let start = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["vmm", "raw", "--out", "10", "--cpuid", "10"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C reaches this process alone, which then ends the child.
        command.process_group(0);
        die_with_parent(&mut command, [None, None]);
        command.spawn()
    };
    let mut child = match start() {
        Ok(child) => child,
        Err(error) => return Some(Err(error.to_string())),
    };
    let ended = wait_for_end(&mut child, limits, cancel);
    // Do not wait: a process that is stuck in the kernel ignores every signal.
    drop(child.kill());
    Some(match ended? {
        Ok(true) => Ok(()),
        Ok(false) => Err(stderr_of(&mut child)),
        Err(()) => Err(format!("it does not end within {} s", limits.time.as_secs())),
    })
}

/// Returns true if the process succeeded. An error means that it did not end in time; `None` that
/// the user stopped it.
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

fn stderr_of(child: &mut Child) -> String {
    const MOST: u64 = 300;
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        drop(stderr.take(MOST).read_to_end(&mut text));
    }
    let text = escape(&String::from_utf8_lossy(&text));
    text.trim_start_matches("ktax: ").to_owned()
}

/// Boots a kernel under KVM. `None` if the user stopped it.
fn try_kernel(
    qemu: Qemu,
    cache: &Path,
    kernel: &Kernel,
    limits: &Limits,
    cancel: &Cancel,
) -> Option<Found> {
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
        // A QEMU that does not answer is killed before the flag is checked.
        Err(_) if cancel.is_cancelled() => return None,
        Err(Stop::Cancelled) => return None,
        Err(Stop::Failed(failure, _)) => late_if_mute(failure),
    };
    let other = || TimedMachine { cpu: OTHER_CPU.into(), ..TimedMachine::default() };
    let boots_with_other = is_qemu_lost(&failure) && boot(other()).is_ok();
    match cancel.is_cancelled() {
        true => None,
        false => Some(not_booted(&name, &failure, boots_with_other.then_some(OTHER_CPU))),
    }
}

/// Turns silence into a timeout: whether a kernel prints before the limit depends on the machine's
/// speed.
fn late_if_mute(failure: Failure) -> Failure {
    match failure {
        Failure::NoOutput { cause } if matches!(*cause, Failure::RealTime { .. }) => *cause,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_has_printed_nothing_yet_may_be_slow() {
        let late = Failure::RealTime { limit_s: 4 };
        assert_eq!(late_if_mute(late.clone().without_output()), late);
        let silent = Failure::NoAnswer { console: String::new() }.without_output();
        assert_eq!(late_if_mute(silent.clone()), silent);
    }

    #[test]
    fn each_sentence_says_whether_the_kvm_engine_can_measure() {
        let unusable = |kind: io::ErrorKind| unusable(&kind.into());
        let (ended, with) = (Failure::QemuLost { reason: "it stopped".into() }, Some("kvm64"));
        let not_booted =
            |failure: &Failure, with| not_booted("6.1.0-56-cloud-amd64", failure, with);
        let panic = Failure::Panic { message: "no init".into() };
        for (found, ending) in [
            (unusable(io::ErrorKind::NotFound), "the exact engine needs no KVM"),
            (unusable(io::ErrorKind::PermissionDenied), "cannot measure here"),
            (not_booted(&panic, None), "cannot measure here"),
            (not_booted(&ended, None), "cannot measure here"),
            (not_booted(&ended, with), "; with --cpu kvm64 it boots"),
        ] {
            let (text, fix) = found.unwrap_err();
            assert!(text.ends_with(ending) && !fix.is_empty(), "{text}");
        }
        let (_, fix) = not_booted(&ended, with).unwrap_err();
        assert_eq!(fix, "add --cpu kvm64 to commands with --engine kvm");
        let (text, fix) = not_booted(&Failure::RealTime { limit_s: 20 }, None).unwrap_err();
        assert!(text.contains(" does not boot 6.1.0-56-cloud-amd64 within 20 s: "), "{text}");
        assert!(fix.contains("--time-limit"));
    }

    #[test]
    fn who_does_not_end_is_not_waited_for_and_who_stops_does_not_wait() {
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
