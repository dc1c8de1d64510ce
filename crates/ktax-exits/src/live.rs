//! Records a running VM: the events of its vCPUs' threads, added up.
//!
//! ```text
//! tracepoints ─┬► program ─► kernel (eBPF) ─┬─► Recording ─► table ─► ExitTable
//!              └► ring ─► fold ─────────────┘
//! ```

mod kernel;
mod process;
mod program;
mod recorder;
mod ring;
mod stats;
mod timing;
mod tracepoints;

use std::fmt::Display;
use std::io;

use crate::recording::Recording;
use ktax_host::text::escape;
use ktax_model::{Error, ErrorKind, Result};

pub use process::{Process, by_name};
pub use recorder::{Recorder, RecorderChoice, Via};
pub use tracepoints::{Level, Names, Tracefs};

/// A source of events, which it adds up.
trait Source {
    /// Returns the name in tables.
    fn name(&self) -> &'static str;
    /// Takes new events; to be called some times a second.
    fn poll(&mut self) -> Result<()>;
    /// Returns all so far.
    fn recording(&self) -> Result<Recording>;
    /// Takes the last events and detaches from the kernel.
    fn finish(&mut self) -> Result<()>;
}

/// Returns CLOCK_MONOTONIC in ns, which is also the kernel's stamp of every event here.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// An error about the machine that ktax runs on. It may have names of other users' processes.
fn error(message: impl Display, next: impl Display) -> Error {
    let next = next.to_string();
    Error::host(escape(&message.to_string())).next(escape(&next))
}

/// How an error about eBPF begins.
const NO_EBPF: &str = "this kernel refuses eBPF";

fn no_ebpf(reason: io::Error) -> Error {
    error(format!("{NO_EBPF} ({reason})"), "use --via perf").kind(ErrorKind::NoEbpf)
}

fn cannot_watch(event: &str, reason: io::Error) -> Error {
    error(format!("cannot watch {event} ({reason})"), "run ktax as root, or with CAP_PERFMON")
}

#[cfg(test)]
mod tests;
