//! Runs a command as a child of ktax and counts it from its first instruction to its end, by the
//! kernel's counters of a process and all its children.
//!
//! The child is ktax itself. It stops, gets its counters, continues, and executes the command.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware, Software};
use perf_event::{Builder, Counter};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process,
    kill_process_group, pidfd_open, set_parent_process_death_signal, waitid,
};

use super::limits::{Cancel, timespec};
use ktax_host::text::escape;
use ktax_model::{ELAPSED, Error, ErrorContext, Result, StatCount, StatCounts};

/// The subcommand of ktax that executes the command: see [`become_command`].
pub const HOLD: &str = "stat-hold";

/// One run of a command.
#[derive(Debug)]
pub struct CountedRun {
    /// The counts, and the elapsed time.
    pub counted: StatCounts,
    pub status: ExitStatus,
    /// The end of stderr; empty if the user has seen it.
    pub last_words: Vec<u8>,
}

/// Runs a command to its end. If `is_shown`, its output goes to ktax's own; otherwise it is
/// dropped. A cancelled command leaves no process of its process group.
pub fn run(command: &[String], is_shown: bool, cancel: &Cancel) -> Result<CountedRun> {
    let file = || tempfile::tempfile().or_host("cannot make a temporary file", NEXT);
    let (mut report, mut stderr) = (file()?, file()?);
    let hidden = (!is_shown).then_some(&stderr);
    let mut held = Held::start(command, &report, hidden).or_host("cannot start a process", NEXT)?;
    let mut counters = Counters::open(held.pid());
    let (elapsed, status) = held.finish(cancel)?;
    let reason = tail(&mut report)?;
    if !reason.is_empty() {
        let reason = String::from_utf8_lossy(&reason);
        let message = format!("cannot start {}: {reason}", command[0]);
        return Err(
            Error::user(escape(&message)).next("name a program that exists and is executable")
        );
    }
    let mut counted = counters.read();
    let value = elapsed.as_nanos() as f64;
    counted.insert(ELAPSED.name, StatCount::Measured { value, counted_percent: 100.0 });
    Ok(CountedRun { counted, status, last_words: tail(&mut stderr)? })
}

/// Next step after an error of the host.
const NEXT: &str = "run `ktax doctor`";

/// A child that is stopped until it is told to continue. It is killed when this is dropped.
struct Held {
    child: Child,
    is_over: bool,
}

impl Held {
    fn start(command: &[String], report: &File, stderr: Option<&File>) -> io::Result<Held> {
        let mut held = Command::new(std::env::current_exe()?);
        let report = format!("/proc/{}/fd/{}", std::process::id(), report.as_raw_fd());
        held.args([HOLD, &report, "--"]).args(command);
        // A process group of its own, so that all of it can be killed at once.
        held.process_group(0).stdin(Stdio::null());
        if let Some(stderr) = stderr {
            held.stdout(Stdio::null()).stderr(stderr.try_clone()?);
        }
        die_with_parent(&mut held, [None, None]);
        let held = Held { child: held.spawn()?, is_over: false };
        let either = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(held.pid()), either)? {
            Some(status) if status.stopped() => Ok(held),
            _ => Err(io::Error::other("it ended before it began")),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Lets the command run to its end. Returns the elapsed time and the exit status.
    fn finish(&mut self, cancel: &Cancel) -> Result<(Duration, ExitStatus)> {
        const WAIT: &str = "cannot wait for the command";
        let handle = pidfd_open(self.pid(), PidfdFlags::empty())
            .map_err(io::Error::from)
            .or_host(WAIT, NEXT)?;
        let started = Instant::now();
        kill_process(self.pid(), Signal::CONT)
            .map_err(io::Error::from)
            .or_host("cannot start the command", NEXT)?;
        while !ends(&handle).map_err(io::Error::from).or_host(WAIT, NEXT)? {
            if cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
        }
        let elapsed = started.elapsed();
        let status = self.child.wait().or_host(WAIT, NEXT)?;
        self.is_over = true;
        Ok((elapsed, status))
    }
}

/// Waits until a process ends or a signal comes; returns whether it has ended. A signal that comes
/// just before the wait is seen a second later. Waking up more often would take CPU time from the
/// command.
fn ends(handle: &OwnedFd) -> rustix::io::Result<bool> {
    let mut fds = [PollFd::new(handle, PollFlags::IN)];
    match poll(&mut fds, Some(&timespec(Duration::from_secs(1)))) {
        Err(Errno::INTR) => Ok(false),
        ready => ready.map(|ready| ready > 0),
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_over {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            drop(self.child.wait());
        }
    }
}

fn tail(file: &mut File) -> Result<Vec<u8>> {
    const LAST_WORDS: u64 = 2048;
    let mut tail = Vec::new();
    file.seek(SeekFrom::End(0))
        .and_then(|length| file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS))))
        .and_then(|_| file.read_to_end(&mut tail))
        .or_host("cannot read a temporary file", NEXT)?;
    Ok(tail)
}

/// Says how a process failed: `exit status 1`, `signal 9`. `None` if it succeeded.
pub fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some(status.to_string()),
    }
}

