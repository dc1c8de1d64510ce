//! Finds the process of a running VM, and records it: the events of its vCPUs' threads, added up.
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
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::recording::{Recording, Thread};
use crate::table::{CountedExits, Per, TableInput};
use counters::{ExitTimes, Stats};
use kernel::InKernel;
use ktax_engine::limits::timespec;
use ktax_host::text::escape;
use ktax_model::{Error, ErrorKind, ExitTable, RecorderCost, Result, Warning};
use ring::Ring;
use tracepoints::{Points, find_points};

pub use tracepoints::{EventFormat, Level, Names, Tracefs};

/// A source of events, which it adds up.
trait Source {
    /// Returns the name for tables.
    fn name(&self) -> &'static str;
    /// Takes new events; call it some times a second.
    fn poll(&mut self) -> Result<()>;
    /// Returns the recording so far.
    fn recording(&self) -> Result<Recording>;
    /// Takes the last events and detaches from the kernel.
    fn finish(&mut self) -> Result<()>;
}

/// Returns CLOCK_MONOTONIC in ns, which is also the kernel's stamp of every event here.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Makes an error about the machine that ktax runs on. It may have names of other users' processes.
fn error(message: impl Display, next: impl Display) -> Error {
    let next = next.to_string();
    Error::host(escape(&message.to_string())).next(escape(&next))
}

/// Start of an error about eBPF.
const NO_EBPF: &str = "this kernel refuses eBPF";

fn no_ebpf(reason: io::Error) -> Error {
    error(format!("{NO_EBPF} ({reason})"), "use --via perf").kind(ErrorKind::NoEbpf)
}

fn cannot_watch(event: &str, reason: io::Error) -> Error {
    error(format!("cannot watch {event} ({reason})"), "run ktax as root, or with CAP_PERFMON")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// Programs in the kernel add them up.
    Bpf,
    /// They are copied through perf's ring buffers.
    Perf,
    /// No events: KVM's own statistics have counts, and the time of halts alone.
    Stats,
    /// No events: PowerPC's KVM has tables, the files timing and timings in debugfs.
    ExitTimes,
}

/// Recorder that the user chose; `None` means the best that this machine has.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecorderChoice {
    pub level: Option<Level>,
    pub via: Option<Via>,
}

pub struct Recorder {
    process: u32,
    title: String,
    /// True if the VM ran before.
    is_running: bool,
    /// True if the recorded work is over: then a thread counts to its last exit.
    is_over: bool,
    /// Reason why eBPF could not be used.
    refused: Option<Error>,
    began_ns: u64,
    backend: Backend,
}

enum Backend {
    Events(Vec<WatchedLevel>),
    Statistics(Stats),
    ExitTimes(ExitTimes),
}

struct WatchedLevel {
    points: Points,
    source: Box<dyn Source>,
}

impl Recorder {
    /// Starts recording. Without a chosen Level it records both, since some KVMs have the
    /// tracepoint kvm_exit and never fire it. With `is_running` the VM is recorded from now on,
    /// otherwise from its first entry on.
    pub fn attach(
        process: &Process,
        title: &str,
        choice: RecorderChoice,
        is_running: bool,
    ) -> Result<Recorder> {
        let mut refused = None;
        let backend = match choice.via {
            Some(Via::Stats) => Backend::Statistics(Stats::open(process, title)?),
            Some(Via::ExitTimes) => Backend::ExitTimes(ExitTimes::open(process, title)?),
            _ => Backend::Events(watch_levels(process.pid, choice, &mut refused)?),
        };
        let (process, title, began_ns) = (process.pid, title.to_owned(), now_ns());
        Ok(Recorder { process, title, is_running, is_over: false, refused, began_ns, backend })
    }

    /// Takes new events; call it some times a second.
    pub fn poll(&mut self) -> Result<()> {
        let levels = match &mut self.backend {
            Backend::Statistics(_) => return Ok(()),
            Backend::ExitTimes(timing) => return timing.poll(),
            Backend::Events(levels) => levels,
        };
        levels.iter_mut().try_for_each(|level| level.source.poll())?;
        // Once the better level is known to work, the other would only cost time.
        if levels.len() > 1 && !levels[0].source.recording()?.rows.is_empty() {
            levels.truncate(1);
        }
        Ok(())
    }

