//! The VMM that is recorded: one that runs, or one that ktax starts.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

use super::error::RecordError;
use crate::engine::{Cancel, die_with_parent};
use crate::exits::live::{Process, by_name};
use crate::flow::error::Error;

/// How often ktax looks whether a command has stopped.
const STOP_POLL: Duration = Duration::from_millis(10);

/// How often ktax looks whether the user has stopped a recording whose VM goes on.
pub(super) const CANCEL_POLL: Duration = Duration::from_millis(100);

/// How long a command has to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which VMM to look at.
#[derive(Debug, Clone)]
pub enum VmmToRecord {
    /// The process of this number.
    Pid(u32),
    /// The VM of this name.
    Name(String),
    /// The VMM that this command starts, until it ends.
    Command {
        /// The words of the command.
        command: Vec<String>,
        /// Whether the recording begins when the command stops itself, and ends when it stops
        /// itself again.
        from_stop: bool,
    },
}

/// A VMM that is recorded. One that ktax started ends with the recording.
pub(super) struct RecordedVmm {
    pub process: Process,
    /// Its name and number.
    pub of: String,
    /// Whether its next stop ends the recording.
    stops: bool,
    child: Option<Child>,
    /// Raised when the user wants it to end.
    cancel: Cancel,
}

impl VmmToRecord {
    /// The process; nothing if the user ends it before it began. A command is made and stands still
    /// until [`RecordedVmm::go`].
    pub(super) fn open(&self, cancel: Cancel) -> Result<Option<RecordedVmm>, Error> {
        let pid = match self {
            VmmToRecord::Command { command, from_stop } => {
                return start(command, *from_stop, cancel);
            }
            VmmToRecord::Name(name) => by_name(name)?,
            VmmToRecord::Pid(pid) => *pid,
        };
        let process = Process::open(pid)?;
        process.require_vm()?;
        let of = format!("{} (PID {pid})", process.name());
        Ok(Some(RecordedVmm { process, of, stops: false, child: None, cancel }))
    }
}

/// ktax itself, which stops and then becomes the command: so that nothing of it is missed.
fn start(
    command: &[String],
    from_stop: bool,
    cancel: Cancel,
) -> Result<Option<RecordedVmm>, Error> {
    let mut held = Command::new(std::env::current_exe()?);
    held.args(["exits", "hold", "--"]).args(command);
    die_with_parent(&mut held, [None, None]);
    let program = Path::new(&command[0]).file_name().unwrap_or_default();
    let program = program.to_string_lossy().into_owned();
    let child = held.spawn();
    let child = child.map_err(|reason| RecordError::Start { program: program.clone(), reason })?;
    let of = format!("{program} (PID {})", child.id());
    let process = Process::open(child.id())?;
    let target = RecordedVmm { process, of, stops: from_stop, child: Some(child), cancel };
    let mut stopped = target.stopped()?;
    if stopped == Some(true) && from_stop {
        target.go()?;
        stopped = target.stopped()?;
        if stopped == Some(false) {
            return Err(RecordError::NeverStopped { program }.into());
        }
    }
    if stopped == Some(false) {
        return Err(RecordError::Killed { program }.into());
    }
    if stopped.is_none() {
        target.end(false)?;
        return Ok(None);
    }
    Ok(Some(target))
}

impl RecordedVmm {
    /// Whether the user wants it to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Whether ktax has started it.
    pub fn is_own(&self) -> bool {
        self.child.is_some()
    }

    /// A command goes on.
    pub fn go(&self) -> Result<(), Error> {
        match &self.child {
            Some(child) => Ok(kill_process(Pid::from_child(child), Signal::CONT)?),
            None => Ok(()),
        }
    }

    /// Waits until the command stops itself or ends; whether it stopped. Nothing if the user does
    /// not want to wait.
    fn stopped(&self) -> Result<Option<bool>, Error> {
        while !self.is_cancelled() {
            if self.take_stop()? {
                return Ok(Some(true));
            }
            if self.process.ended_within(STOP_POLL)? {
                return Ok(Some(false));
            }
        }
        Ok(None)
    }

    /// Whether it has stopped itself since the last time.
    fn take_stop(&self) -> Result<bool, Error> {
        let Some(child) = &self.child else { return Ok(false) };
        let now = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(Pid::from_child(child)), now)?.is_some())
    }

    /// Whether what is of interest has ended although the process lives.
    pub fn has_marked_its_end(&self) -> Result<bool, Error> {
        Ok(self.stops && self.take_stop()?)
    }

    /// Lets a command go on alone to its end.
    pub fn go_to_the_end(&self) -> Result<(), Error> {
        self.go()?;
        while !self.is_cancelled() && !self.process.ended_within(CANCEL_POLL)? {}
        Ok(())
    }

    /// A command that still runs is asked to end, and made to if it does not. How it ended, if it
    /// was not well.
    pub fn end(mut self, is_over: bool) -> Result<Option<String>, Error> {
        let Some(child) = &mut self.child else { return Ok(None) };
        if !is_over {
            kill_process(Pid::from_child(child), Signal::TERM)?;
            // One that stands still would not see it.
            kill_process(Pid::from_child(child), Signal::CONT)?;
            // A second Ctrl-C makes this shorter.
            if !self.process.ended_within(PATIENCE)? {
                child.kill()?;
            }
        }
        let status = child.wait()?;
        Ok((!status.success() && is_over).then(|| status.to_string()))
    }
}

impl Drop for RecordedVmm {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Stops this process, and becomes the command once it is continued.
///
/// # Errors
/// The command cannot be started.
pub fn become_vmm(command: &[String]) -> Result<(), Error> {
    kill_process(getpid(), Signal::STOP)?;
    let reason = Command::new(&command[0]).args(&command[1..]).exec();
    Err(RecordError::NoProgram { program: command[0].clone(), reason }.into())
}
