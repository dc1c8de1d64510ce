//! Runs the guest's own programs as plain processes, one at a time.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::left;
use crate::limits::{Cancel, Limits, timespec};
use crate::payload;
use crate::process::die_with_parent;
use crate::stop::Stop;
use ktax_host::cache::Holder;
use ktax_model::{Failure, Workload};
use ktax_program::NativePrograms;

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
    /// Writes the programs into the cache.
    ///
    /// # Errors
    ///
    /// The cache cannot be written.
    pub fn new(cache: &Path, limits: Limits, cancel: Cancel) -> io::Result<Host> {
        let (guest, hello, _holder) = payload::install_programs(cache)?;
        Ok(Host { guest, hello, _holder, limits, cancel, programs: None })
    }

    /// The same with programs of the user's, if there are any, and the directory in which they
    /// start.
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
    ///
    /// # Errors
    ///
    /// The program cannot be started, prints nothing, or exceeds a limit; or the user
    /// cancelled.
    pub fn run(
        &self,
        prefix: &[String],
        workload: &Workload,
        counters: bool,
    ) -> Result<Vec<u8>, Stop> {
        let failed = |operation: &str, error: io::Error| Failure::Host {
            operation: format!("{operation} {}", self.guest.display()),
            reason: error.to_string(),
        };
        let mut stderr = tempfile::tempfile().map_err(|error| failed("run", error))?;
        let behind = |reason: String| Failure::Prefix { command: prefix.join(" "), reason };
        let started = self.start(prefix, workload, counters, &stderr);
        let mut child = started.map_err(|error| match prefix {
            [] => failed("run", error),
            _ => behind(error.to_string()),
        })?;
        let mut stdout = child.stdout.take().expect("it is piped");
        let ended = self.listen(&mut child, &mut stdout);
        if ended.is_err() {
            drop(child.kill());
            drop(drain(&mut stdout, Instant::now() + TIDYING));
        }
        let status = child.wait().map_err(|error| failed("wait for", error))?;
        if self.programs.is_some() {
            left::end();
        }
        let wire = ended?;
        if wire.is_empty() {
            let mut said = Vec::new();
            stderr.rewind().and_then(|()| stderr.read_to_end(&mut said)).ok();
            let console = format!("{status} {}", ktax_host::text::escape_bytes(&said));
            return Err(match prefix {
                [] => Failure::Silent { console },
                _ => behind(console),
            }
            .into());
        }
        Ok(wire)
    }

    /// Whether the user asked to stop.
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
            left::adopt()?;
            command.env("KTAX_PROGRAMS", programs.directory()).current_dir(directory);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr.try_clone()?);
        die_with_parent(&mut command, [None, None]);
        command.spawn()
    }

    /// Reads the output of the process to its end, within the limits.
    fn listen(&self, child: &mut Child, stdout: &mut ChildStdout) -> Result<Vec<u8>, Stop> {
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
            if !readable(stdout, self.limits.poll) {
                continue;
            }
            match stdout.read(&mut block) {
                Ok(0) => return Ok(wire),
                Ok(length) => wire.extend_from_slice(&block[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let operation = format!("read from process {}", child.id());
                    return Err(Failure::Host { operation, reason: error.to_string() }.into());
                }
            }
        }
    }
}

fn readable(stdout: &ChildStdout, within: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stdout.as_fd(), PollFlags::IN)];
    // An interrupted poll only returns early.
    matches!(poll(&mut fds, Some(&timespec(within))), Ok(1..))
}

fn drain(stdout: &mut ChildStdout, deadline: Instant) -> io::Result<()> {
    let mut block = [0; 4096];
    while Instant::now() < deadline {
        if readable(stdout, Duration::from_millis(200)) && stdout.read(&mut block)? == 0 {
            break;
        }
    }
    Ok(())
}