/// Stops this process until it is told to continue, then executes the command. If that fails, the
/// reason goes into `report`, so that the exit status is not taken for the command's.
pub fn become_command(report: &Path, command: &[String]) -> io::Result<()> {
    kill_process(getpid(), Signal::STOP)?;
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    fs::write(report, error.to_string())
}

/// Makes the kernel kill the command's process when this thread ends, and lets the process inherit
/// these descriptors.
pub fn die_with_parent(command: &mut Command, inherited: [Option<RawFd>; 2]) {
    let parent = getpid();
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above took effect.
        if getppid() != Some(parent) {
            return Err(io::Error::other("ktax has ended"));
        }
        for fd in inherited.into_iter().flatten() {
            // SAFETY: the parent holds both descriptors open until spawn returns.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            fcntl_setfd(fd.as_fd(), FdFlags::empty())?;
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and only makes system calls: prctl, getppid,
    // fcntl; it takes no lock and allocates nothing on its successful path.
    unsafe { command.pre_exec(in_child) };
}

/// Mode of the processor that is counted.
#[derive(Clone, Copy)]
enum Mode {
    User,
    Kernel,
    Both,
}

type NamedEvent = (&'static str, Builder<'static>);

const DTLB_MISSES: Cache =
    Cache { which: CacheId::DTLB, operation: CacheOp::READ, result: CacheResult::MISS };

/// Groups of events that the kernel counts during the same periods: all events of a group have a
/// hardware counter, or none. Groups are small, because the kernel refuses one with more events
/// than the CPU has counters.
fn groups() -> [Vec<NamedEvent>; 5] {
    let software = |name, event: Software| (name, builder(event, Mode::Both));
    let cpu = |name, event: Hardware, mode| (name, builder(event, mode));
    [
        vec![
            // User mode needs no permission; this event does not tell kernel time from user time.
            ("task-clock", builder(Software::TASK_CLOCK, Mode::User)),
            software("cpu-migrations", Software::CPU_MIGRATIONS),
            software("context-switches", Software::CONTEXT_SWITCHES),
            software("page-faults", Software::PAGE_FAULTS),
            software("minor-faults", Software::PAGE_FAULTS_MIN),
            software("major-faults", Software::PAGE_FAULTS_MAJ),
        ],
        vec![
            cpu("cycles-user", Hardware::CPU_CYCLES, Mode::User),
            cpu("instructions-user", Hardware::INSTRUCTIONS, Mode::User),
        ],
        vec![
            cpu("cycles-kernel", Hardware::CPU_CYCLES, Mode::Kernel),
            cpu("instructions-kernel", Hardware::INSTRUCTIONS, Mode::Kernel),
        ],
        vec![
            cpu("cache-references", Hardware::CACHE_REFERENCES, Mode::Both),
            cpu("cache-misses", Hardware::CACHE_MISSES, Mode::Both),
        ],
        vec![("dtlb-misses", builder(DTLB_MISSES, Mode::Both))],
    ]
}

fn builder<E: Event>(event: E, mode: Mode) -> Builder<'static> {
    let mut builder = Builder::new(event);
    builder.inherit(true).enable_on_exec(true);
    match mode {
        Mode::User => {}
        Mode::Kernel => drop(builder.include_kernel().exclude_user(true)),
        Mode::Both => drop(builder.include_kernel()),
    }
    builder
}

