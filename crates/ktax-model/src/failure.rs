// The messages say what the fields are.
#![allow(missing_docs)]

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::blame::Blame;
use super::parallel::{CpuPlace, say_places};

/// Why a Boot or a Run has no Sample. Text from the guest is escaped before it gets in here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
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
    /// Of several CPUs: no result within the time that the plugin counts.
    #[error("no result within {limit_s} s of counted time{}", say_places(.cpus))]
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
    /// A program of the user's did not do what it must, or could not be counted.
    #[error("the program failed: {message}")]
    Program { message: String },
    /// The Workload ran and did not do what it must.
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
    /// Whether the host may be the reason, so that trying again is worth it; all others are the
    /// guest's, which does the same thing every time.
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
            // More time changes nothing where all wait.
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

    /// Who can do something about it: the host's disk, permissions and settings are no guest's.
    pub fn blame(&self) -> Blame {
        match self {
            Failure::Host { .. } | Failure::Setting { .. } => Blame::Host,
            Failure::Mute { after } => after.blame(),
            _ => Blame::Guest,
        }
    }

    /// This, of a kernel that printed nothing.
    #[must_use]
    pub fn mute(self) -> Failure {
        Failure::Mute { after: Box::new(self) }
    }

    /// The limit in seconds to try again with, if one in real or CPU time was reached.
    pub fn longer_limit_s(&self) -> Option<u64> {
        match self {
            Failure::RealTime { limit_s } | Failure::CpuTime { limit_s } => Some(longer(*limit_s)),
            Failure::CountedTime { limit_s, cpus } => {
                cpus.iter().any(CpuPlace::works).then(|| longer(*limit_s))
            }
            Failure::Mute { after } => after.longer_limit_s(),
            _ => None,
        }
    }
}

fn or_empty(prefix: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{prefix}{text}") }
}

/// A limit in seconds that is worth a second try.
pub(super) fn longer(limit_s: u64) -> u64 {
    limit_s.saturating_mul(5)
}
