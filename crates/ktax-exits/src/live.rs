//! Finds the process of a running VM, and records the VM: adds up the events of its vCPUs' threads.
//!
//! ```text
//! tracepoints ─┬► program ─► kernel (eBPF) ─┬─► Recording ─► table ─► ExitTable
//!              └► ring ─► fold ─────────────┘
//! ```

mod counters;
mod kernel;
mod program;
mod ring;
mod tracepoints;

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::time::Duration;
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::recording::{Recording, Thread};
use crate::table::{CountedExits, TableInput, TableScope};
use counters::{DebugfsRecorder, StatsRecorder};
use kernel::BpfRecorder;
use ktax_engine::limits::timespec;
use ktax_host::text::escape;
use ktax_model::{Error, ErrorKind, ExitTable, RecorderCost, Result, Warning};
use ring::PerfRings;
use tracepoints::{Tracepoints, find_tracepoints};

pub use tracepoints::{EventFormat, EventLevel, ReasonNames, SLEEPING_STATES, Tracefs};

/// A recorder that adds up events of vCPU threads.
trait EventSource {
    /// Returns the recorder's name, for tables.
    fn name(&self) -> &'static str;
    /// Reads new events. Callers poll several times a second.
    fn poll(&mut self) -> Result<()>;
    /// Returns the recording so far.
    fn recording(&self) -> Result<Recording>;
    /// Reads the last events and detaches from the kernel.
    fn finish(&mut self) -> Result<()>;
}

/// Returns CLOCK_MONOTONIC in ns. The kernel stamps the recorded events with the same clock.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Makes an error about the machine that ktax runs on. Other users choose the names of processes,
/// so the text is escaped.
fn error(message: impl Display, next: impl Display) -> Error {
    let next = next.to_string();
    Error::host(escape(&message.to_string())).next(escape(&next))
}

/// Beginning of the message of every error about eBPF.
const NO_EBPF: &str = "this kernel refuses eBPF";

fn no_ebpf(reason: io::Error) -> Error {
    error(format!("{NO_EBPF} ({reason})"), "use --via perf").kind(ErrorKind::NoEbpf)
}

fn cannot_watch(event: &str, reason: io::Error) -> Error {
    error(format!("cannot watch {event} ({reason})"), "run ktax as root, or with CAP_PERFMON")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingMethod {
    /// eBPF programs add up events in the kernel.
    Bpf,
    /// ktax reads each event from perf's ring buffers.
    Perf,
    /// ktax reads KVM's own statistics: counts of exits, and times of halts only.
    Stats,
    /// ktax reads the tables of PowerPC's KVM: debugfs' files `timing` and `timings`.
    ExitTimes,
}

/// Recorder that the user chose; `None` stands for the best that works on this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecorderChoice {
    pub level: Option<EventLevel>,
    pub via: Option<RecordingMethod>,
}

pub struct Recorder {
    process: u32,
    title: String,
    /// True if the VM ran before the recording started.
    was_running: bool,
    /// True if the recorded work is over: then each thread is recorded up to its last exit.
    is_over: bool,
    /// Error because of which perf records instead of eBPF.
    ebpf_error: Option<Error>,
    start_ns: u64,
    backend: Backend,
}

enum Backend {
    Events(Vec<WatchedLevel>),
    Statistics(StatsRecorder),
    Debugfs(DebugfsRecorder),
}

struct WatchedLevel {
    points: Tracepoints,
    source: Box<dyn EventSource>,
}

impl Recorder {
    /// Starts recording. Without a chosen level the recorder watches both, because some KVMs have
    /// the tracepoint kvm_exit and never fire it. A recording of a VM that `was_running` starts
    /// now; otherwise it starts with the VM's first entry.
    pub fn attach(
        process: &Process,
        title: &str,
        choice: RecorderChoice,
        was_running: bool,
    ) -> Result<Recorder> {
        let mut ebpf_error = None;
        let backend = match choice.via {
            Some(RecordingMethod::Stats) => {
                Backend::Statistics(StatsRecorder::open(process, title)?)
            }
            Some(RecordingMethod::ExitTimes) => {
                Backend::Debugfs(DebugfsRecorder::open(process, title)?)
            }
            _ => Backend::Events(watch_levels(process.pid, choice, &mut ebpf_error)?),
        };
        let (process, title, start_ns) = (process.pid, title.to_owned(), now_ns());
        Ok(Recorder { process, title, was_running, is_over: false, ebpf_error, start_ns, backend })
    }

