//! Limits of guests and programs, the clock by which they are measured, and the user's stop.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::noise::own_ticks;
use ktax_model::Failure;

/// Number of instructions that the plugin counts as a second. In a second of CPU time QEMU executes
/// a little more where it translates much code, and ten times as many where CPUs only wait.
const INSTRUCTIONS: u64 = 100_000_000;

/// Factor by which a host may take longer for them.
const SLOWEST: u32 = 3;

/// The limits of a guest.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The time of one Boot or one Run. If the guest's clock is counted, it is QEMU's CPU time,
    /// which nothing but the guest's own work adds to; and the longest real time in which that
    /// clock may stand still. Else it is real time, without the time that QEMU waits for a CPU.
    pub time: Duration,
    /// The time of a trial of a kernel, for whose end the user waits.
    pub trial: Duration,
    /// Factor of `time` that QEMU may run where the plugin counts the time itself.
    pub slowest: u32,
    /// True if the guest's clock counts instructions.
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
    /// Returns the default limits, with this many seconds for a Boot, a Run or a trial.
    pub fn with_seconds(seconds: u64) -> Limits {
        let time = Duration::from_secs(seconds);
        Limits { time, trial: time, ..Limits::default() }
    }

    /// Returns these limits for a virtual clock that is not counted. It goes on while QEMU waits
    /// for a CPU, so only the limit in real time holds; and to ask for it disturbs the guest.
    #[must_use]
    pub fn without_virtual_time(self) -> Limits {
        Limits { is_counted: false, ..self }
    }

    /// Returns these limits for a machine with so many CPUs. QEMU's main thread answers when it is
    /// asked for the virtual clock, and where several CPUs are idle it matters when that thread
    /// awakes. The plugin ends several CPUs at the same instruction on every host; QEMU's CPU time
    /// is only for what it does not end, and a slow host must not be the first.
    #[must_use]
    pub fn for_cpus(self, cpus: u32) -> Limits {
        if cpus == 1 {
            return self;
        }
        Limits { virtual_grace: self.time * SLOWEST, slowest: SLOWEST, ..self }
    }

    /// Returns the most CPU time of QEMU, if the guest's clock is counted.
    pub fn cpu_time(&self) -> Duration {
        self.time * self.slowest
    }

    /// Returns the time of a Run of several CPUs as the plugin counts it, in instructions: the same
    /// on every host.
    pub fn instructions(&self) -> u64 {
        self.time.as_secs().saturating_mul(INSTRUCTIONS)
    }

    pub fn seconds(instructions: u64) -> u64 {
        instructions / INSTRUCTIONS
    }

    #[must_use]
    pub fn for_trial(self) -> Limits {
        Limits { time: self.trial, ..self }
    }
}

/// The time for which `ktax doctor` watches the CPUs: 50 ticks of the kernel's time accounting, 2 %
/// each.
pub const LOOK_AT_CPUS: Duration = Duration::from_millis(500);

