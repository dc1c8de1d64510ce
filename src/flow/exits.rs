//! Tables of a virtual machine's exits and times: read from files, or recorded until the VM ends or
//! the user stops the recording.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

use super::Error;
use super::results::{saved, unreadable};
use super::session::Observer;
use crate::disk::read_limited;
use crate::engine::{Cancel, die_with_parent};
use crate::exits::files::{self, FILE_MAX, FileKind};
use crate::exits::live::{Process, Recorder, find_vm_by_name};
use crate::exits::subtract_tables;
use crate::model::{ErrorContext, ExitTable};
use crate::text::{counted, escape};

// Types of arguments.
pub use crate::exits::TableScope;
pub use crate::exits::live::{EventLevel, RecorderChoice, RecordingMethod};

/// Error for the content of a file, with the file's name.
fn content_error(name: &str, error: &Error) -> Error {
    let (name, message) = (escape(name), escape(error.message()));
    Error::user(format!("{name}: {message}")).next(escape(error.next_step()))
}

/// Reads the tables that `FILE`, `DIR`, `FILE#NUMBER` or `DIR#NUMBER` names. `per` selects whether
/// a trace has one table for the VM, which is the default, or more; only traces accept it.
pub fn tables(name: &str, per: Option<TableScope>) -> Result<Vec<ExitTable>, Error> {
    let (path, number) = match name.rsplit_once('#') {
        Some((path, number)) if number.parse::<usize>().is_ok() => (path, number.parse().ok()),
        _ => (name, None),
    };
    let tables = match Path::new(path).is_dir() {
        true if per.is_some() => {
            let message =
                format!("{} is a run of guests, which has one table for each guest", escape(path));
            return Err(Error::user(message).next("remove --per"));
        }
        true => tables_of_run(path)?,
        false => tables_of_file(path, per)?,
    };
    let count = tables.len();
    match number {
        None => Ok(tables),
        Some(number) => {
            let chosen = tables.into_iter().nth(usize::wrapping_sub(number, 1));
            let message = format!("{} has no table {number}", escape(path));
            let absent = || Error::user(message).next(format!("give 1 to {count}"));
            Ok(vec![chosen.ok_or_else(absent)?])
        }
    }
}

fn tables_of_run(path: &str) -> Result<Vec<ExitTable>, Error> {
    let results = saved(&[PathBuf::from(path)])?;
    files::result_tables(results).map_err(|error| content_error(path, &error))
}

fn tables_of_file(path: &str, per: Option<TableScope>) -> Result<Vec<ExitTable>, Error> {
    let wanted = "a recording, a trace or a table of `perf kvm stat report` as text, a copy of \
                  debugfs' kvm/*/vcpu*/timing, or a run directory of guests";
    let bytes = read_limited(Path::new(path), FILE_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let message = format!("{} is larger than {} MiB", escape(path), FILE_MAX >> 20);
            Error::user(message).next("record for a shorter time")
        }
        _ => unreadable(Path::new(path), wanted, error),
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let tables = files::read(&text, per.unwrap_or(TableScope::Vm));
    let tables = tables.map_err(|error| content_error(path, &error))?;
    match per.is_some() && files::detect_kind(&text) != Some(FileKind::Trace) {
        true => Err(Error::user(format!(
            "{} is not a trace, so --per cannot change its tables",
            escape(path)
        ))
        .next("remove --per, and give --per to `ktax exits record`")),
        false => Ok(tables),
    }
}

/// Reads the only table that `name` names.
pub fn only_table(name: &str) -> Result<ExitTable, Error> {
    let mut tables = tables(name, None)?;
    match tables.len() {
        1 => Ok(tables.remove(0)),
        count => {
            let name = escape(name);
            let message = format!("{name} has {}", counted(count, "table"));
            Err(Error::user(message).next(format!("name one of them, such as {name}#1")))
        }
    }
}

/// Tables of a later copy of a file, minus those of an earlier copy.
pub fn tables_since(
    name: &str,
    earlier: &str,
    per: Option<TableScope>,
) -> Result<Vec<ExitTable>, Error> {
    let (later, before) = (tables(name, per)?, tables(earlier, per)?);
    let (name, earlier) = (escape(name), escape(earlier));
    if before.len() != later.len() {
        let example = if later.len() > 1 { &name } else { &earlier };
        let tables = counted(before.len(), "table");
        let message = format!("{earlier} has {tables}, and {name} has {}", later.len());
        return Err(Error::user(message).next(format!("name one of each, such as {example}#1")));
    }
    let both = before.iter().zip(&later).map(|(earlier, later)| subtract_tables(earlier, later));
    let both = both.collect::<Result<Vec<_>, _>>();
    both.map_err(|error| content_error(&format!("{name} since {earlier}"), &error))
}