    pub fn tables(&self, per: Per) -> Result<Vec<ExitTable>> {
        let mut tables = match &self.backend {
            Backend::Statistics(stats) => stats.tables()?,
            Backend::ExitTimes(timing) => timing.tables(per)?,
            Backend::Events(levels) => return self.event_tables(levels, per),
        };
        // Sources without events know no other length.
        let elapsed_ns = Some(now_ns().saturating_sub(self.began_ns));
        tables.iter_mut().for_each(|table| table.elapsed_ns = elapsed_ns);
        Ok(tables)
    }

    /// Stops recording and returns the tables; with `is_over` a thread counts to its last exit.
    /// Restores the kernel's state.
    pub fn finish(mut self, per: Per, is_over: bool) -> Result<Vec<ExitTable>> {
        self.is_over = is_over;
        match &mut self.backend {
            Backend::Statistics(_) => {}
            Backend::ExitTimes(timing) => timing.poll()?,
            Backend::Events(levels) => {
                levels.iter_mut().try_for_each(|level| level.source.finish())?;
            }
        }
        self.tables(per)
    }

    /// Makes the tables of the first level that saw a guest.
    fn event_tables(&self, levels: &[WatchedLevel], per: Per) -> Result<Vec<ExitTable>> {
        let recordings = levels.iter().map(|level| level.source.recording());
        let recordings = recordings.collect::<Result<Vec<_>>>()?;
        let now_ns = now_ns();
        let used = recordings.iter().position(|recording| !recording.rows.is_empty()).unwrap_or(0);
        let Some(WatchedLevel { points, source }) = levels.get(used) else { return Ok(vec![]) };
        let (recording, source) = (&recordings[used], source.name());
        let moments = match points.level {
            Level::Exits => "kvm_entry and kvm_exit",
            Level::Run => "KVM_RUN",
        };
        let recorded = TableInput {
            recording,
            of: &self.title,
            source: &format!("{moments}, {source}"),
            began: self.is_running.then_some(self.began_ns),
            name: &|reason| points.names.name(reason),
            end: &|tid, thread| {
                let is_over = self.is_over || !lives(self.process, tid);
                thread_end(thread, is_over, recording.until.unwrap_or(now_ns))
            },
            counted: &CountedExits::default(),
            has_switches: true,
            may_sleep: &|_| false,
        };
        let mut tables = recorded.tables(per);
        let warnings = self.warnings(recording, used);
        for table in &mut tables {
            table.warnings.extend_from_slice(&warnings);
            if let Some(account) = &mut table.account {
                account.recorder = all_costs(&recordings);
            }
        }
        Ok(tables)
    }

