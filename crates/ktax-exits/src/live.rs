//! Records a running VM: the events of its vCPUs' threads, added up.
//!
//! ```text
//! tracepoints ─┬► program ─► kernel (eBPF) ─┬─► Recording ─► table ─► ExitTable
//!              └► ring ─► fold ─────────────┘
//! ```

mod bpf;
mod kernel;
mod process;
mod program;
mod recorder;
mod ring;
mod stats;
mod timing;
mod tracepoints;

use std::io;

use thiserror::Error;

use ktax_model::Blame;

pub use process::{Process, by_name};
pub use recorder::{Recorder, RecorderChoice, Via};
pub use tracepoints::{EventFormat, Level, Names, Tracefs};

/// Why nothing can be recorded. Each message ends with the next step.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LiveError {
    #[error(
        "the kernel's trace file system is not mounted; {}type: \
         sudo mount -t tracefs nodev /sys/kernel/tracing. --via stats needs no tracefs, but only \
         counts",
        if *.is_root { "" } else { "run ktax as root, or with CAP_BPF and CAP_PERFMON, and first " }
    )]
    NoTracefs { is_root: bool },
    #[error(
        "cannot read this kernel's tracepoints, because the kernel is locked down (see \
         /sys/kernel/security/lockdown); boot it without lockdown=confidentiality, or use \
         --via stats"
    )]
    LockedDown,
    #[error(
        "not allowed to {what}; run ktax as root, or with CAP_BPF and CAP_PERFMON; --via stats \
         needs no tracefs, but only counts"
    )]
    NotAllowed { what: &'static str },
    #[error(
        "this kernel has no tracepoint {event}; load KVM with `sudo modprobe {module}`, or use a \
         kernel with CONFIG_KVM and CONFIG_FTRACE_SYSCALLS",
        module = module(.event)
    )]
    NoEvent { event: &'static str },
    #[error(
        "KVM of this processor ({kvm}) reports exits and no entries, so their time is unknown; use \
         --via timing, or --level run"
    )]
    NoEntries { kvm: &'static str },
    #[error("this kernel refuses eBPF ({reason}); use --via perf")]
    Bpf { reason: String },
    #[error("cannot watch {event} ({reason}); run ktax as root, or with CAP_PERFMON")]
    Attach { event: String, reason: String },
    #[error(
        "cannot read KVM's statistics: {reason}; use a VMM that opens them, such as QEMU 8, \
         and run ktax as the VMM's user"
    )]
    Stats { reason: String },
    #[error(
        "cannot read KVM's timing files: {reason}. Only PowerPC has them, on a kernel that is \
         not locked down and has CONFIG_KVM_EXIT_TIMING, CONFIG_KVM_BOOK3S_HV_P8_TIMING or \
         CONFIG_KVM_BOOK3S_HV_P9_TIMING; type `sudo mount -t debugfs nodev /sys/kernel/debug`, \
         and run ktax as root"
    )]
    ExitTimes { reason: String },
    #[error("there is no process {pid}; list VMs with `ps -C qemu-system-x86_64`")]
    NoProcess { pid: u32 },
    #[error(
        "process {pid} ({name}) runs no KVM guest; give the PID of the VMM itself, \
         such as qemu-system-x86_64"
    )]
    NoVm { pid: u32, name: String },
    #[error("no VM is named {name}{}", name_others(.there))]
    NoName { name: String, there: Vec<String> },
    #[error("several VMs are named {name}: processes {}; choose one with --pid", join_pids(.pids))]
    SeveralOfName { name: String, pids: Vec<u32> },
    #[error(
        "ktax runs in a PID namespace of its own, where the kernel's thread IDs do not match; run \
         ktax on the host"
    )]
    Namespace,
    #[error("{operation}: {reason}; try again, or report it")]
    Host { operation: &'static str, reason: String },
}

impl From<LiveError> for ktax_model::Error {
    fn from(error: LiveError) -> ktax_model::Error {
        // The message has names of other users' processes.
        ktax_model::Error::blamed(error.blame(), ktax_host::text::escape(&error.to_string()))
    }
}

impl LiveError {
    /// Who can do something about it: all of these are about the machine that ktax runs on.
    pub fn blame(&self) -> Blame {
        Blame::Host
    }

    pub(super) fn bpf(error: io::Error) -> LiveError {
        LiveError::Bpf { reason: error.to_string() }
    }

    pub(super) fn attach(event: &str, error: io::Error) -> LiveError {
        LiveError::Attach { event: event.to_owned(), reason: error.to_string() }
    }
}

/// The module of KVM with this tracepoint.
fn module(event: &str) -> &str {
    if event.starts_with("kvm_hv/") { "kvm_hv" } else { "kvm" }
}

fn name_others(there: &[String]) -> String {
    match there {
        [] => ", and no VM is running; start the VM first".to_owned(),
        some => format!("; name one of {}, or use --pid", some.join(", ")),
    }
}

fn join_pids(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
