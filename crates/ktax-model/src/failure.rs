//! Failures of Boots and Runs with their next steps, and the party that can fix an error.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::CpuPosition;
use crate::run::places_text;

/// Reasons why a Boot or a Run has no Sample. Text from the guest is already escaped.
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
    /// No result within the limit of the time that the plugin counts for several CPUs.
    #[error("no result within {limit_s} s of counted time{}", places_text(.cpus))]
    CountedTime { limit_s: u64, cpus: Vec<CpuPosition> },
    /// The guest finished without an answer.
    #[error("the guest ended without an answer{}", or_empty(": the console says ", .console))]
    #[serde(rename = "silent")]
    NoAnswer { console: String },
    /// The kernel printed nothing, neither an answer nor on its console.
    #[error("the kernel stopped before it printed anything: {cause}")]
    #[serde(rename = "mute")]
    NoOutput {
        #[serde(rename = "after")]
        cause: Box<Failure>,
    },
    /// The answer is not in the wire format.
    #[error("the guest's answer is garbled: {reason}")]
    Garbled { reason: String },
    /// The guest wrote more than the limit.
    #[error("the guest wrote more than {limit_bytes} bytes")]
    Flood { limit_bytes: u64 },
    /// The Workload reported that it cannot run.
    #[error("the workload could not run: {message}")]
    Refused { message: String },
    /// A user's program did not do its work, or could not be counted.
    #[error("the program failed: {message}")]
    Program { message: String },
    /// The Workload ran and did not do its work.
    #[error("the workload did not do its work: {deviations}")]
    WrongWork { deviations: String },
    /// The guest runs a different kernel than planned.
    #[error("the guest runs {found}, but the plan has {planned}")]
    WrongKernel { planned: String, found: String },
    /// QEMU could not be started.
    #[error("QEMU could not be started: {reason}")]
    NoQemu { reason: String },
    /// QEMU exited before the guest was done.
    #[error("QEMU ended early ({status}){}", or_empty(": ", .stderr))]
    QemuDied { status: String, stderr: String },
    /// QEMU was killed, or stopped answering.
    #[error("QEMU was lost: {reason}")]
    QemuLost { reason: String },
    /// An earlier Boot of the same Side failed, so this Boot was not made.
    #[error("not booted, because boot {first} of the same side failed")]
    NotBooted { first: String },
    /// A file could not be written or read on the host.
    #[error("{operation}: {reason}")]
    Host { operation: String, reason: String },
    /// The prefix command could not be run, or did not run the Workload. Text is escaped.
    #[error("the prefix {command:?} did not run the workload: {reason}")]
    Prefix { command: String, reason: String },
    /// A setting of the running kernel could not be changed or restored.
    #[error("{reason}")]
    Setting { reason: String },
    /// Two Runs from one Snapshot, with several CPUs, executed different instructions.
    #[error("two runs of it from one snapshot executed different instructions")]
    NotRepeated,
    /// The plugin's profile is malformed, or its sums are inconsistent.
    #[error("the plugin's profile cannot be used: {reason}")]
    Profile { reason: String },
}

impl Failure {
    /// True if the host may be the cause, so that a second try may succeed. A guest is
    /// deterministic and would fail again.
    pub fn is_worth_retrying(&self) -> bool {
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
            // If all CPUs wait, a longer limit does not help.
            Failure::CountedTime { cpus, .. } => cpus.iter().any(CpuPosition::is_working),
            Failure::NoOutput { cause } => cause.is_worth_retrying(),
            Failure::Panic { .. }
            | Failure::VirtualTime { .. }
            | Failure::NoAnswer { .. }
            | Failure::Garbled { .. }
            | Failure::Flood { .. }
            | Failure::Refused { .. }
            | Failure::Program { .. }
            | Failure::WrongWork { .. }
            | Failure::WrongKernel { .. }
            | Failure::NotRepeated => false,
        }
    }

    /// Party that can fix the failure: the host for its disk, permissions and settings, else the
    /// guest.
    pub fn blame(&self) -> Blame {
        match self {
            Failure::Host { .. } | Failure::Setting { .. } => Blame::Host,
            Failure::NoOutput { cause } => cause.blame(),
            _ => Blame::Guest,
        }
    }

    /// Wraps this failure of a kernel that printed nothing.
    #[must_use]
    pub fn without_output(self) -> Failure {
        Failure::NoOutput { cause: Box::new(self) }
    }

    /// Limit in seconds for a second try, if a limit was reached that a second try may meet.
    pub fn longer_limit_s(&self) -> Option<u64> {
        match self {
            Failure::RealTime { limit_s } | Failure::CpuTime { limit_s } => {
                Some(longer_limit(*limit_s))
            }
            Failure::CountedTime { limit_s, cpus } => {
                cpus.iter().any(CpuPosition::is_working).then(|| longer_limit(*limit_s))
            }
            Failure::NoOutput { cause } => cause.longer_limit_s(),
            _ => None,
        }
    }
}