/// The counters of one process; a counter that could not be opened has its reason.
pub struct Counters(Vec<(&'static str, Result<Counter, String>)>);

impl Counters {
    /// Opens every counter of a stopped process. They start at its next exec.
    pub fn open(pid: Pid) -> Counters {
        let mut counters: Vec<(_, Result<Counter, String>)> = Vec::new();
        for group in groups() {
            let first = counters.len();
            for (name, mut builder) in group {
                builder.observe_pid(pid.as_raw_pid());
                // The first open counter of a group is its leader.
                let leader =
                    counters[first..].iter_mut().find_map(|(_, counter)| counter.as_mut().ok());
                let counter = match leader {
                    Some(leader) => builder.build_with_group(leader).or_else(|_| builder.build()),
                    None => builder.build(),
                };
                counters.push((name, counter.map_err(|error| refused(&error))));
            }
        }
        Counters(counters)
    }

    /// Returns the counts until now, children that still run included.
    pub fn read(&mut self) -> StatCounts {
        let mut counted: StatCounts =
            self.0.iter_mut().map(|(name, counter)| (*name, read(counter))).collect();
        for (total, user, kernel) in [
            ("cycles", "cycles-user", "cycles-kernel"),
            ("instructions", "instructions-user", "instructions-kernel"),
        ] {
            counted.insert(total, sum(&counted[user], &counted[kernel]));
        }
        counted
    }
}

fn read(counter: &mut Result<Counter, String>) -> StatCount {
    match counter.as_mut().map(Counter::read_full) {
        Ok(Ok(seen)) => {
            let [enabled_ns, running_ns] = [seen.time_enabled(), seen.time_running()]
                .map(|time| time.unwrap_or_default().as_nanos() as f64);
            scaled(seen.count(), enabled_ns, running_ns)
        }
        Ok(Err(error)) => StatCount::Missing(refused(&error)),
        Err(reason) => StatCount::Missing(reason.clone()),
    }
}

/// Scales a count that the kernel took during a part of the time to the whole time.
fn scaled(count: u64, enabled_ns: f64, running_ns: f64) -> StatCount {
    if running_ns == 0.0 {
        let reason = "it never ran: others hold the CPU's counters, or the command is of another \
                      user; end the other users of counters, such as the NMI watchdog \
                      (sysctl kernel.nmi_watchdog=0), or run ktax as root";
        return StatCount::Missing(reason.to_owned());
    }
    StatCount::Measured {
        value: count as f64 * enabled_ns / running_ns,
        counted_percent: running_ns / enabled_ns * 100.0,
    }
}

fn sum(count: &StatCount, other: &StatCount) -> StatCount {
    match (count, other) {
        (
            StatCount::Measured { value: count, counted_percent: first },
            StatCount::Measured { value: other, counted_percent: second },
        ) => StatCount::Measured { value: count + other, counted_percent: first.min(*second) },
        (StatCount::Missing(reason), _) | (_, StatCount::Missing(reason)) => {
            StatCount::Missing(reason.clone())
        }
    }
}

/// Says why the kernel refused a counter, and what to do about it.
fn refused(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => {
            "no PMU here that counts it; use a machine that has one, or a VM with a virtual PMU \
             (QEMU with KVM: -cpu host,pmu=on)"
                .to_owned()
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            let path = "/proc/sys/kernel/perf_event_paranoid";
            let level = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
            not_permitted(level)
        }
        _ => format!("{error}; perf_event_open(2) lists what that can mean"),
    }
}

fn not_permitted(level: Option<i32>) -> String {
    match level {
        Some(level) if level > 1 => format!(
            "not permitted: kernel.perf_event_paranoid is {level}; type `sudo sysctl \
             kernel.perf_event_paranoid=1`, or run ktax as root"
        ),
        Some(level) => format!(
            "not permitted although kernel.perf_event_paranoid is {level}: a container or a \
             security module forbids it; run ktax outside of it"
        ),
        None => "not permitted, and there is no kernel.perf_event_paranoid to read; build the \
                 kernel with CONFIG_PERF_EVENTS"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::STAT_COUNTERS;

    #[test]
    fn every_counter_is_asked_for_and_no_other() {
        let mut asked: Vec<&str> = groups()
            .iter()
            .flatten()
            .map(|(name, _)| *name)
            .chain(["cycles", "instructions"])
            .collect();
        let mut listed = STAT_COUNTERS.map(|counter| counter.name).to_vec();
        asked.sort_unstable();
        listed.sort_unstable();
        assert_eq!(asked, listed);
    }

    #[test]
    fn all_begin_with_the_command_and_take_in_what_it_starts() {
        for (name, builder) in groups().iter().flatten() {
            let attrs = builder.attrs();
            let flags = (attrs.disabled(), attrs.enable_on_exec(), attrs.inherit());
            assert_eq!(flags, (1, 1, 1), "{name}");
        }
    }

    #[test]
    fn what_shared_the_counters_is_scaled_and_says_so() {
        assert_eq!(
            scaled(500, 1e6, 1e6),
            StatCount::Measured { value: 500.0, counted_percent: 100.0 }
        );
        assert_eq!(
            scaled(500, 1e6, 0.25e6),
            StatCount::Measured { value: 2000.0, counted_percent: 25.0 }
        );
        // A counter that never ran is not zero.
        let idle = scaled(0, 1e6, 0.0);
        assert!(matches!(idle, StatCount::Missing(reason) if reason.contains("never ran")));
    }

    #[test]
    fn a_sum_is_counted_as_rarely_as_its_rarer_part_and_not_without_one() {
        let seen = |value, counted_percent| StatCount::Measured { value, counted_percent };
        assert_eq!(sum(&seen(1.0, 50.0), &seen(2.0, 75.0)), seen(3.0, 50.0));
        let not = StatCount::Missing("why".to_owned());
        assert_eq!(sum(&seen(1.0, 50.0), &not), not);
        assert_eq!(sum(&not, &seen(1.0, 50.0)), not);
    }

    #[test]
    fn a_refusal_has_its_reason_and_the_next_step() {
        let refusal = |errno: Errno| refused(&io::Error::from(errno));
        assert!(refusal(Errno::NOENT).starts_with("no PMU here"), "{}", refusal(Errno::NOENT));
        assert!(refusal(Errno::ACCESS).starts_with("not permitted"), "{}", refusal(Errno::ACCESS));
        assert!(not_permitted(Some(2)).contains("perf_event_paranoid is 2; type `sudo sysctl"));
        assert!(not_permitted(Some(-1)).contains("although kernel.perf_event_paranoid is -1"));
        assert!(not_permitted(None).contains("CONFIG_PERF_EVENTS"));
    }
}
