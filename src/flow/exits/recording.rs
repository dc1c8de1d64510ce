//! A VM that runs, recorded until it ends, or the user wants no more.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

use super::RecordError;
use crate::engine::{Cancel, die_with_parent};
use crate::exits::Per;
use crate::exits::live::{Process, Recorder, RecorderChoice, by_name};
use crate::flow::error::Error;
use crate::flow::session::Observer;
use crate::model::ExitTable;
use crate::text::escape;

/// Records a VM until it ends, the user stops it, or for `most`; `None` where the user stopped it
/// before it began.
///
/// # Errors
/// Nothing can be recorded, or what was started ran no guest.
pub fn record(
    vmm: &VmmToRecord,
    choice: RecorderChoice,
    per: Per,
    most: Option<Duration>,
    cancel: Cancel,
    observer: &dyn Observer,
) -> Result<Option<Vec<ExitTable>>, Error> {
    let Some(target) = vmm.open(cancel)? else { return Ok(None) };
    let mut recording = Attached::attach(target, choice)?;
    let began = Instant::now();
    let of = escape(&recording.target.of);
    observer.status(&format!("recording {of}; Ctrl-C ends it"));
    let is_long_enough = || most.is_some_and(|most| began.elapsed() >= most);
    while recording.goes_on() && !is_long_enough() {
        recording.look(most.map_or(CANCEL_POLL, |most| most.saturating_sub(began.elapsed())))?;
    }
    observer.status("");
    let (tables, failure) = recording.finish(per)?;
    if let Some(status) = failure {
        if tables.iter().all(|table| table.rows.is_empty()) {
            return Err(RecordError::NoGuest { status }.into());
        }
        observer.note(&format!("the command failed: {status}"));
    }
    Ok(Some(tables))
}

/// Shows what was counted so far, after each `interval`, until nobody reads it any more. Whether
/// it began.
///
/// # Errors
/// Nothing can be recorded, or shown.
pub fn watch(
    vmm: &VmmToRecord,
    choice: RecorderChoice,
    per: Per,
    interval: Duration,
    cancel: Cancel,
    show: &dyn Fn(&[ExitTable]) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let Some(target) = vmm.open(cancel)? else { return Ok(false) };
    let mut recording = Attached::attach(target, choice)?;
    let mut is_read = true;
    while is_read && recording.goes_on() {
        let shown = Instant::now();
        while recording.goes_on() && shown.elapsed() < interval {
            recording.look(interval.saturating_sub(shown.elapsed()))?;
        }
        is_read = show(&recording.recorder.tables(per)?)?;
    }
    recording.finish(per)?;
    Ok(true)
}

/// A recording that goes on.
struct Attached {
    recorder: Recorder,
    target: RecordedVmm,
    is_over: bool,
    is_marked: bool,
}

impl Attached {
    fn attach(target: RecordedVmm, choice: RecorderChoice) -> Result<Attached, Error> {
        let recorder = Recorder::attach(&target.process, &target.of, choice, !target.is_own())?;
        target.go()?;
        Ok(Attached { recorder, target, is_over: false, is_marked: false })
    }

    fn goes_on(&self) -> bool {
        !self.is_over && !self.is_marked && !self.target.is_cancelled()
    }

    /// Waits for the VM's end, for at most `time`, and takes what was recorded meanwhile.
    fn look(&mut self, time: Duration) -> Result<(), Error> {
        self.is_over = self.target.process.ended_within(time.min(CANCEL_POLL))?;
        self.recorder.poll()?;
        self.is_marked = !self.is_over && self.target.has_marked_its_end()?;
        Ok(())
    }

    /// The tables, and how the command failed, if it did.
    fn finish(self, per: Per) -> Result<(Vec<ExitTable>, Option<String>), Error> {
        let Attached { recorder, target, mut is_over, is_marked } = self;
        let tables = recorder.finish(per, is_marked)?;
        if is_marked {
            target.go_to_the_end()?;
            is_over = !target.is_cancelled();
        }
        Ok((tables, target.end(is_over)?))
    }
}

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
