//! Limits of guests and programs, the clock by which they are measured, and cancellation.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::noise::parse_own_ticks;
use ktax_model::Failure;

/// Number of instructions that the plugin counts as a second. In a second of CPU time QEMU executes
/// a little more instructions than this while it translates much code, and ten times as many while
/// CPUs only wait.
const INSTRUCTIONS_PER_SECOND: u64 = 100_000_000;

/// QEMU may use this multiple of the limit of counted time as CPU time, so that a slow host does
/// not reach its own limit first.
const SLOW_HOST_FACTOR: u32 = 3;

/// The limits of a guest.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The time of one Boot or one Run. If the guest's clock counts instructions, this limits
    /// QEMU's CPU time, which other work on the host does not change, and the real time in which
    /// the guest's clock may stand still. Otherwise it limits real time, without waits of QEMU for
    /// a CPU.
    pub time: Duration,
    /// The time of a trial boot; short, because the user waits for it.
    pub trial_time: Duration,
    /// QEMU's CPU time may be this factor times `time`; above 1 if the plugin limits the
    /// instructions.
    pub cpu_time_factor: u32,
    /// True if the guest's clock counts instructions.
    pub is_clock_counted: bool,
    /// The virtual time since power-on, in seconds.
    pub virtual_s: u64,
    /// The largest answer on the wire except a symbol table, in bytes.
    pub wire_bytes: u64,
    /// The largest symbol table on the wire, in bytes.
    pub symbols_bytes: u64,
    /// The largest output on the console, in bytes.
    pub console_bytes: u64,
    /// The time between two checks of a running guest.
    pub poll: Duration,
    /// The time in which QEMU must answer on its monitor, without waits of QEMU for a CPU.
    pub monitor: Duration,
    /// The real time before ktax asks for the virtual clock. Ordinary Runs are shorter, so the
    /// question does not disturb them.
    pub virtual_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            time: Duration::from_secs(180),
            cpu_time_factor: 1,
            // Under KVM a kernel boots within two seconds.
            trial_time: Duration::from_secs(20),
            is_clock_counted: true,
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
        Limits { time, trial_time: time, ..Limits::default() }
    }

    /// Returns these limits for a guest whose clock follows real time. Only the limit in real time
    /// holds: the clock also goes on while QEMU waits for a CPU, and a question for it would
    /// disturb the guest.
    #[must_use]
    pub fn without_virtual_time(self) -> Limits {
        Limits { is_clock_counted: false, ..self }
    }

    /// Returns these limits for a machine with this number of CPUs.
    ///
    /// With several CPUs, the plugin ends the machine at the same instruction on every host. The
    /// limit of QEMU's CPU time is for hangs that the plugin does not end, so it is long enough
    /// that a slow host does not reach it first. ktax asks for the virtual clock only then: the
    /// answer wakes QEMU's main thread, which changes the counts while several CPUs are idle.
    #[must_use]
    pub fn for_cpus(self, cpus: u32) -> Limits {
        if cpus == 1 {
            return self;
        }
        let factor = SLOW_HOST_FACTOR;
        Limits { virtual_grace: self.time * factor, cpu_time_factor: factor, ..self }
    }

    /// Returns the limit of QEMU's CPU time, which holds if the guest's clock counts instructions.
    pub fn cpu_time(&self) -> Duration {
        self.time * self.cpu_time_factor
    }

    /// Returns the largest number of instructions of a Run of several CPUs. It is the same on every
    /// host.
    pub fn instructions(&self) -> u64 {
        self.time.as_secs().saturating_mul(INSTRUCTIONS_PER_SECOND)
    }

    /// Converts a number of instructions from [`Limits::instructions`] back to seconds.
    pub fn counted_seconds(instructions: u64) -> u64 {
        instructions / INSTRUCTIONS_PER_SECOND
    }

    /// Returns the time between two checks of a VM that reads its device state, which takes tens of
    /// milliseconds in each Run: a longer time would slow down every Run.
    pub fn resume_poll(&self) -> Duration {
        self.poll / 50
    }

    /// Returns the time between two checks of a VM that writes its device state, which happens once
    /// in each Boot.
    pub fn freeze_poll(&self) -> Duration {
        self.poll / 10
    }

    /// Returns these limits for a trial boot.
    #[must_use]
    pub fn for_trial(self) -> Limits {
        Limits { time: self.trial_time, ..self }
    }
}

