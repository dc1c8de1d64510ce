//! Failures of Boots and Runs, with the next step for each, and the party that can do something
//! about an error.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::CpuPlace;
use crate::run::places_text;

/// Reasons why a Boot or a Run has no Sample. Guest text is escaped before it gets in here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Failure {
    /// The kernel panicked, at boot or later.
    #[error("the kernel panicked: {message}")]
    Panic { message: String },
    /// No result within the limit in real time.
    #[error("no result within {limit_s} s of real time")]
    RealTime { limit_s: u64 },
    /// No result within the limit of QEMU's CPU time.
    #[error("no result within {limit_s} s of CPU time")]
    CpuTime { limit_s: u64 },
    /// No result within the limit in virtual time.
    #[error("no result within {limit_s} s of virtual time since power-on")]
    VirtualTime { limit_s: u64 },
    /// No result within the time that the plugin counts, with several CPUs.
    #[error("no result within {limit_s} s of counted time{}", places_text(.cpus))]
    CountedTime { limit_s: u64, cpus: Vec<CpuPlace> },
    /// The guest finished without an answer.
    #[error("the guest ended without an answer{}", or_empty(": the console says ", .console))]
    Silent { console: String },
    /// The kernel printed nothing at all, not even on its console.
    #[error("the kernel stopped before it printed anything: {after}")]
    Mute { after: Box<Failure> },
    /// The answer is not of the wire format.
    #[error("the guest's answer is garbled: {reason}")]
    Garbled { reason: String },
    /// The guest wrote more than the limit.
    #[error("the guest wrote more than {limit_bytes} bytes")]
    Flood { limit_bytes: u64 },
    /// The Workload says that it cannot run.
    #[error("the workload could not run: {message}")]
    Refused { message: String },
    /// A user's program did not do its work, or could not be counted.
    #[error("the program failed: {message}")]
    Program { message: String },
    /// The Workload ran and did not do its work.
    #[error("the workload did not do its work: {deviations}")]
    WrongWork { deviations: String },
    /// Another kernel than the planned one answered.
    #[error("the guest runs {found}, but the plan has {planned}")]
    WrongKernel { planned: String, found: String },
    /// QEMU could not be started.
    #[error("QEMU could not be started: {reason}")]
    NoQemu { reason: String },
    /// QEMU ended by itself before the guest was done.
    #[error("QEMU ended early ({status}){}", or_empty(": ", .stderr))]
    QemuDied { status: String, stderr: String },
    /// QEMU was killed, or does not answer any more.
    #[error("QEMU was lost: {reason}")]
    QemuLost { reason: String },
    /// Another Boot of the same Side failed before, and this one was not made.
    #[error("not booted, because boot {first} of the same side failed")]
    NotBooted { first: String },
    /// A file could not be written or read on the host.
    #[error("{operation}: {reason}")]
    Host { operation: String, reason: String },
    /// The command in front of the Workload could not be run, or did not run it. Text is escaped.
    #[error("the prefix {command:?} did not run the workload: {reason}")]
    Prefix { command: String, reason: String },
    /// A setting of the running kernel could not be changed or restored.
    #[error("{reason}")]
    Setting { reason: String },
    /// Two Runs from one Snapshot, with several CPUs, did not execute the same.
    #[error("two runs of it from one snapshot executed different instructions")]
    NotRepeated,
    /// The plugin's profile is not of its format, or does not add up.
    #[error("the plugin's profile cannot be used: {reason}")]
    Profile { reason: String },
}

impl Failure {
    /// True if the host may be the reason, so that trying again is worth it; the guest does the
    /// same thing every time.
    pub fn is_of_the_host(&self) -> bool {
        match self {
            Failure::NoQemu { .. }
            | Failure::QemuDied { .. }
            | Failure::QemuLost { .. }
            | Failure::NotBooted { .. }
            | Failure::Host { .. }
            | Failure::Prefix { .. }
            | Failure::Setting { .. }
            | Failure::RealTime { .. }
            | Failure::CpuTime { .. }
            | Failure::Profile { .. } => true,
            // More time changes nothing if all CPUs wait.
            Failure::CountedTime { cpus, .. } => cpus.iter().any(CpuPlace::works),
            Failure::Mute { after } => after.is_of_the_host(),
            Failure::Panic { .. }
            | Failure::VirtualTime { .. }
            | Failure::Silent { .. }
            | Failure::Garbled { .. }
            | Failure::Flood { .. }
            | Failure::Refused { .. }
            | Failure::Program { .. }
            | Failure::WrongWork { .. }
            | Failure::WrongKernel { .. }
            | Failure::NotRepeated => false,
        }
    }

    /// Party that can act; disk, permissions and settings of the host are not the guest's.
    pub fn blame(&self) -> Blame {
        match self {
            Failure::Host { .. } | Failure::Setting { .. } => Blame::Host,
            Failure::Mute { after } => after.blame(),
            _ => Blame::Guest,
        }
    }