/// `text` behind `prefix`, or nothing if `text` is empty.
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
                return format!("{}; {WATCH_QEMU}", more_time(*limit_s)).into();
            }
            Failure::CountedTime { limit_s, .. } => match self.longer_limit_s() {
                Some(_) => return more_time(*limit_s).into(),
                None => READ_LOCKS,
            },
            Failure::Panic { .. } => {
                "read serial.log or runs/ROW.serial.log in the boot's directory"
            }
            Failure::VirtualTime { .. } => {
                "let a program wait less; for all else, read serial.log or runs/ROW.serial.log in \
                 the boot's directory, or run its argv by hand to watch it"
            }
            Failure::NoAnswer { .. } => {
                "read serial.log or runs/ROW.serial.log in the boot's directory, and check that \
                 the kernel has initramfs support (CONFIG_BLK_DEV_INITRD) and runs x86-64 ELF \
                 binaries"
            }
            Failure::NoOutput { .. } => {
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
            Failure::NotRepeated => RETRY_OTHER_QEMU,
            Failure::Profile { .. } => "run `ktax doctor`, and report this with the run directory",
        };
        fixed.into()
    }

    /// Next step for a row of a timed Boot. Timed Boots keep only the end of a guest's console.
    pub fn timed_next_step(&self, is_guest: bool) -> Cow<'static, str> {
        use Failure::{Garbled, NoAnswer, Panic, QemuDied, QemuLost, RealTime, WrongWork};
        match self {
            Panic { .. }
            | RealTime { .. }
            | NoAnswer { .. }
            | QemuDied { .. }
            | QemuLost { .. }
                if is_guest =>
            {
                "read the guest's console in pairs/*.serial.log (no file if it was empty)".into()
            }
            RealTime { .. } | NoAnswer { .. } | Garbled { .. } | WrongWork { .. } => {
                "try the row alone with `ktax workloads run`".into()
            }
            other => other.next_step(),
        }
    }

    /// Next step for a row of `ktax workloads run`, which keeps no files.
    pub fn native_next_step(&self) -> Cow<'static, str> {
        use Failure::{Flood, Garbled, Host, NoAnswer, RealTime, Refused, WrongWork};
        let fixed = match self {
            RealTime { .. } => "use a longer --time-limit, or parameters that make less work (-p)",
            NoAnswer { .. } | Garbled { .. } | Flood { .. } | WrongWork { .. } => {
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

const WATCH_QEMU: &str = "if it hangs, run argv of the boot's directory by hand to watch it";

const READ_LOCKS: &str = "read runs/ROW.serial.log in the boot's directory: a kernel with \
                         CONFIG_PROVE_LOCKING says there which locks its tasks hold";

const RETRY_OTHER_QEMU: &str = "resume the run; if it fails again, this QEMU does not repeat with \
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
    let begins = |prefix: &str| message.starts_with(prefix);
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

/// Party that can fix an error; the exit status follows from the party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The user: the command line, a file that the user wrote, or a run directory is wrong.
    User,
    /// The guest: its kernel cannot be built or booted, or nothing here can run a guest.
    Guest,
    /// The host: ktax itself, a full disk, a permission, another process.
    Host,
}

/// Disk space that messages about a full disk ask for, in GiB: room for packages of kernels and a
/// snapshot of each boot.
pub const FREE_DISK_GIB: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuActivity, CpuPosition};

    #[test]
    fn a_deadlock_of_all_cpus_is_not_retried() {
        let position = |cpu, activity, function: &str| CpuPosition {
            cpu,
            activity,
            function: function.into(),
        };
        let mut cpus = vec![
            position(0, CpuActivity::Wait, "native_queued_spin_lock_slowpath"),
            position(1, CpuActivity::Wait, "csd_lock_wait"),
            position(2, CpuActivity::Idle, "native_safe_halt"),
        ];
        let late = Failure::CountedTime { limit_s: 180, cpus: cpus.clone() };
        assert_eq!(
            late.to_string(),
            "no result within 180 s of counted time; its CPUs wait for each other: CPU 0 in \
             native_queued_spin_lock_slowpath, CPU 1 in csd_lock_wait, CPU 2 is idle"
        );
        assert!(late.next_step().contains("CONFIG_PROVE_LOCKING"), "{}", late.next_step());
        assert!(!late.is_worth_retrying() && late.longer_limit_s().is_none());
        cpus[1] = position(1, CpuActivity::Work, "[user]");
        let late = Failure::CountedTime { limit_s: 8, cpus };
        assert_eq!(
            late.to_string(),
            "no result within 8 s of counted time: CPU 0 waits in \
             native_queued_spin_lock_slowpath, CPU 1 executes [user], CPU 2 is idle"
        );
        assert!(late.next_step().ends_with("--time-limit 40"), "{}", late.next_step());
        assert!(late.is_worth_retrying());
    }

    #[test]
    fn next_steps_ask_for_longer_limits() {
        let reached = Failure::CpuTime { limit_s: 8 };
        assert!(reached.next_step().contains("--time-limit 40;"));
        assert_eq!(reached.without_output().longer_limit_s(), Some(40));
        assert_eq!(Failure::VirtualTime { limit_s: 8 }.longer_limit_s(), None);
    }
}