    /// Returns the warnings of the level with this number.
    fn warnings(&self, recording: &Recording, level: usize) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |fact: &str, next_step: &str| warnings.push(Warning::new(fact, next_step));
        if let Some(refused) = &self.refused {
            let reason = refused.message().trim_start_matches(NO_EBPF);
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

/// Returns when the recording of a thread ended, ns: for a dead thread, its last exit.
fn thread_end(thread: &Thread, is_over: bool, now_ns: u64) -> u64 {
    match thread.open {
        Some((_, began)) if is_over => began,
        Some((_, began)) => now_ns.max(began),
        None => now_ns.max(thread.last),
    }
}

fn all_costs(recordings: &[Recording]) -> Option<RecorderCost> {
    let costs = recordings.iter().filter_map(|recording| recording.cost);
    costs.reduce(|a, b| RecorderCost {
        exit_ns: a.exit_ns + b.exit_ns,
        switch_ns: a.switch_ns + b.switch_ns,
    })
}

fn watch_levels(
    process: u32,
    choice: RecorderChoice,
    refused: &mut Option<Error>,
) -> Result<Vec<WatchedLevel>> {
    let tracefs = Tracefs::find()?;
    let levels = choice.level.map_or(vec![Level::Exits, Level::Run], |level| vec![level]);
    let (mut watched, mut missing) = (Vec::new(), None);
    for level in levels {
        match find_points(level, &tracefs) {
            Ok(points) => {
                let source = open(&points, process, choice.via, refused)?;
                watched.push(WatchedLevel { points, source });
            }
            Err(error) => missing = missing.or(Some(error)),
        }
    }
    match missing {
        Some(error) if watched.is_empty() => Err(error),
        _ => Ok(watched),
    }
}

/// Opens eBPF unless something else was chosen, and perf's rings where the kernel refuses eBPF.
fn open(
    points: &Points,
    process: u32,
    via: Option<Via>,
    refused: &mut Option<Error>,
) -> Result<Box<dyn Source>> {
    if via != Some(Via::Perf) {
        match InKernel::attach(points, process) {
            Ok(source) => return Ok(Box::new(source)),
            Err(error) if via.is_none() && error.kind == ErrorKind::NoEbpf => {
                *refused = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Box::new(Ring::attach(points, process)?))
}

// The process of a VM.

/// A process, held so that its number cannot become another's.
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
        let missing =
            error(format!("there is no process {pid}"), "list VMs with `ps -C qemu-system-x86_64`");
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else { return Err(missing) };
        let handle = pidfd_open(number, PidfdFlags::empty()).map_err(|_| missing)?;
        Ok(Process { pid, handle })
    }

    pub fn name(&self) -> String {
        comm(self.pid)
    }

    /// Fails if the process has no VM. A process that may not be looked into passes.
    pub fn require_vm(&self) -> Result<()> {
        if has_vm(self.pid) != Some(false) {
            return Ok(());
        }
        Err(error(
            format!("process {} ({}) runs no KVM guest", self.pid, self.name()),
            "give the PID of the VMM itself, such as qemu-system-x86_64",
        ))
    }

    /// Waits at most `time` for the end of the process; returns true if it has ended.
    pub fn ended_within(&self, time: Duration) -> Result<bool> {
        let mut fds = [PollFd::new(&self.handle, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(time))) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(reason) => {
                Err(error(format!("wait for the process: {reason}"), "try again, or report it"))
            }
        }
    }
}

/// Returns true if a thread lives; a zombie does not.
fn lives(process: u32, tid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/task/{tid}/stat")).unwrap_or_default();
    // The state is behind the name, which may contain anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn comm(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Returns true if the process has a VM of KVM; `None` if ktax may not see that.
fn has_vm(pid: u32) -> Option<bool> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let mut links = entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    Some(links.any(|link| link.as_os_str() == "anon_inode:kvm-vm"))
}

/// Finds the process whose VM has this name: `-name` of QEMU, `--id` of Firecracker, the process's
/// own.
pub fn by_name(name: &str) -> Result<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let vms: Vec<(u32, Vec<String>)> =
        pids.filter(|pid| has_vm(*pid) == Some(true)).map(|pid| (pid, names(pid))).collect();
    let called = |(_, names): &&(u32, Vec<String>)| names.iter().any(|known| known == name);
    let found: Vec<u32> = vms.iter().filter(called).map(|(pid, _)| *pid).collect();
    match found[..] {
        [pid] => Ok(pid),
        [] => Err(no_vm_named(name, vms)),
        _ => {
            let pids = found.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
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

fn names(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> =
        line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into()).collect();
    let mut names = names_in(&words);
    names.push(comm(pid));
    names
}

/// Returns the names in a command line: `-name` of QEMU, `--id NAME`.
fn names_in(words: &[String]) -> Vec<String> {
    let values = words.windows(2).filter_map(|pair| match pair[0].as_str() {
        "-name" | "--name" => guest_in(&pair[1]),
        "--id" => Some(pair[1].clone()),
        _ => None,
    });
    values.collect()
}

/// Parses the guest of `NAME`, `NAME,process=…`, `debug-threads=on,guest=NAME`: as QEMU reads it,
/// in which only the first may lack its key, two commas are one, and the last of several stands.
fn guest_in(options: &str) -> Option<String> {
    // No argument has this in it.
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