    /// This failure of a kernel that printed nothing.
    #[must_use]
    pub fn mute(self) -> Failure {
        Failure::Mute { after: Box::new(self) }
    }

    /// Limit in seconds to try again with, if one in real or CPU time was reached.
    pub fn longer_limit_s(&self) -> Option<u64> {
        match self {
            Failure::RealTime { limit_s } | Failure::CpuTime { limit_s } => {
                Some(longer_limit(*limit_s))
            }
            Failure::CountedTime { limit_s, cpus } => {
                cpus.iter().any(CpuPlace::works).then(|| longer_limit(*limit_s))
            }
            Failure::Mute { after } => after.longer_limit_s(),
            _ => None,
        }
    }
}

fn or_empty(prefix: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{prefix}{text}") }
}

/// Limit in seconds for a second try.
fn longer_limit(limit_s: u64) -> u64 {
    limit_s.saturating_mul(5)
}

impl Failure {
    pub fn next_step(&self) -> Cow<'static, str> {
        let fixed = match self {
            Failure::RealTime { limit_s } | Failure::CpuTime { limit_s } => {
                return format!("{}; {WATCH_IT}", more_time(*limit_s)).into();
            }
            Failure::CountedTime { limit_s, .. } => match self.longer_limit_s() {
                Some(_) => return more_time(*limit_s).into(),
                None => WHO_WAITS,
            },
            Failure::Panic { .. } => {
                "read serial.log or runs/ROW.serial.log in the boot's directory"
            }
            Failure::VirtualTime { .. } => {
                "let a program wait less; for all else, read serial.log or runs/ROW.serial.log in \
                 the boot's directory, or run its argv by hand to watch it"
            }
            Failure::Silent { .. } => {
                "read serial.log or runs/ROW.serial.log in the boot's directory, and check that \
                 the kernel has initramfs support (CONFIG_BLK_DEV_INITRD) and runs x86-64 ELF \
                 binaries"
            }
            Failure::Mute { .. } => {
                "check that it is a kernel for x86-64 with enough memory; with `earlyprintk=ttyS0 \
                 ignore_loglevel` on its boot line serial.log may show where it stops"
            }
            Failure::Garbled { .. } => "read runs/ROW.wire.log in the boot's directory",
            Failure::Flood { .. } => "remove the workload, or make its program print less",
            Failure::Refused { message } => next_step_of_refusal(message),
            Failure::Program { message } => next_step_of_program(message),
            Failure::WrongWork { .. } => "compare the work signatures in comparison.json",
            Failure::WrongKernel { .. } => "plan again, because the kernel file has changed",
            Failure::NoQemu { .. } => "run `ktax doctor`",
            Failure::QemuDied { .. } => {
                "run argv of the boot's directory by hand; `ktax doctor` checks QEMU"
            }
            Failure::QemuLost { .. } => {
                "find out what ended it (`dmesg` names what the kernel killed for memory; --jobs 1 \
                 runs one VM at a time), then resume the run"
            }
            Failure::NotBooted { .. } => {
                "follow the next step of the boot that failed, then resume the run"
            }
            Failure::Host { .. } => {
                return format!(
                    "free {FREE_DISK_GIB} GiB of disk space or fix the permissions, then resume \
                     the run"
                )
                .into();
            }
            Failure::Prefix { .. } => {
                "install the program that the prefix names, and check that `PREFIX true` works; \
                 then resume the run"
            }
            Failure::Setting { .. } => "then resume the run",
            Failure::NotRepeated => DOES_NOT_REPEAT,
            Failure::Profile { .. } => "run `ktax doctor`, and report this with the run directory",
        };
        fixed.into()
    }

    /// Next step for one row of a timed Boot, of which only the end of a guest's console is kept.
    pub fn next_step_of_times(&self, is_guest: bool) -> Cow<'static, str> {
        use Failure::{Garbled, Panic, QemuDied, QemuLost, RealTime, Silent, WrongWork};
        match self {
            Panic { .. } | RealTime { .. } | Silent { .. } | QemuDied { .. } | QemuLost { .. }
                if is_guest =>
            {
                "read the guest's console in pairs/*.serial.log (no file if it was empty)".into()
            }
            RealTime { .. } | Silent { .. } | Garbled { .. } | WrongWork { .. } => {
                "try the row alone with `ktax workloads run`".into()
            }
            other => other.next_step(),
        }
    }

    /// Next step for a row of `ktax workloads run`, which keeps no files.
    pub fn next_step_natively(&self) -> Cow<'static, str> {
        use Failure::{Flood, Garbled, Host, RealTime, Refused, Silent, WrongWork};
        let fixed = match self {
            RealTime { .. } => "use a longer --time-limit, or parameters that make less work (-p)",
            Silent { .. } | Garbled { .. } | Flood { .. } | WrongWork { .. } => {
                "run the row again; if it fails again, report it with this message"
            }
            Refused { .. } => "enable what the message names, or use other parameters (-p)",
            Host { .. } => {
                return format!(
                    "free {FREE_DISK_GIB} GiB of disk space or fix the permissions, then run the \
                     row again"
                )
                .into();
            }
            other => return other.next_step(),
        };
        fixed.into()
    }
}