/// Records a VM until it ends, the user stops the recording, or `max_time` has passed. `None` if
/// the user stopped the recording before it began.
pub fn record(
    vmm: &VmmToRecord,
    choice: RecorderChoice,
    per: TableScope,
    max_time: Option<Duration>,
    cancel: Cancel,
    observer: &dyn Observer,
) -> Result<Option<Vec<ExitTable>>, Error> {
    let Some(target) = vmm.open(cancel)? else { return Ok(None) };
    let mut recording = ActiveRecording::attach(target, choice)?;
    let began = Instant::now();
    let name = escape(&recording.target.name);
    observer.status(&format!("recording {name}; Ctrl-C ends it"));
    let is_long_enough = || max_time.is_some_and(|max_time| began.elapsed() >= max_time);
    while recording.is_recording() && !is_long_enough() {
        let rest = max_time.map(|max_time| max_time.saturating_sub(began.elapsed()));
        recording.wait(rest.unwrap_or(CANCEL_POLL))?;
    }
    observer.status("");
    let (tables, failure) = recording.finish(per)?;
    if let Some(status) = failure {
        if tables.iter().all(|table| table.rows.is_empty()) {
            let message =
                format!("the command failed ({status}), and its own process ran no guest");
            let next = "if it starts the VMM, let it `exec` the VMM, or give the VMM's PID with \
                        --pid";
            return Err(Error::host(message).next(next));
        }
        observer.note(&format!("the command failed: {status}"));
    }
    Ok(Some(tables))
}

/// Shows the tables after each `interval`, until `show` returns `false`. Returns whether the
/// recording began.
pub fn watch(
    vmm: &VmmToRecord,
    choice: RecorderChoice,
    per: TableScope,
    interval: Duration,
    cancel: Cancel,
    show: &dyn Fn(&[ExitTable]) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let Some(target) = vmm.open(cancel)? else { return Ok(false) };
    let mut recording = ActiveRecording::attach(target, choice)?;
    let mut is_wanted = true;
    while is_wanted && recording.is_recording() {
        let shown = Instant::now();
        while recording.is_recording() && shown.elapsed() < interval {
            recording.wait(interval.saturating_sub(shown.elapsed()))?;
        }
        is_wanted = show(&recording.recorder.tables(per)?)?;
    }
    recording.finish(per)?;
    Ok(true)
}

/// Recording that has begun.
struct ActiveRecording {
    recorder: Recorder,
    target: RecordedVmm,
    /// True if the VM has ended.
    has_ended: bool,
    /// True if the command has stopped itself to end the recording.
    has_stopped_itself: bool,
}

impl ActiveRecording {
    fn attach(target: RecordedVmm, choice: RecorderChoice) -> Result<ActiveRecording, Error> {
        let recorder =
            Recorder::attach(&target.process, &target.name, choice, target.child.is_none())?;
        target.resume()?;
        Ok(ActiveRecording { recorder, target, has_ended: false, has_stopped_itself: false })
    }

    fn is_recording(&self) -> bool {
        !self.has_ended && !self.has_stopped_itself && !self.target.cancel.is_cancelled()
    }

    /// Waits up to `time` for the VM's end, then reads the new events.
    fn wait(&mut self, time: Duration) -> Result<(), Error> {
        self.has_ended = self.target.process.ended_within(time.min(CANCEL_POLL))?;
        self.recorder.poll()?;
        self.has_stopped_itself =
            !self.has_ended && self.target.ends_at_stop && self.target.take_stop()?;
        Ok(())
    }

    fn finish(self, per: TableScope) -> Result<(Vec<ExitTable>, Option<String>), Error> {
        let ActiveRecording { recorder, target, mut has_ended, has_stopped_itself } = self;
        let tables = recorder.finish(per, has_stopped_itself)?;
        if has_stopped_itself {
            target.run_to_end()?;
            has_ended = !target.cancel.is_cancelled();
        }
        Ok((tables, target.end(has_ended)?))
    }
}

/// Interval at which ktax checks whether a command has stopped itself.
const STOP_POLL: Duration = Duration::from_millis(10);

/// Interval at which ktax checks whether the user has stopped a recording.
const CANCEL_POLL: Duration = Duration::from_millis(100);

/// Time that a command has to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(3);

/// VMM to record.
#[derive(Debug, Clone)]
pub enum VmmToRecord {
    Pid(u32),
    Name(String),
    /// Command that starts the VMM; the recording ends with it.
    Command {
        command: Vec<String>,
        /// True if the recording begins when the command stops itself, and ends when it stops
        /// itself again.
        from_stop: bool,
    },
}

/// VMM that is recorded. A VMM that ktax has started ends with the recording.
struct RecordedVmm {
    process: Process,
    /// Name and process ID.
    name: String,
    /// True if the recording ends when the VMM stops itself.
    ends_at_stop: bool,
    /// Process of the command; `None` if ktax did not start the VMM.
    child: Option<Child>,
    /// Raised when the user stops the recording.
    cancel: Cancel,
}

