//! Runs a command as a child of ktax and counts it from its first instruction to its end.
//!
//! The child is ktax itself. It stops, gets its counters, continues, and executes the command.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process,
    kill_process_group, pidfd_open, set_parent_process_death_signal, waitid,
};

use super::counters::Counters;
use super::limits::{Cancel, timespec};
use ktax_host::text::escape;
use ktax_model::{Count, Counted, ELAPSED, Error, ErrorContext, Result};

/// The subcommand of ktax that executes the command: see [`become_command`].
pub const HOLD: &str = "stat-hold";

/// One run of a command.
#[derive(Debug)]
pub struct CountedRun {
    /// The counts, and the elapsed time.
    pub counted: Counted,
    /// The exit status.
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
    counted.insert(ELAPSED.name, Count::Seen { value, counted_percent: 100.0 });
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

/// Reads the last bytes of a file.
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
