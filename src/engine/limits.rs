//! Every limit of a Boot and a Run, in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::Timespec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// What no guest may exceed.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Real time for one Boot or one Run.
    pub real: Duration,
    /// Virtual time since power-on.
    pub virtual_s: u64,
    /// Bytes on the wire in an ordinary answer.
    pub wire_bytes: u64,
    /// Bytes on the wire for a symbol table.
    pub symbols_bytes: u64,
    /// Bytes on the console.
    pub console_bytes: u64,
    /// How often the state of a living guest is looked at.
    pub poll: Duration,
    /// How long QEMU may take to answer its monitor.
    pub monitor: Duration,
    /// How long a guest lives before its virtual clock is looked at: no ordinary Run is ever asked.
    pub virtual_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            real: Duration::from_secs(180),
            virtual_s: 300,
            wire_bytes: 1 << 20,
            symbols_bytes: 64 << 20,
            console_bytes: 16 << 20,
            poll: Duration::from_millis(200),
            monitor: Duration::from_secs(20),
            virtual_grace: Duration::from_secs(3),
        }
    }
}

impl Limits {
    /// The usual ones, with this many seconds of real time.
    pub fn of_real_time(seconds: u64) -> Limits {
        Limits { real: Duration::from_secs(seconds), ..Limits::default() }
    }

    /// Of a kernel that is only tried, with somebody waiting for it: one that boots takes a second
    /// or two under KVM.
    pub fn of_a_trial() -> Limits {
        Limits { monitor: Duration::from_secs(5), ..Limits::of_real_time(20) }
    }
}

/// How long `ktax doctor` looks at the CPUs: 50 ticks of the kernel's accounts, so 2 % each.
pub const LOOK_AT_CPUS: Duration = Duration::from_millis(500);

/// A duration as poll takes it.
pub(super) fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// Set by Ctrl-C, and where the session ends; every wait looks at it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that SIGINT, SIGTERM and SIGHUP raise; the last not behind `nohup`.
    pub fn on_signals() -> std::io::Result<Cancel> {
        let cancel = Cancel::default();
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            signal_hook::flag::register(signal, Arc::clone(&cancel.0))?;
        }
        Ok(cancel)
    }

    /// Raises the flag.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Whether whoever started ktax wants a signal ignored; without /proc nobody does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