    /// Reads new events. Callers poll several times a second.
    pub fn poll(&mut self) -> Result<()> {
        let levels = match &mut self.backend {
            Backend::Statistics(_) => return Ok(()),
            Backend::Debugfs(recorder) => return recorder.poll(),
            Backend::Events(levels) => levels,
        };
        levels.iter_mut().try_for_each(|level| level.source.poll())?;
        // Once exits are seen, the level of KVM_RUN is only a cost.
        if levels.len() > 1 && !levels[0].source.recording()?.rows.is_empty() {
            levels.truncate(1);
        }
        Ok(())
    }

    /// Returns the tables of the recording so far.
    pub fn tables(&self, scope: TableScope) -> Result<Vec<ExitTable>> {
        let mut tables = match &self.backend {
            Backend::Statistics(stats) => stats.tables()?,
            Backend::Debugfs(recorder) => recorder.tables(scope)?,
            Backend::Events(levels) => return self.event_tables(levels, scope),
        };
        // These recorders see no events, so only ktax knows how long they recorded.
        let elapsed_ns = Some(now_ns().saturating_sub(self.start_ns));
        tables.iter_mut().for_each(|table| table.elapsed_ns = elapsed_ns);
        Ok(tables)
    }

    /// Stops recording, restores the kernel's state and returns the tables. With `is_over` each
    /// thread is recorded up to its last exit.
    pub fn finish(mut self, scope: TableScope, is_over: bool) -> Result<Vec<ExitTable>> {
        self.is_over = is_over;
        match &mut self.backend {
            Backend::Statistics(_) => {}
            Backend::Debugfs(recorder) => recorder.poll()?,
            Backend::Events(levels) => {
                levels.iter_mut().try_for_each(|level| level.source.finish())?;
            }
        }
        self.tables(scope)
    }

    /// Returns the tables of the first level that saw a guest.
    fn event_tables(&self, levels: &[WatchedLevel], scope: TableScope) -> Result<Vec<ExitTable>> {
        let recordings = levels.iter().map(|level| level.source.recording());
        let recordings = recordings.collect::<Result<Vec<_>>>()?;
        let now_ns = now_ns();
        let level = recordings.iter().position(|recording| !recording.rows.is_empty()).unwrap_or(0);
        let Some(WatchedLevel { points, source }) = levels.get(level) else { return Ok(vec![]) };
        let (recording, source) = (&recordings[level], source.name());
        let events = match points.level {
            EventLevel::Exits => "kvm_entry and kvm_exit",
            EventLevel::Run => "KVM_RUN",
        };
        let input = TableInput {
            recording,
            vm_name: &self.title,
            source: &format!("{events}, {source}"),
            start_ns: self.was_running.then_some(self.start_ns),
            reason_name: &|reason| points.names.name(reason),
            end_ns: &|tid, thread| {
                let is_over = self.is_over || !is_alive(self.process, tid);
                thread_end_ns(thread, is_over, recording.end_ns.unwrap_or(now_ns))
            },
            counted: &CountedExits::default(),
            has_switches: true,
            may_sleep: &|_| false,
        };
        let mut tables = input.tables(scope);
        let warnings = self.warnings(recording, level);
        for table in &mut tables {
            table.warnings.extend_from_slice(&warnings);
            if let Some(account) = &mut table.account {
                account.recorder = sum_costs(&recordings);
            }
        }
        Ok(tables)
    }

    /// Returns the warnings for a recording of `level`, an index into the watched levels.
    fn warnings(&self, recording: &Recording, level: usize) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |fact: &str, next_step: &str| warnings.push(Warning::new(fact, next_step));
        if let Some(error) = &self.ebpf_error {
            let reason = error.message().trim_start_matches(NO_EBPF);
            let fact = format!("eBPF is refused here{reason}, so perf copies each event");
            warn(&fact, "run ktax with CAP_BPF to avoid the copies");
        }
        if recording.rows.is_empty() {
            let fact = "no vCPU left its guest or entered it";
            let next = "record for longer, and give the VMM's own process, not one that starts it; \
                        use --via stats for a guest that never exits";
            warn(fact, next);
        } else if level > 0 {
            let fact = "kvm_exit never fires here, so only exits that reach the VMM have reasons";
            warn(fact, "record on a host with hardware virtualization");
        }
        warnings
    }
}

