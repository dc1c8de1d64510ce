//! Every limit of a Boot and a Run, in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::Timespec;

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
}

/// A duration as poll takes it.
pub(super) fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// Set by Ctrl-C; every wait looks at it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that SIGINT and SIGTERM raise.
    pub fn on_signals() -> std::io::Result<Cancel> {
        let cancel = Cancel::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
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
