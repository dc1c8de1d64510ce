//! A command as a child of ktax, counted from its first instruction to its end.
//!
//! The child is ktax itself, which stops, is given its counters, goes on and becomes the command.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, kill_process, kill_process_group,
    pidfd_open, waitid,
};
use thiserror::Error;

use super::counters::Counters;
use super::limits::{Cancel, timespec};
use super::process::die_with_parent;
use crate::model::{Count, Counted, ELAPSED};

/// The subcommand of ktax that becomes the command: see [`become_command`].
pub const HOLD: &str = "stat-hold";

/// Why there is nothing of a command.
#[derive(Debug, Error)]
pub enum CommandError {
    #[error("cannot start {program}: {reason}; give a program that is there and may be executed")]
    Start { program: String, reason: String },
    #[error("cannot {operation}: {error}; run `ktax doctor`")]
    Host { operation: &'static str, error: io::Error },
    #[error("stopped")]
    Cancelled,
}

/// One run of a command.
#[derive(Debug)]
pub struct Ended {
    /// What was counted, the time included.
    pub counted: Counted,
    /// How it ended.
    pub status: ExitStatus,
    /// The end of what it said on stderr; empty if that was shown.
    pub last_words: Vec<u8>,
}

/// Runs a command to its end; its output goes to ktax's own if it is shown, and is dropped
/// otherwise. What is cancelled leaves no process of its group.
pub fn run(command: &[String], is_shown: bool, cancel: &Cancel) -> Result<Ended, CommandError> {
    let mut report = tempfile::tempfile().map_err(host("make a temporary file"))?;
    let mut stderr = tempfile::tempfile().map_err(host("make a temporary file"))?;
    let said = (!is_shown).then_some(&stderr);
    let mut held = Held::start(command, &report, said).map_err(host("start a process"))?;
    let mut counters = Counters::open(held.pid());
    let (elapsed, status) = held.finish(cancel)?;
    let reason = tail(&mut report).map_err(host("read a temporary file"))?;
    if !reason.is_empty() {
        let reason = String::from_utf8_lossy(&reason).into_owned();
        return Err(CommandError::Start { program: command[0].clone(), reason });
    }
    let mut counted = counters.read();
    let value = elapsed.as_nanos() as f64;
    counted.insert(ELAPSED.name, Count::Seen { value, counted_percent: 100.0 });
    let last_words = tail(&mut stderr).map_err(host("read a temporary file"))?;
    Ok(Ended { counted, status, last_words })
}

fn host<E: Into<io::Error>>(operation: &'static str) -> impl FnOnce(E) -> CommandError {
    move |error| CommandError::Host { operation, error: error.into() }
}

/// A child that stands still until it is told to go on, and does not outlive this.
struct Held {
    child: Child,
    is_over: bool,
}

impl Held {
    fn start(command: &[String], report: &File, stderr: Option<&File>) -> io::Result<Held> {
        let mut held = Command::new(std::env::current_exe()?);
        let report = format!("/proc/{}/fd/{}", std::process::id(), report.as_raw_fd());
        held.args([HOLD, &report, "--"]).args(command);
        // Of its own, so that all of it can be ended at once.
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

    /// Lets it go on to its end: how long that took, and how it ended.
    fn finish(&mut self, cancel: &Cancel) -> Result<(Duration, ExitStatus), CommandError> {
        const WAIT: &str = "wait for the command";
        let handle = pidfd_open(self.pid(), PidfdFlags::empty()).map_err(host(WAIT))?;
        let started = Instant::now();
        kill_process(self.pid(), Signal::CONT).map_err(host("start the command"))?;
        while !ends(&handle).map_err(host(WAIT))? {
            if cancel.is_cancelled() {
                return Err(CommandError::Cancelled);
            }
        }
        let elapsed = started.elapsed();
        let status = self.child.wait().map_err(host(WAIT))?;
        self.is_over = true;
        Ok((elapsed, status))
    }
}

/// Waits until a process ends, or a signal comes; whether it has ended. A signal that came just
/// before is seen a second later: who woke up more often would take the CPU from what is measured.
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

/// The last bytes of a file.
fn tail(file: &mut File) -> io::Result<Vec<u8>> {
    const LAST_WORDS: u64 = 2048;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail)
}

/// How a process ended, if not well: `exit status 1`, `signal 9`.
pub fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("exit status {code}")),
        (None, Some(signal)) => Some(format!("signal {signal}")),
        (None, None) => Some(status.to_string()),
    }
}

/// Stops this process until it is told to go on, and becomes the command; says in `report` why it
/// could not, so that its exit status is not taken for the command's.
pub fn become_command(report: &Path, command: &[String]) -> io::Result<()> {
    kill_process(getpid(), Signal::STOP)?;
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    fs::write(report, error.to_string())
}