/// Returns when the recording of a thread ended, ns: at its last exit or entry if the thread or the
/// recorded work is over.
fn thread_end_ns(thread: &Thread, is_over: bool, now_ns: u64) -> u64 {
    match thread.open {
        Some((_, start_ns)) if is_over => start_ns,
        Some((_, start_ns)) => now_ns.max(start_ns),
        None => now_ns.max(thread.last_ns),
    }
}

/// Returns the recorders' cost of one exit and one switch; `None` if no recorder was timed.
fn sum_costs(recordings: &[Recording]) -> Option<RecorderCost> {
    let costs = recordings.iter().filter_map(|recording| recording.cost);
    costs.reduce(|a, b| RecorderCost {
        exit_ns: a.exit_ns + b.exit_ns,
        switch_ns: a.switch_ns + b.switch_ns,
    })
}

/// Starts a recorder for each level, and fails if no level has its tracepoints. Sets `ebpf_error`
/// if perf records instead of eBPF.
fn watch_levels(
    process: u32,
    choice: RecorderChoice,
    ebpf_error: &mut Option<Error>,
) -> Result<Vec<WatchedLevel>> {
    let tracefs = Tracefs::find()?;
    let levels = choice.level.map_or(vec![EventLevel::Exits, EventLevel::Run], |level| vec![level]);
    let (mut watched, mut first_error) = (Vec::new(), None);
    for level in levels {
        match find_tracepoints(level, &tracefs) {
            Ok(points) => {
                let source = open_source(&points, process, choice.via, ebpf_error)?;
                watched.push(WatchedLevel { points, source });
            }
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) if watched.is_empty() => Err(error),
        _ => Ok(watched),
    }
}

/// Attaches eBPF programs; opens perf's ring buffers if the user chose perf, or if the user chose
/// nothing and the kernel refuses eBPF.
fn open_source(
    points: &Tracepoints,
    process: u32,
    method: Option<RecordingMethod>,
    ebpf_error: &mut Option<Error>,
) -> Result<Box<dyn EventSource>> {
    if method != Some(RecordingMethod::Perf) {
        match BpfRecorder::attach(points, process) {
            Ok(source) => return Ok(Box::new(source)),
            Err(error) if method.is_none() && error.kind == ErrorKind::NoEbpf => {
                *ebpf_error = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Box::new(PerfRings::attach(points, process)?))
}

// The process of a VM.

/// A process with a pidfd, so that a new process with the same ID is not taken for it.
#[derive(Debug)]
pub struct Process {
    pub pid: u32,
    handle: OwnedFd,
}

/// The initial PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";

impl Process {
    pub fn open(pid: u32) -> Result<Process> {
        let is_initial = fs::read_link("/proc/self/ns/pid")
            .is_ok_and(|namespace| namespace.as_os_str() == INITIAL_NAMESPACE);
        if !is_initial {
            let message = "ktax runs in a PID namespace of its own, where the kernel's thread IDs \
                           do not match";
            return Err(error(message, "run ktax on the host"));
        }
        let raw_pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd =
            raw_pid.ok_or(Errno::SRCH).and_then(|raw_pid| pidfd_open(raw_pid, PidfdFlags::empty()));
        let handle = pidfd.map_err(|reason| open_error(pid, reason))?;
        Ok(Process { pid, handle })
    }

    /// Returns the process's name (its comm).
    pub fn name(&self) -> String {
        comm(self.pid)
    }

    /// Fails if the process has no VM. Passes if this user may not see the process's descriptors.
    pub fn require_vm(&self) -> Result<()> {
        if has_vm(self.pid) != Some(false) {
            return Ok(());
        }
        Err(error(
            format!("process {} ({}) runs no KVM guest", self.pid, self.name()),
            "give the PID of the VMM itself, such as qemu-system-x86_64",
        ))
    }

    /// Waits at most `time` for the end of the process; returns true if the process has ended.
    pub fn ended_within(&self, time: Duration) -> Result<bool> {
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(time))) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(reason) => Err(error(
                format!("cannot wait for process {}: {reason}", self.pid),
                "try again, or report this message",
            )),
        }
    }
}