/// Converts a duration for poll(2).
pub fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// A flag that Ctrl-C and the end of the session raise. Every wait checks it.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Makes a flag that SIGINT, SIGTERM and SIGHUP raise; SIGHUP does not if it is ignored
    /// (`nohup`).
    pub fn on_signals() -> std::io::Result<Cancel> {
        let cancel = Cancel::default();
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            signal_hook::flag::register(signal, Arc::clone(&cancel.0))?;
        }
        Ok(cancel)
    }

    pub fn cancel(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Returns whether ktax was started with this signal ignored; false without /proc.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Measures the time of a process since a moment.
#[derive(Debug)]
pub(super) struct Clock {
    process: PathBuf,
    since: Instant,
    waited: Duration,
    ran: Duration,
}

impl Clock {
    pub fn new(process: u32) -> Clock {
        Clock::below(PathBuf::from(format!("/proc/{process}")))
    }

    /// Makes a clock for the process with this directory of /proc.
    pub(super) fn below(process: PathBuf) -> Clock {
        let (waited, ran) = (Duration::ZERO, Duration::ZERO);
        let mut clock = Clock { process, since: Instant::now(), waited, ran };
        clock.restart();
        clock
    }

    pub fn restart(&mut self) {
        self.waited = waited_for_a_cpu(&self.process);
        self.ran = cpu_time(&self.process);
        self.since = Instant::now();
    }

    #[cfg(test)]
    fn backdate(&mut self, by: Duration) {
        self.since -= by;
    }

    /// Returns the real time, with waits. Costs nothing.
    pub fn real(&self) -> Duration {
        self.since.elapsed()
    }

    /// Returns the CPU time of all threads. Neither other work nor a slow disk adds to it.
    pub fn ran(&self) -> Duration {
        cpu_time(&self.process).saturating_sub(self.ran)
    }

    /// Returns whether more real time than this has passed, without waits for a CPU.
    pub fn has_passed(&self, limit: Duration) -> bool {
        // The kernel's files are read only where the answer depends on them.
        self.real() > limit && {
            let waited = waited_for_a_cpu(&self.process).saturating_sub(self.waited);
            self.real().saturating_sub(waited) > limit
        }
    }
}

/// Returns how long the thread that waited longest has waited for a CPU: in QEMU, the one that runs
/// the guest. Zero on a kernel without schedstat.
fn waited_for_a_cpu(process: &Path) -> Duration {
    let wait_ns = |task: fs::DirEntry| {
        let line = fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    Duration::from_nanos(tasks.filter_map(wait_ns).max().unwrap_or(0))
}

/// Returns the CPU time of a process; zero for one that has ended. QEMU has no children, whose time
/// would be in it.
fn cpu_time(process: &Path) -> Duration {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let ticks = own_ticks(&stat).unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The deadline of one Boot or one Run.
pub(super) struct Deadline {
    clock: Clock,
    /// Virtual seconds at the last check, and a clock since then.
    seen: (u64, Clock),
}

impl Deadline {
    /// Starts now. `clock` makes a clock of the process.
    pub fn new(clock: impl Fn() -> Clock) -> Deadline {
        Deadline { clock: clock(), seen: (0, clock()) }
    }

    pub fn restart(&mut self) {
        self.clock.restart();
    }

    /// Checks every limit; `virtual_s` asks for the virtual seconds since power-on.
    pub fn check(
        &mut self,
        limits: &Limits,
        virtual_s: impl FnOnce() -> u64,
    ) -> Result<(), Failure> {
        let limit_s = limits.time.as_secs();
        if !limits.is_counted {
            let is_late = self.clock.has_passed(limits.time);
            return if is_late { Err(Failure::RealTime { limit_s }) } else { Ok(()) };
        }
        let is_late = self.clock.ran() > limits.cpu_time();
        if !is_late && self.clock.real() <= limits.virtual_grace {
            return Ok(());
        }
        // The question can no longer disturb a guest that is late.
        let virtual_s = virtual_s();
        if virtual_s > limits.virtual_s {
            return Err(Failure::VirtualTime { limit_s: limits.virtual_s });
        }
        if is_late {
            return Err(Failure::CpuTime { limit_s: limits.cpu_time().as_secs() });
        }
        if self.stands_still(limits, virtual_s) {
            return Err(Failure::RealTime { limit_s });
        }
        Ok(())
    }

    /// Returns whether the guest is halted for ever. Such a guest takes no CPU time; its clock
    /// stands still, unless a timer is left; then it flies. One that waits for the disk gets some
    /// of both.
    fn stands_still(&mut self, limits: &Limits, virtual_s: u64) -> bool {
        let (seen_s, since) = &mut self.seen;
        let went_on = virtual_s != *seen_s;
        if !went_on && !since.has_passed(limits.time) {
            return false;
        }
        // Answering the questions takes some CPU time as well.
        if !went_on && since.ran() < limits.time / 20 {
            return true;
        }
        *seen_s = virtual_s;
        since.restart();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn a_trial_is_short_unless_the_user_waits_longer() {
        let usual = Limits::default();
        assert!(usual.clone().for_trial().time < usual.time);
        let longer = usual.trial + Duration::from_secs(40);
        assert_eq!(Limits::with_seconds(longer.as_secs()).for_trial().time, longer);
    }

    #[test]
    fn time_without_a_cpu_does_not_count() {
        let mut clock = Clock::new(std::process::id());
        clock.since -= Duration::from_secs(60);
        assert!(clock.has_passed(Duration::from_secs(59)));
        assert!(!clock.has_passed(Duration::from_secs(100)));
        // As if it had waited for all of that time.
        let dir = tempfile::tempdir().unwrap();
        let tasks = dir.path().join("task");
        for (task, waited) in [("1", "0 7 1\n"), ("2", "5 60000000000 9\n"), ("3", "")] {
            fs::create_dir_all(tasks.join(task)).unwrap();
            fs::write(tasks.join(task).join("schedstat"), waited).unwrap();
        }
        clock.process = dir.path().to_owned();
        clock.waited = Duration::ZERO;
        assert!(!clock.has_passed(Duration::from_secs(59)));
        clock.restart();
        assert_eq!(clock.waited, Duration::from_secs(60));
    }

    #[test]
    fn only_time_on_a_cpu_is_cpu_time() {
        let dir = tempfile::tempdir().unwrap();
        let ran_for = |seconds: u64| {
            let ticks = seconds * rustix::param::clock_ticks_per_second();
            let line = format!("7 (a) b) R 1 7 7 0 -1 0 0 0 0 0 {ticks} {ticks} 0 0 20 0\n");
            fs::write(dir.path().join("stat"), line).unwrap();
        };
        ran_for(10);
        let mut clock = Clock::below(dir.path().to_owned());
        clock.since -= Duration::from_secs(3600);
        ran_for(13);
        assert_eq!(clock.ran(), Duration::from_secs(6));
        clock.restart();
        assert_eq!(clock.ran(), Duration::ZERO);
    }

    const LIMIT_S: u64 = 100;

    /// Files of a process that has run and waited for so long, in so many seconds.
    fn later(deadline: &mut Deadline, process: &Path, real_s: u64, ran_s: u64, waited_s: u64) {
        let ticks = ran_s * rustix::param::clock_ticks_per_second();
        let task = process.join("task/1");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(process.join("stat"), format!("1 (q) S{} {ticks} 0 0 0", " 0".repeat(10)))
            .unwrap();
        std::fs::write(task.join("schedstat"), format!("0 {waited_s}000000000 1")).unwrap();
        for clock in [&mut deadline.clock, &mut deadline.seen.1] {
            clock.backdate(Duration::from_secs(real_s));
        }
    }

    /// Checks a guest that has run for so long, and whose clock goes on or not.
    fn after(
        limits: &Limits,
        [real_s, ran_s, waited_s]: [u64; 3],
        virtual_s: u64,
    ) -> Option<Failure> {
        let process = tempfile::tempdir().unwrap();
        let mut deadline = Deadline::new(|| Clock::below(process.path().to_owned()));
        later(&mut deadline, process.path(), real_s, ran_s, waited_s);
        deadline.check(limits, || virtual_s).err()
    }

    #[test]
    fn other_work_on_the_host_ends_no_counted_guest_and_a_hang_ends() {
        let limits = Limits::with_seconds(LIMIT_S);
        let (cpu, real) = (Failure::CpuTime { limit_s: 100 }, Failure::RealTime { limit_s: 100 });
        for (times, virtual_s, expected) in [
            // A hang is busy: it ends when it has had its time, however long that takes.
            ([101, 101, 0], 50, Some(cpu.clone())),
            ([9000, 101, 0], 50, Some(cpu)),
            // It waits for a CPU, also where the kernel says nothing of the waits, or half of them.
            ([9000, 99, 8901], 0, None),
            ([9000, 99, 4000], 0, None),
            ([9000, 99, 0], 0, None),
            // It waits for a disk: a virtual second in hours is enough.
            ([9000, 2, 0], 1, None),
            // It is halted.
            ([99, 0, 0], 0, None),
            ([101, 0, 0], 0, Some(real.clone())),
            ([101, 0, 2], 0, None),
            // It sleeps, also if the clock is asked for the first time when it has had its time.
            ([10, 1, 0], 301, Some(Failure::VirtualTime { limit_s: 300 })),
            ([101, 101, 0], 301, Some(Failure::VirtualTime { limit_s: 300 })),
        ] {
            assert_eq!(after(&limits, times, virtual_s), expected, "{times:?} {virtual_s}");
        }
        let timed = limits.without_virtual_time();
        assert_eq!(after(&timed, [101, 0, 0], 999), Some(real));
        assert_eq!(after(&timed, [101, 0, 2], 999), None);
    }

    #[test]
    fn a_guest_that_halts_late_is_noticed_too() {
        let limits = Limits::with_seconds(LIMIT_S);
        let process = tempfile::tempdir().unwrap();
        let mut deadline = Deadline::new(|| Clock::below(process.path().to_owned()));
        for (real_s, ran_s, virtual_s, is_ok) in
            [(200, 20, 0, true), (90, 20, 3, true), (200, 20, 4, true), (101, 20, 4, false)]
        {
            later(&mut deadline, process.path(), real_s, ran_s, 0);
            assert_eq!(deadline.check(&limits, || virtual_s).is_ok(), is_ok, "{virtual_s}");
        }
    }
}
