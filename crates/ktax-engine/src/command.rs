//! Runs a command as a child of ktax and counts it from its first instruction to its end, with
//! perf events of the process and all its children.
//!
//! The child is ktax itself: it stops itself, the parent opens its counters and lets it continue,
//! and then it executes the command.

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

/// The hidden subcommand of ktax that calls [`become_command`].
pub const HOLD_SUBCOMMAND: &str = "stat-hold";

/// One run of a command.
#[derive(Debug)]
pub struct CountedRun {
    /// The counts, and the elapsed time.
    pub counted: StatCounts,
    pub status: ExitStatus,
    /// The end of stderr; empty if the output was shown to the user.
    pub stderr_tail: Vec<u8>,
}

/// Runs a command to its end. If `is_shown`, its output goes to ktax's own stdout and stderr;
/// otherwise the output is dropped. If the user cancels, the command's process group is killed.
pub fn run(command: &[String], is_shown: bool, cancel: &Cancel) -> Result<CountedRun> {
    let file = || tempfile::tempfile().or_host("cannot make a temporary file", NEXT_STEP);
    let (mut report, mut stderr) = (file()?, file()?);
    let hidden = (!is_shown).then_some(&stderr);
    let mut child = StoppedChild::start(command, &report, hidden)
        .or_host("cannot start a process", NEXT_STEP)?;
    let mut counters = Counters::open(child.pid());
    let (elapsed, status) = child.finish(cancel)?;
    let reason = read_tail(&mut report)?;
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
    Ok(CountedRun { counted, status, stderr_tail: read_tail(&mut stderr)? })
}

/// Next step after an error of the host.
const NEXT_STEP: &str = "run `ktax doctor`";

/// A child that is stopped until [`StoppedChild::finish`]. A drop before that kills the child.
struct StoppedChild {
    child: Child,
    is_reaped: bool,
}

impl StoppedChild {
    fn start(command: &[String], report: &File, stderr: Option<&File>) -> io::Result<StoppedChild> {
        let mut holder = Command::new(std::env::current_exe()?);
        let report = format!("/proc/{}/fd/{}", std::process::id(), report.as_raw_fd());
        holder.args([HOLD_SUBCOMMAND, &report, "--"]).args(command);
        // A process group of its own, so that the command and its children can be killed at once.
        holder.process_group(0).stdin(Stdio::null());
        if let Some(stderr) = stderr {
            holder.stdout(Stdio::null()).stderr(stderr.try_clone()?);
        }
        die_with_parent(&mut holder, [None, None]);
        let started = StoppedChild { child: holder.spawn()?, is_reaped: false };
        let stop_or_exit = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(started.pid()), stop_or_exit)? {
            Some(status) if status.stopped() => Ok(started),
            _ => Err(io::Error::other("it ended before ktax could count it")),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Lets the command run to its end. Returns the elapsed time and the exit status.
    fn finish(&mut self, cancel: &Cancel) -> Result<(Duration, ExitStatus)> {
        const WAIT_FAILED: &str = "cannot wait for the command";
        let handle = pidfd_open(self.pid(), PidfdFlags::empty())
            .map_err(io::Error::from)
            .or_host(WAIT_FAILED, NEXT_STEP)?;
        let started = Instant::now();
        kill_process(self.pid(), Signal::CONT)
            .map_err(io::Error::from)
            .or_host("cannot start the command", NEXT_STEP)?;
        while !wait_for_end(&handle).map_err(io::Error::from).or_host(WAIT_FAILED, NEXT_STEP)? {
            if cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
        }
        let elapsed = started.elapsed();
        let status = self.child.wait().or_host(WAIT_FAILED, NEXT_STEP)?;
        self.is_reaped = true;
        Ok((elapsed, status))
    }
}

/// Waits until a process ends or ktax gets a signal, but at most a second, and returns whether the
/// process has ended. A signal just before the wait is noticed a second later; shorter waits would
/// take CPU time from the command.
fn wait_for_end(handle: &OwnedFd) -> rustix::io::Result<bool> {
    let mut fds = [PollFd::new(handle, PollFlags::IN)];
    match poll(&mut fds, Some(&timespec(Duration::from_secs(1)))) {
        Err(Errno::INTR) => Ok(false),
        ready => ready.map(|ready| ready > 0),
    }
}

impl Drop for StoppedChild {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            drop(self.child.wait());
        }
    }
}