fn more_time(limit_s: u64) -> String {
    format!("resume the run with more time, --time-limit {}", longer_limit(limit_s))
}

const WATCH_IT: &str = "if it hangs, run argv of the boot's directory by hand to watch it";

const WHO_WAITS: &str = "read runs/ROW.serial.log in the boot's directory: a kernel with \
                         CONFIG_PROVE_LOCKING says there which locks its tasks hold";

const DOES_NOT_REPEAT: &str = "resume the run; if it fails again, this QEMU does not repeat with \
                               several CPUs: name another one with --qemu, such as 10.0, and plan \
                               again";

/// Next step for a workload that refused with this message.
fn next_step_of_refusal(message: &str) -> &'static str {
    if message.contains("failed the set-up") {
        "correct the commands of --setup (`setup`), which run before all rows"
    } else {
        "enable what the message names, or remove the workload"
    }
}

/// Next step for a program that failed with this message.
fn next_step_of_program(message: &str) -> &'static str {
    let begins = |with: &str| message.starts_with(with);
    if begins("its exit status is") {
        "correct the command, give --status N, or name what it needs with --file; runs/*.stdout \
         and runs/*.stderr of that boot have what it printed"
    } else if begins("it printed more than") {
        "let it print less, or print to a file of its own"
    } else if begins("it executed `") {
        "let it execute `begin` once and then `end` once, or neither; if it does, leave out \
         --warm-up, whose runs execute them, too"
    } else if begins("it printed too large a number") || begins("it printed no whole number") {
        "name a number below 2^59 that has nothing but digits"
    } else if begins("it printed no number") {
        "write with --number or --ops-from what it prints before the number, or an expression with \
         the number as a group, such as 'done (\\d+)'; runs/*.stdout and runs/*.stderr of that \
         boot have what it printed"
    } else if begins("its preparation failed") {
        "correct the commands of --prepare"
    } else {
        "correct the command, or name what it needs with --file"
    }
}

/// Party that can act on an error. The exit status follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The user: the command line, a file that the user wrote, or a run directory is wrong.
    User,
    /// The guest: its kernel cannot be built or booted, or nothing here can run a guest.
    Guest,
    /// The host: ktax itself, a full disk, a permission, another process.
    Host,
}

/// Free disk space that a comparison can need, in GiB: packages of kernels, and a snapshot of each
/// boot. Messages about a full disk name it.
pub const FREE_DISK_GIB: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuPlace, Doing};

    #[test]
    fn where_all_wait_more_time_is_no_help() {
        let place = |cpu, doing, function: &str| CpuPlace { cpu, doing, function: function.into() };
        let mut cpus = vec![
            place(0, Doing::Wait, "native_queued_spin_lock_slowpath"),
            place(1, Doing::Wait, "csd_lock_wait"),
            place(2, Doing::Idle, "native_safe_halt"),
        ];
        let late = Failure::CountedTime { limit_s: 180, cpus: cpus.clone() };
        assert_eq!(
            late.to_string(),
            "no result within 180 s of counted time; its CPUs wait for each other: CPU 0 in \
             native_queued_spin_lock_slowpath, CPU 1 in csd_lock_wait, CPU 2 is idle"
        );
        assert!(late.next_step().contains("CONFIG_PROVE_LOCKING"), "{}", late.next_step());
        assert!(!late.is_of_the_host() && late.longer_limit_s().is_none());
        cpus[1] = place(1, Doing::Work, "[user]");
        let late = Failure::CountedTime { limit_s: 8, cpus };
        assert_eq!(
            late.to_string(),
            "no result within 8 s of counted time: CPU 0 waits in \
             native_queued_spin_lock_slowpath, CPU 1 executes [user], CPU 2 is idle"
        );
        assert!(late.next_step().ends_with("--time-limit 40"), "{}", late.next_step());
        assert!(late.is_of_the_host());
    }

    #[test]
    fn a_limit_that_was_reached_is_longer_the_next_time() {
        let reached = Failure::CpuTime { limit_s: 8 };
        assert!(reached.next_step().contains("--time-limit 40;"));
        assert_eq!(reached.mute().longer_limit_s(), Some(40));
        assert_eq!(Failure::VirtualTime { limit_s: 8 }.longer_limit_s(), None);
    }
}