/// The time for which `ktax doctor` watches how busy the CPUs are: 50 ticks of the kernel's time
/// accounting, so that a tick is 2 %.
pub const CPU_WATCH_TIME: Duration = Duration::from_millis(500);

/// Converts a duration for poll(2).
pub fn timespec(time: Duration) -> Timespec {
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// A flag that Ctrl-C and the end of the session raise. The loops that wait for guests, programs
/// and locks check the flag.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Makes a flag that SIGINT and SIGTERM raise, and SIGHUP unless ktax was started with SIGHUP
    /// ignored (`nohup`).
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

/// Measures the real time and the CPU time of a process since a start.
#[derive(Debug)]
pub(super) struct Clock {
    /// The directory of the process in /proc.
    process: PathBuf,
    start: Instant,
    /// The longest wait of a thread for a CPU until the start.
    wait_at_start: Duration,
    /// The CPU time until the start.
    cpu_time_at_start: Duration,
}

impl Clock {
    pub fn new(pid: u32) -> Clock {
        Clock::for_directory(PathBuf::from(format!("/proc/{pid}")))
    }

    /// Makes a clock for the process with this directory in /proc.
    pub(super) fn for_directory(process: PathBuf) -> Clock {
        let (wait_at_start, cpu_time_at_start) = (Duration::ZERO, Duration::ZERO);
        let start = Instant::now();
        let mut clock = Clock { process, start, wait_at_start, cpu_time_at_start };
        clock.restart();
        clock
    }

    pub fn restart(&mut self) {
        self.wait_at_start = longest_wait(&self.process);
        self.cpu_time_at_start = cpu_time(&self.process);
        self.start = Instant::now();
    }

    #[cfg(test)]
    fn backdate(&mut self, time: Duration) {
        self.start -= time;
    }

    /// Returns the real time since the start, with waits for a CPU. Reads no file.
    pub fn real_time(&self) -> Duration {
        self.start.elapsed()
    }

    /// Returns the CPU time of all threads since the start. Neither other work on the host nor a
    /// slow disk adds to it.
    pub fn cpu_time(&self) -> Duration {
        cpu_time(&self.process).saturating_sub(self.cpu_time_at_start)
    }

    /// Returns whether more real time than `limit` has passed, not counting waits for a CPU.
    pub fn has_passed(&self, limit: Duration) -> bool {
        // Read the kernel's files only if the result depends on them.
        self.real_time() > limit && {
            let waited = longest_wait(&self.process).saturating_sub(self.wait_at_start);
            self.real_time().saturating_sub(waited) > limit
        }
    }
}

/// Returns the longest time that a thread of the process has waited for a CPU. In QEMU this is the
/// thread that runs the guest. Zero on a kernel without schedstat.
fn longest_wait(process: &Path) -> Duration {
    let wait_ns = |task: fs::DirEntry| {
        let line = fs::read_to_string(task.path().join("schedstat")).ok()?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    Duration::from_nanos(tasks.filter_map(wait_ns).max().unwrap_or(0))
}

/// Returns the CPU time of a process; zero for a process that has ended. The time of children would
/// be included, but QEMU has none.
fn cpu_time(process: &Path) -> Duration {
    let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
    let ticks = parse_own_ticks(&stat).unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The deadline of one Boot or one Run.
pub(super) struct Deadline {
    clock: Clock,
    /// The virtual clock when it was last seen to advance, in seconds, and the time since then.
    last_advance: (u64, Clock),
}

impl Deadline {
    /// Starts the limits now. `start_clock` makes a clock of the process.
    pub fn new(start_clock: impl Fn() -> Clock) -> Deadline {
        Deadline { clock: start_clock(), last_advance: (0, start_clock()) }
    }

    pub fn restart(&mut self) {
        self.clock.restart();
    }

    /// Checks every limit. `virtual_s` asks QEMU for the virtual seconds since power-on.
    pub fn check(
        &mut self,
        limits: &Limits,
        virtual_s: impl FnOnce() -> u64,
    ) -> Result<(), Failure> {
        let limit_s = limits.time.as_secs();
        if !limits.is_clock_counted {
            let is_late = self.clock.has_passed(limits.time);
            return if is_late { Err(Failure::RealTime { limit_s }) } else { Ok(()) };
        }
        let is_late = self.clock.cpu_time() > limits.cpu_time();
        if !is_late && self.clock.real_time() <= limits.virtual_grace {
            return Ok(());
        }
        // A guest that is late is ended, so the question may disturb it.
        let virtual_s = virtual_s();
        if virtual_s > limits.virtual_s {
            return Err(Failure::VirtualTime { limit_s: limits.virtual_s });
        }
        if is_late {
            return Err(Failure::CpuTime { limit_s: limits.cpu_time().as_secs() });
        }
        if self.is_stalled(limits, virtual_s) {
            return Err(Failure::RealTime { limit_s });
        }
        Ok(())
    }

    /// Returns whether the guest is halted for ever: its clock stands still, and QEMU takes almost
    /// no CPU time. The clock of a halted guest with a pending timer runs fast instead, and reaches
    /// the limit of virtual time. While QEMU waits for the disk, both the clock and the CPU time
    /// advance a little.
    fn is_stalled(&mut self, limits: &Limits, virtual_s: u64) -> bool {
        let (last_s, since) = &mut self.last_advance;
        let has_advanced = virtual_s != *last_s;
        if !has_advanced && !since.has_passed(limits.time) {
            return false;
        }
        // QEMU also takes some CPU time to answer ktax: a twentieth of the time is more than that.
        if !has_advanced && since.cpu_time() < limits.time / 20 {
            return true;
        }
        *last_s = virtual_s;
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
        let longer = usual.trial_time + Duration::from_secs(40);
        assert_eq!(Limits::with_seconds(longer.as_secs()).for_trial().time, longer);
    }

    #[test]
    fn waits_for_a_cpu_do_not_count() {
        let mut clock = Clock::new(std::process::id());
        clock.backdate(Duration::from_secs(60));
        assert!(clock.has_passed(Duration::from_secs(59)));
        assert!(!clock.has_passed(Duration::from_secs(100)));
        // The process has waited for a CPU for all of that time.
        let dir = tempfile::tempdir().unwrap();
        let tasks = dir.path().join("task");
        for (task, waited) in [("1", "0 7 1\n"), ("2", "5 60000000000 9\n"), ("3", "")] {
            fs::create_dir_all(tasks.join(task)).unwrap();
            fs::write(tasks.join(task).join("schedstat"), waited).unwrap();
        }
        clock.process = dir.path().to_owned();
        clock.wait_at_start = Duration::ZERO;
        assert!(!clock.has_passed(Duration::from_secs(59)));
        clock.restart();
        assert_eq!(clock.wait_at_start, Duration::from_secs(60));
    }

    #[test]
    fn cpu_time_is_read_from_proc() {
        let dir = tempfile::tempdir().unwrap();
        let ran_for = |seconds: u64| {
            let ticks = seconds * rustix::param::clock_ticks_per_second();
            let line = format!("7 (a) b) R 1 7 7 0 -1 0 0 0 0 0 {ticks} {ticks} 0 0 20 0\n");
            fs::write(dir.path().join("stat"), line).unwrap();
        };
        ran_for(10);
        let mut clock = Clock::for_directory(dir.path().to_owned());
        clock.backdate(Duration::from_secs(3600));
        ran_for(13);
        assert_eq!(clock.cpu_time(), Duration::from_secs(6));
        clock.restart();
        assert_eq!(clock.cpu_time(), Duration::ZERO);
    }

    const LIMIT_S: u64 = 100;

    /// Writes the files of a process with this CPU time and this wait for a CPU, and lets this real
    /// time pass.
    fn advance(deadline: &mut Deadline, process: &Path, real_s: u64, ran_s: u64, waited_s: u64) {
        let ticks = ran_s * rustix::param::clock_ticks_per_second();
        let task = process.join("task/1");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(process.join("stat"), format!("1 (q) S{} {ticks} 0 0 0", " 0".repeat(10)))
            .unwrap();
        std::fs::write(task.join("schedstat"), format!("0 {waited_s}000000000 1")).unwrap();
        for clock in [&mut deadline.clock, &mut deadline.last_advance.1] {
            clock.backdate(Duration::from_secs(real_s));
        }
    }

    /// Checks a guest with these times and this virtual clock.
    fn check_after(
        limits: &Limits,
        [real_s, ran_s, waited_s]: [u64; 3],
        virtual_s: u64,
    ) -> Option<Failure> {
        let process = tempfile::tempdir().unwrap();
        let mut deadline = Deadline::new(|| Clock::for_directory(process.path().to_owned()));
        advance(&mut deadline, process.path(), real_s, ran_s, waited_s);
        deadline.check(limits, || virtual_s).err()
    }

    #[test]
    fn only_the_guests_own_time_ends_a_counted_guest() {
        let limits = Limits::with_seconds(LIMIT_S);
        let (cpu, real) = (Failure::CpuTime { limit_s: 100 }, Failure::RealTime { limit_s: 100 });
        for (times, virtual_s, expected) in [
            // A busy guest reaches the limit of CPU time, however much real time that takes.
            ([101, 101, 0], 50, Some(cpu.clone())),
            ([9000, 101, 0], 50, Some(cpu)),
            // QEMU waits for a CPU; the kernel reports all of the wait, half of it, or nothing.
            ([9000, 99, 8901], 0, None),
            ([9000, 99, 4000], 0, None),
            ([9000, 99, 0], 0, None),
            // QEMU waits for a disk: a virtual second in hours is enough.
            ([9000, 2, 0], 1, None),
            // The guest is halted.
            ([99, 0, 0], 0, None),
            ([101, 0, 0], 0, Some(real.clone())),
            ([101, 0, 2], 0, None),
            // The guest sleeps; the second guest has also reached the limit of CPU time.
            ([10, 1, 0], 301, Some(Failure::VirtualTime { limit_s: 300 })),
            ([101, 101, 0], 301, Some(Failure::VirtualTime { limit_s: 300 })),
        ] {
            assert_eq!(check_after(&limits, times, virtual_s), expected, "{times:?} {virtual_s}");
        }
        let timed = limits.without_virtual_time();
        assert_eq!(check_after(&timed, [101, 0, 0], 999), Some(real));
        assert_eq!(check_after(&timed, [101, 0, 2], 999), None);
    }

    #[test]
    fn a_guest_that_halts_late_is_ended() {
        let limits = Limits::with_seconds(LIMIT_S);
        let process = tempfile::tempdir().unwrap();
        let mut deadline = Deadline::new(|| Clock::for_directory(process.path().to_owned()));
        for (real_s, ran_s, virtual_s, is_ok) in
            [(200, 20, 0, true), (90, 20, 3, true), (200, 20, 4, true), (101, 20, 4, false)]
        {
            advance(&mut deadline, process.path(), real_s, ran_s, 0);
            assert_eq!(deadline.check(&limits, || virtual_s).is_ok(), is_ok, "{virtual_s}");
        }
    }
}