/// Reads the last 2 KiB of a file, which are enough for a few lines.
fn read_tail(file: &mut File) -> Result<Vec<u8>> {
    const TAIL_BYTES: u64 = 2048;
    let mut tail = Vec::new();
    file.seek(SeekFrom::End(0))
        .and_then(|length| file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))))
        .and_then(|_| file.read_to_end(&mut tail))
        .or_host("cannot read a temporary file", NEXT_STEP)?;
    Ok(tail)
}

/// Describes how a process failed: `exit status 1`, `signal 9`. `None` for a process that
/// succeeded.
pub fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some(status.to_string()),
    }
}

/// Stops this process until it gets SIGCONT, then executes the command. If the command cannot be
/// executed, the reason goes into the file `report`: an exit status would be taken for the
/// command's.
pub fn become_command(report: &Path, command: &[String]) -> io::Result<()> {
    kill_process(getpid(), Signal::STOP)?;
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    fs::write(report, error.to_string())
}

/// Makes the kernel kill the command's process when the thread that starts it ends, and lets the
/// process inherit these descriptors.
pub fn die_with_parent(command: &mut Command, inherited: [Option<RawFd>; 2]) {
    let parent = getpid();
    let in_child = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was set.
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
    // SAFETY: the closure runs between fork and exec and only makes the system calls prctl, getppid
    // and fcntl. It takes no lock, and allocates nothing unless it fails.
    unsafe { command.pre_exec(in_child) };
}

/// Processor modes in which an event is counted.
#[derive(Clone, Copy)]
enum Mode {
    User,
    Kernel,
    Both,
}

type NamedEvent = (&'static str, Builder<'static>);

const DTLB_MISSES: Cache =
    Cache { which: CacheId::DTLB, operation: CacheOp::READ, result: CacheResult::MISS };

