//! The running kernel. The guest's own programs run on it as plain processes. What a Side changes
//! on it is written down first, and restored.

mod changes;
mod settings;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

use super::command::die_with_parent;
use super::limits::{Cancel, Limits, timespec};
use super::{Booted, EngineEntry, Measures, Stop, Timed, TimedSetup, host_failure};
use crate::{noise, payload};
use ktax_host::cache::Holder;
use ktax_model::{Error, Facts, Failure, Result, RunsOn, TimedSubject, Workload};
use ktax_program::NativePrograms;

pub use changes::{Changer, Look, Replayed, look_at_journal, replay, state_dir};
pub use settings::{Running, Setting};

pub const ENGINE: EngineEntry = EngineEntry {
    name: "host",
    about: "Time the running kernel: set each side's settings, then restore them",
    runs_on: RunsOn::RunningKernel,
    measures: Measures::Times { open: |setup| Ok(Box::new(TimedHost::open(setup)?)) },
};

/// The time that the guest's janitor has to remove what a killed workload leaves.
const TIDYING: Duration = Duration::from_secs(60);

/// The running kernel.
pub struct Host {
    guest: PathBuf,
    hello: PathBuf,
    _holder: Holder,
    limits: Limits,
    cancel: Cancel,
    programs: Option<(NativePrograms, PathBuf)>,
}

impl Host {
    pub fn new(cache: &Path, limits: Limits, cancel: Cancel) -> io::Result<Host> {
        let (guest, hello, _holder) = payload::install_programs(cache)?;
        Ok(Host { guest, hello, _holder, limits, cancel, programs: None })
    }

    /// Adds the user's programs, if there are any, and the directory in which they start.
    #[must_use]
    pub fn with(self, programs: Option<(NativePrograms, PathBuf)>) -> Host {
        Host { programs, ..self }
    }

    /// Runs a Workload in a process of its own and returns its output. When this returns, no
    /// process or file of it is left: its janitor holds the pipe open until then.
    ///
    /// `prefix` is a command that gets the program and its arguments. It must execute the program
    /// in its own process, as `taskset`, `chrt` and `setarch` do. If it starts a child, or changes
    /// the user, ktax cannot end that process.
    pub fn run(
        &self,
        prefix: &[String],
        workload: &Workload,
        counters: bool,
    ) -> Result<Vec<u8>, Stop> {
        let failed =
            |operation: &str| host_failure(&format!("{operation} {}", self.guest.display()));
        let mut stderr = tempfile::tempfile().map_err(failed("run"))?;
        let behind = |reason: String| Failure::Prefix { command: prefix.join(" "), reason };
        let started = self.start(prefix, workload, counters, &stderr);
        let mut child = started.map_err(|error| match prefix {
            [] => failed("run")(error),
            _ => behind(error.to_string()),
        })?;
        let mut stdout = child.stdout.take().expect("it is piped");
        let ended = self.read_output(&mut child, &mut stdout);
        if ended.is_err() {
            drop(child.kill());
            drop(drain(&mut stdout, Instant::now() + TIDYING));
        }
        let status = child.wait().map_err(failed("wait for"))?;
        if self.programs.is_some() {
            end_orphans();
        }
        let wire = ended?;
        if wire.is_empty() {
            let mut printed = Vec::new();
            stderr.rewind().and_then(|()| stderr.read_to_end(&mut printed)).ok();
            let console = format!("{status} {}", ktax_host::text::escape_bytes(&printed));
            return Err(match prefix {
                [] => Failure::Silent { console },
                _ => behind(console),
            }
            .into());
        }
        Ok(wire)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    fn start(
        &self,
        prefix: &[String],
        workload: &Workload,
        counters: bool,
        stderr: &File,
    ) -> io::Result<Child> {
        let mut command = match prefix {
            [] => Command::new(&self.guest),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(&self.guest);
                command
            }
        };
        command.args(crate::wire::arguments(workload));
        command.args(counters.then_some("counters=1"));
        command.env("KTAX_HELLO", &self.hello);
        if let Some((programs, directory)) = &self.programs {
            adopt_orphans()?;
            command.env("KTAX_PROGRAMS", programs.directory()).current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr.try_clone()?);
        die_with_parent(&mut command, [None, None]);
        command.spawn()
    }