/// Makes the error for a process whose pidfd cannot be opened.
fn open_error(pid: u32, reason: Errno) -> Error {
    // The kernel reports EINVAL for an ID that belongs to a thread and not to a process.
    if matches!(reason, Errno::SRCH | Errno::INVAL) {
        let message = format!("there is no process {pid}");
        return error(message, "list VMs with `ps -C qemu-system-x86_64`");
    }
    let next_step = match reason {
        Errno::NOSYS => "use a kernel of Linux 5.3 or later",
        Errno::MFILE => "raise the limit of open files with `ulimit -n`",
        Errno::NFILE | Errno::NOMEM => "end other programs and try again",
        _ => "run ktax as root, outside of containers and sandboxes",
    };
    error(format!("cannot open process {pid}: {reason}"), next_step)
}

/// Returns true if the thread exists and is no zombie.
fn is_alive(process: u32, tid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{tid}/stat")).unwrap_or_default();
    // The state follows the name, which may contain any characters.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn comm(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns true if the process has a VM of KVM; `None` if this user may not see its descriptors.
fn has_vm(pid: u32) -> Option<bool> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    Some(links.any(|link| link.as_os_str() == "anon_inode:kvm-vm"))
}

/// Finds the process whose VM has this name: the value of QEMU's `-name` or Firecracker's `--id`,
/// or the process's comm.
pub fn find_vm_by_name(name: &str) -> Result<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let vms: Vec<(u32, Vec<String>)> =
        pids.filter(|pid| has_vm(*pid) == Some(true)).map(|pid| (pid, vm_names(pid))).collect();
    let has_name = |(_, names): &&(u32, Vec<String>)| names.iter().any(|other| other == name);
    let matches: Vec<u32> = vms.iter().filter(has_name).map(|(pid, _)| *pid).collect();
    match matches[..] {
        [pid] => Ok(pid),
        [] => Err(no_vm_named(name, vms)),
        _ => {
            let pids = matches.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            Err(error(
                format!("several VMs are named {name}: processes {pids}"),
                "choose one with --pid",
            ))
        }
    }
}

fn no_vm_named(name: &str, vms: Vec<(u32, Vec<String>)>) -> Error {
    let running: Vec<String> =
        vms.into_iter().filter_map(|(_, names)| names.into_iter().next()).collect();
    let message = format!("no VM is named {name}");
    match running.is_empty() {
        true => error(message + ", and no VM is running", "start the VM first"),
        false => error(message, format!("name one of {}, or use --pid", running.join(", "))),
    }
}

/// Returns all names of the VM of a process: those of its command line, and the process's comm.
fn vm_names(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into()).collect();
    let mut names = command_line_names(&words);
    names.push(comm(pid));
    names
}

/// Returns the VM's names in a command line: the values of `-name` and `--id`.
fn command_line_names(words: &[String]) -> Vec<String> {
    let values = words.windows(2).filter_map(|pair| match pair[0].as_str() {
        "-name" | "--name" => parse_guest_name(&pair[1]),
        "--id" => Some(pair[1].clone()),
        _ => None,
    });
    values.collect()
}

/// Parses the guest's name in the value of QEMU's `-name`: `NAME`, `NAME,process=…`,
/// `debug-threads=on,guest=NAME`. As in QEMU, only the first option may lack its key, two commas
/// stand for one, and the last of equal keys counts.
fn parse_guest_name(options: &str) -> Option<String> {
    // Stands for a doubled comma: no argument of a program contains a NUL.
    const COMMA: char = '\0';
    let options = options.replace(",,", "\0");
    let value = |(index, option): (usize, &str)| match option.split_once('=') {
        Some((key, _)) if index == 0 && key.contains(COMMA) => Some(option.to_owned()),
        Some((key, value)) => (key == "guest").then(|| value.to_owned()),
        None => (index == 0).then(|| option.to_owned()),
    };
    let last = options.split(',').enumerate().filter_map(value).last()?;
    (!last.is_empty()).then(|| last.replace(COMMA, ","))
}

#[cfg(test)]
mod tests;