/// Returns the groups of events. The kernel counts the events of a group during the same periods:
/// all of them have a hardware counter, or none has. Groups are small, because the kernel refuses a
/// group with more events than the CPU has counters.
fn event_groups() -> [Vec<NamedEvent>; 5] {
    let software = |name, event: Software| (name, builder(event, Mode::Both));
    let cpu = |name, event: Hardware, mode| (name, builder(event, mode));
    [
        vec![
            // This event counts both modes in any case, and user mode needs no permission.
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

/// The counters of one process by name. `Err` is the reason why a counter could not be opened.
pub struct Counters(Vec<(&'static str, Result<Counter, String>)>);

impl Counters {
    /// Opens every counter of a stopped process. The counters start at the next exec of the
    /// process.
    pub fn open(pid: Pid) -> Counters {
        let mut counters: Vec<(_, Result<Counter, String>)> = Vec::new();
        for group in event_groups() {
            let group_start = counters.len();
            for (name, mut builder) in group {
                builder.observe_pid(pid.as_raw_pid());
                // The first open counter of a group is its leader.
                let leader = counters[group_start..]
                    .iter_mut()
                    .find_map(|(_, counter)| counter.as_mut().ok());
                let counter = match leader {
                    // Alone, an event may have a counter that the group cannot get.
                    Some(leader) => builder.build_with_group(leader).or_else(|_| builder.build()),
                    None => builder.build(),
                };
                counters.push((name, counter.map_err(|error| describe_refusal(&error))));
            }
        }
        Counters(counters)
    }

    /// Returns the counts until now, with those of children that still run.
    pub fn read(&mut self) -> StatCounts {
        let mut counted: StatCounts =
            self.0.iter_mut().map(|(name, counter)| (*name, read_counter(counter))).collect();
        for (total, user, kernel) in [
            ("cycles", "cycles-user", "cycles-kernel"),
            ("instructions", "instructions-user", "instructions-kernel"),
        ] {
            counted.insert(total, sum(&counted[user], &counted[kernel]));
        }
        counted
    }
}

fn read_counter(counter: &mut Result<Counter, String>) -> StatCount {
    match counter.as_mut().map(Counter::read_full) {
        Ok(Ok(data)) => {
            let [enabled_ns, running_ns] = [data.time_enabled(), data.time_running()]
                .map(|time| time.unwrap_or_default().as_nanos() as f64);
            scale(data.count(), enabled_ns, running_ns)
        }
        Ok(Err(error)) => StatCount::Missing(describe_refusal(&error)),
        Err(reason) => StatCount::Missing(reason.clone()),
    }
}

/// Scales a count to the whole time: the kernel counted only while the event had a counter.
fn scale(count: u64, enabled_ns: f64, running_ns: f64) -> StatCount {
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

fn sum(a: &StatCount, b: &StatCount) -> StatCount {
    match (a, b) {
        (
            StatCount::Measured { value: value_a, counted_percent: percent_a },
            StatCount::Measured { value: value_b, counted_percent: percent_b },
        ) => StatCount::Measured {
            value: value_a + value_b,
            counted_percent: percent_a.min(*percent_b),
        },
        (StatCount::Missing(reason), _) | (_, StatCount::Missing(reason)) => {
            StatCount::Missing(reason.clone())
        }
    }
}

/// Describes why the kernel refused a counter, with a next step.
fn describe_refusal(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => {
            "no PMU here that counts it; use a machine that has one, or a VM with a virtual PMU \
             (QEMU with KVM: -cpu host,pmu=on)"
                .to_owned()
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            let path = "/proc/sys/kernel/perf_event_paranoid";
            let level = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
            describe_no_permission(level)
        }
        _ => format!("{error}; perf_event_open(2) lists what that can mean"),
    }
}

fn describe_no_permission(level: Option<i32>) -> String {
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
    fn groups_have_exactly_the_listed_counters() {
        let mut grouped: Vec<&str> = event_groups()
            .iter()
            .flatten()
            .map(|(name, _)| *name)
            .chain(["cycles", "instructions"])
            .collect();
        let mut listed = STAT_COUNTERS.map(|counter| counter.name).to_vec();
        grouped.sort_unstable();
        listed.sort_unstable();
        assert_eq!(grouped, listed);
    }

    #[test]
    fn counters_start_at_exec_and_are_inherited() {
        for (name, builder) in event_groups().iter().flatten() {
            let attrs = builder.attrs();
            let flags = (attrs.disabled(), attrs.enable_on_exec(), attrs.inherit());
            assert_eq!(flags, (1, 1, 1), "{name}");
        }
    }

    #[test]
    fn counts_of_a_part_of_the_time_are_scaled() {
        assert_eq!(
            scale(500, 1e6, 1e6),
            StatCount::Measured { value: 500.0, counted_percent: 100.0 }
        );
        assert_eq!(
            scale(500, 1e6, 0.25e6),
            StatCount::Measured { value: 2000.0, counted_percent: 25.0 }
        );
        // A counter that never ran is not zero.
        assert!(
            matches!(scale(0, 1e6, 0.0), StatCount::Missing(reason) if reason.contains("never ran"))
        );
    }

    #[test]
    fn a_sum_has_the_smaller_share_of_time_and_needs_both_counts() {
        let measured = |value, counted_percent| StatCount::Measured { value, counted_percent };
        assert_eq!(sum(&measured(1.0, 50.0), &measured(2.0, 75.0)), measured(3.0, 50.0));
        let missing = StatCount::Missing("why".to_owned());
        assert_eq!(sum(&measured(1.0, 50.0), &missing), missing);
        assert_eq!(sum(&missing, &measured(1.0, 50.0)), missing);
    }

    #[test]
    fn a_refusal_has_its_reason_and_the_next_step() {
        let refusal = |errno: Errno| describe_refusal(&io::Error::from(errno));
        assert!(refusal(Errno::NOENT).starts_with("no PMU here"), "{}", refusal(Errno::NOENT));
        assert!(refusal(Errno::ACCESS).starts_with("not permitted"), "{}", refusal(Errno::ACCESS));
        assert!(
            describe_no_permission(Some(2)).contains("perf_event_paranoid is 2; type `sudo sysctl")
        );
        assert!(
            describe_no_permission(Some(-1)).contains("although kernel.perf_event_paranoid is -1")
        );
        assert!(describe_no_permission(None).contains("CONFIG_PERF_EVENTS"));
    }
}