    /// Reads the output of the process to its end, within the limits.
    fn read_output(&self, child: &mut Child, stdout: &mut ChildStdout) -> Result<Vec<u8>, Stop> {
        let started = Instant::now();
        let mut wire = Vec::new();
        let mut block = [0; 4096];
        loop {
            if self.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            if started.elapsed() > self.limits.time {
                return Err(Failure::RealTime { limit_s: self.limits.time.as_secs() }.into());
            }
            if wire.len() as u64 > self.limits.wire_bytes {
                return Err(Failure::Flood { limit_bytes: self.limits.wire_bytes }.into());
            }
            if !is_readable(stdout, self.limits.poll) {
                continue;
            }
            match stdout.read(&mut block) {
                Ok(0) => return Ok(wire),
                Ok(length) => wire.extend_from_slice(&block[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let operation = format!("read from process {}", child.id());
                    return Err(host_failure(&operation)(error).into());
                }
            }
        }
    }
}

fn is_readable(stdout: &ChildStdout, within: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)];
    // An interrupted poll only returns early.
    matches!(poll(&mut fds, Some(&timespec(within))), Ok(1..))
}

fn drain(stdout: &mut ChildStdout, deadline: Instant) -> io::Result<()> {
    let mut block = [0; 4096];
    while Instant::now() < deadline {
        if is_readable(stdout, Duration::from_millis(200)) && stdout.read(&mut block)? == 0 {
            break;
        }
    }
    Ok(())
}

/// The running kernel with the settings of two Sides.
pub struct TimedHost<'a> {
    host: Host,
    changer: RefCell<Changer<'a>>,
    facts: fn() -> Facts,
    between: &'a dyn Fn(),
}

impl<'a> TimedHost<'a> {
    /// Opens the running kernel for both Sides of a Plan, with the journal of this machine.
    pub fn open(setup: TimedSetup<'a>) -> Result<TimedHost<'a>> {
        let TimedSetup { plan, cache, limits, cancel, note, between, native, .. } = setup;
        let programs = Host::new(cache, limits, cancel)
            .map_err(host_failure("cannot put the guest program into the cache"))?
            .with(native);
        let sides = [&plan.subjects.base, &plan.subjects.change];
        let made = TimedHost::new(programs, &state_dir(), sides, noise::facts, note)?;
        Ok(TimedHost { between, ..made })
    }

    /// Restores what an earlier ktax left changed, and reads the present settings. `dir` has the
    /// journal, `facts` reads the facts of the machine, `note` prints a line for the user.
    pub fn new(
        host: Host,
        dir: &Path,
        sides: [&TimedSubject; 2],
        facts: fn() -> Facts,
        note: impl Fn(&str) + 'a,
    ) -> Result<TimedHost<'a>> {
        let changer = RefCell::new(Changer::new(dir, sides, note)?);
        Ok(TimedHost { host, changer, facts, between: &|| () })
    }
}

impl Timed for TimedHost<'_> {
    fn boot(&self, subject: &TimedSubject, loops: &[&Workload]) -> Result<Booted, Stop> {
        if self.host.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.changer.borrow_mut().apply(subject).map_err(failed)?;
        let facts = (self.facts)();
        let mut wires = Vec::with_capacity(loops.len());
        // A row that hangs waits for the limit once, not once in each loop.
        let mut ended: BTreeMap<&str, Failure> = BTreeMap::new();
        for workload in loops {
            (self.between)();
            if let Some(failure) = ended.get(workload.row.as_str()) {
                wires.push(Err(failure.clone()));
                continue;
            }
            wires.push(match self.host.run(&subject.prefix, workload, false) {
                Ok(wire) => Ok(wire),
                Err(Stop::Failed(failure, _)) => {
                    ended.insert(&workload.row, failure.clone());
                    Err(failure)
                }
                Err(Stop::Cancelled) => return Err(Stop::Cancelled),
            });
        }
        Ok(Booted { facts, wires, console: Vec::new() })
    }

    fn end(&self) -> Result<(), Stop> {
        self.changer.borrow_mut().restore().map_err(failed)
    }
}

fn failed(error: Error) -> Stop {
    Failure::Setting { reason: error.to_string() }.into()
}

/// Makes processes whose parents have ended children of this process.
fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Ends all children of this process, and those that it gets by that. Nothing else may have one.
fn end_orphans() {
    while let Some(left) = Some(children()).filter(|left| !left.is_empty()) {
        for pid in left {
            // The process may have ended by itself.
            kill_process(pid, Signal::KILL).ok();
            waitpid(Some(pid), WaitOptions::empty()).ok();
        }
    }
}

fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids: String = lists.collect();
    pids.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

#[cfg(test)]
mod tests;