impl VmmToRecord {
    /// Opens the process. A command is started, and is stopped until [`RecordedVmm::resume`].
    /// `None` if the user stopped the recording before that.
    fn open(&self, cancel: Cancel) -> Result<Option<RecordedVmm>, Error> {
        let pid = match self {
            VmmToRecord::Command { command, from_stop } => {
                return start_command(command, *from_stop, cancel);
            }
            VmmToRecord::Name(name) => find_vm_by_name(name)?,
            VmmToRecord::Pid(pid) => *pid,
        };
        let process = Process::open(pid)?;
        process.require_vm()?;
        let name = format!("{} (PID {pid})", process.name());
        Ok(Some(RecordedVmm { process, name, ends_at_stop: false, child: None, cancel }))
    }
}

/// Starts ktax as a child, which stops itself and becomes the command when it is resumed. So the
/// recording begins before the command does.
fn start_command(
    command: &[String],
    from_stop: bool,
    cancel: Cancel,
) -> Result<Option<RecordedVmm>, Error> {
    let mut held = Command::new(std::env::current_exe()?);
    held.args(["exits", "hold", "--"]).args(command);
    die_with_parent(&mut held, [None, None]);
    let program = Path::new(&command[0]).file_name().unwrap_or_default();
    let program = program.to_string_lossy().into_owned();
    let shown = escape(&program);
    let child = held.spawn().or_host(format!("cannot start {shown}"), "try again")?;
    let name = format!("{program} (PID {})", child.id());
    let process = Process::open(child.id())?;
    let target = RecordedVmm { process, name, ends_at_stop: from_stop, child: Some(child), cancel };
    let mut stopped = target.wait_for_stop()?;
    if stopped == Some(true) && from_stop {
        target.resume()?;
        stopped = target.wait_for_stop()?;
        if stopped == Some(false) {
            let message = format!("{shown} ended but never stopped itself");
            let next = "remove --from-stop, or let the program raise SIGSTOP where the recording \
                        should begin";
            return Err(Error::host(message).next(next));
        }
    }
    if stopped == Some(false) {
        let message = format!("{shown} was killed before ktax could start it");
        return Err(Error::host(message).next("try again"));
    }
    if stopped.is_none() {
        target.end(false)?;
        return Ok(None);
    }
    Ok(Some(target))
}

impl RecordedVmm {
    /// Resumes the command.
    fn resume(&self) -> Result<(), Error> {
        match &self.child {
            Some(child) => {
                Ok(kill_process(Pid::from_child(child), Signal::CONT)
                    .map_err(std::io::Error::from)?)
            }
            None => Ok(()),
        }
    }

    /// Waits until the command stops itself (`true`) or ends (`false`); `None` if the user stopped
    /// the recording.
    fn wait_for_stop(&self) -> Result<Option<bool>, Error> {
        while !self.cancel.is_cancelled() {
            if self.take_stop()? {
                return Ok(Some(true));
            }
            if self.process.ended_within(STOP_POLL)? {
                return Ok(Some(false));
            }
        }
        Ok(None)
    }

    /// Returns true if the command has stopped itself since the last call.
    fn take_stop(&self) -> Result<bool, Error> {
        let Some(child) = &self.child else { return Ok(false) };
        let now = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(Pid::from_child(child)), now)
            .map_err(std::io::Error::from)?
            .is_some())
    }

    /// Continues the command without recording it.
    fn run_to_end(&self) -> Result<(), Error> {
        self.resume()?;
        while !self.cancel.is_cancelled() && !self.process.ended_within(CANCEL_POLL)? {}
        Ok(())
    }

    /// Ends a command that still runs by SIGTERM, and by SIGKILL after a timeout. Returns the
    /// status of a command that failed by itself.
    fn end(mut self, has_ended: bool) -> Result<Option<String>, Error> {
        let Some(child) = &mut self.child else { return Ok(None) };
        if !has_ended {
            kill_process(Pid::from_child(child), Signal::TERM).map_err(std::io::Error::from)?;
            // A stopped process would not see SIGTERM.
            kill_process(Pid::from_child(child), Signal::CONT).map_err(std::io::Error::from)?;
            // A second Ctrl-C ends this wait.
            if !self.process.ended_within(TERM_TIMEOUT)? {
                child.kill()?;
            }
        }
        let status = child.wait()?;
        Ok((!status.success() && has_ended).then(|| status.to_string()))
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

/// Stops this process, and replaces it by the command when it is resumed.
pub fn become_vmm(command: &[String]) -> Result<(), Error> {
    kill_process(getpid(), Signal::STOP).map_err(std::io::Error::from)?;
    let reason = Command::new(&command[0]).args(&command[1..]).exec();
    let message = format!("cannot start {}: {reason}", escape(&command[0]));
    Err(Error::user(message).next("name an existing program"))
}
