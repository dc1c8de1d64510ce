//! Every limit of a Boot and a Run, in one place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::Timespec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How many instructions are a second of the time that the plugin counts. In a second of its CPU
/// time QEMU executes a little more where it translates much code, and ten times as many where CPUs
/// only wait.
const INSTRUCTIONS: u64 = 100_000_000;

/// How many times as long a host may take for them.
const SLOWEST: u32 = 3;

/// The limits of a guest.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The time of one Boot or one Run. If the guest's clock is counted, it is QEMU's CPU time,
    /// which nothing but the guest's own work adds to; and the longest real time in which that
    /// clock may stand still. Else it is real time, without the time that QEMU waits for a CPU.
    pub time: Duration,
    /// The same for a trial of a kernel, on whose end the user waits.
    pub trial: Duration,
    /// How many times of `time` QEMU may run where the plugin counts the time itself.
    pub slowest: u32,
    /// Whether the guest's clock counts instructions.
    pub is_counted: bool,
    /// The virtual time since power-on, in seconds.
    pub virtual_s: u64,
    /// The size of an ordinary answer on the wire, in bytes.
    pub wire_bytes: u64,
    /// The size of a symbol table on the wire, in bytes.
    pub symbols_bytes: u64,
    /// The size of the console's output, in bytes.
    pub console_bytes: u64,
    /// The time between two checks of a running guest.
    pub poll: Duration,
    /// The time that QEMU has to answer on its monitor, without the time that it waits for a CPU.
    pub monitor: Duration,
    /// The real time before the virtual clock is checked for the first time. Ordinary Runs are
    /// shorter, so asking does not disturb them.
    pub virtual_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            time: Duration::from_secs(180),
            slowest: 1,
            // Under KVM, a kernel boots within two.
            trial: Duration::from_secs(20),
            is_counted: true,
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
    /// The default limits, with this many seconds for a Boot, a Run or a trial.
    pub fn of_seconds(seconds: u64) -> Limits {
        let time = Duration::from_secs(seconds);
        Limits { time, trial: time, ..Limits::default() }
    }

    /// These limits, for a virtual clock that is not counted. It goes on while QEMU waits for a
    /// CPU, so only the limit in real time holds; and to ask for it disturbs the guest.
    #[must_use]
    pub fn without_virtual_time(self) -> Limits {
        Limits { is_counted: false, ..self }
    }

    /// These limits, for a machine with so many CPUs. QEMU's main thread answers when it is asked
    /// for the virtual clock, and where several CPUs are idle it matters when that thread awakes.
    /// The plugin ends several CPUs at the same instruction on every host; QEMU's CPU time is only
    /// for what it does not end, and a slow host must not be the first.
    #[must_use]
    pub fn of_cpus(self, cpus: u32) -> Limits {
        if cpus == 1 {
            return self;
        }
        Limits { virtual_grace: self.time * SLOWEST, slowest: SLOWEST, ..self }
    }

    /// The most CPU time of QEMU, if the guest's clock is counted.
    pub fn cpu_time(&self) -> Duration {
        self.time * self.slowest
    }

    /// The time of a Run of several CPUs as the plugin counts it: the same on every host.
    pub fn instructions(&self) -> u64 {
        self.time.as_secs().saturating_mul(INSTRUCTIONS)
    }

    /// The other way around, in seconds.
    pub fn seconds(instructions: u64) -> u64 {
        instructions / INSTRUCTIONS
    }

    /// These limits, for a trial.
    #[must_use]
    pub fn of_a_trial(self) -> Limits {
        Limits { time: self.trial, ..self }
    }
}

/// How long `ktax doctor` watches the CPUs: 50 ticks of the kernel's time accounting, 2 % each.
pub const LOOK_AT_CPUS: Duration = Duration::from_millis(500);

/// A duration as poll(2) expects it.
pub(super) fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// A flag that Ctrl-C and the end of the session raise. Every wait checks it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that SIGINT, SIGTERM and SIGHUP raise; SIGHUP does not if it is ignored (`nohup`).
    ///
    /// # Errors
    ///
    /// A signal handler cannot be installed.
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

    /// Whether the flag is raised.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Whether ktax was started with this signal ignored. Without /proc the answer is no.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_short_unless_the_user_waits_longer() {
        let usual = Limits::default();
        assert!(usual.clone().of_a_trial().time < usual.time);
        let longer = usual.trial + Duration::from_secs(40);
        assert_eq!(Limits::of_seconds(longer.as_secs()).of_a_trial().time, longer);
    }
}
