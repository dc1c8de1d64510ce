//! Tables of where a virtual machine's time goes: read from files, or recorded until the VM ends or
//! the user stops it.

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

/// Puts the name of a file before an error of its content.
fn content_error(name: &str, error: &Error) -> Error {
    let (name, message) = (escape(name), escape(error.message()));
    Error::user(format!("{name}: {message}")).next(escape(error.next_step()))
}

/// Reads the tables that `FILE`, `DIR`, `FILE#NUMBER` or `DIR#NUMBER` names. `per` says how a trace
/// is added up, by default for the VM; only traces accept it.
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
    let there = tables.len();
    match number {
        None => Ok(tables),
        Some(number) => {
            let chosen = tables.into_iter().nth(usize::wrapping_sub(number, 1));
            let message = format!("{} has no table {number}", escape(path));
            let absent = || Error::user(message).next(format!("give 1 to {there}"));
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
            "{} is no trace, so its tables are made already",
            escape(path)
        ))
        .next("remove --per, and give --per to `ktax exits record`")),
        false => Ok(tables),
    }
}

pub fn only_table(name: &str) -> Result<ExitTable, Error> {
    let mut tables = tables(name, None)?;
    match tables.len() {
        1 => Ok(tables.remove(0)),
        there => {
            let name = escape(name);
            let message = format!("{name} has {}", counted(there, "table"));
            Err(Error::user(message).next(format!("name one of them, such as {name}#1")))
        }
    }
}

/// Difference between two reads of the same file.
pub fn tables_since(
    name: &str,
    earlier: &str,
    per: Option<TableScope>,
) -> Result<Vec<ExitTable>, Error> {
    let (later, before) = (tables(name, per)?, tables(earlier, per)?);
    let (name, earlier) = (escape(name), escape(earlier));
    if before.len() != later.len() {
        let example = if later.len() > 1 { &name } else { &earlier };
        let numbers = (counted(before.len(), "table"), later.len());
        let message = format!("{earlier} has {}, and {name} has {}", numbers.0, numbers.1);
        return Err(Error::user(message).next(format!("name one of each, such as {example}#1")));
    }
    let both = before.iter().zip(&later).map(|(earlier, later)| subtract_tables(earlier, later));
    let both = both.collect::<Result<Vec<_>, _>>();
    both.map_err(|error| content_error(&format!("{name} since {earlier}"), &error))
}

/// Records a VM until it ends, the user stops it, or `most` has passed. `None` if the user stopped
/// it before it began.
pub fn record(
    vmm: &VmmToRecord,
    choice: RecorderChoice,
    per: TableScope,
    most: Option<Duration>,
    cancel: Cancel,
    observer: &dyn Observer,
) -> Result<Option<Vec<ExitTable>>, Error> {
    let Some(target) = vmm.open(cancel)? else { return Ok(None) };
    let mut recording = ActiveRecording::attach(target, choice)?;
    let began = Instant::now();
    let name = escape(&recording.target.name);
    observer.status(&format!("recording {name}; Ctrl-C ends it"));
    let is_long_enough = || most.is_some_and(|most| began.elapsed() >= most);
    while recording.goes_on() && !is_long_enough() {
        recording.look(most.map_or(CANCEL_POLL, |most| most.saturating_sub(began.elapsed())))?;
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

struct ActiveRecording {
    recorder: Recorder,
    target: RecordedVmm,
    is_over: bool,
    is_marked: bool,
}

impl ActiveRecording {
    fn attach(target: RecordedVmm, choice: RecorderChoice) -> Result<ActiveRecording, Error> {
        let recorder =
            Recorder::attach(&target.process, &target.name, choice, target.child.is_none())?;
        target.go()?;
        Ok(ActiveRecording { recorder, target, is_over: false, is_marked: false })
    }

    fn goes_on(&self) -> bool {
        !self.is_over && !self.is_marked && !self.target.cancel.is_cancelled()
    }

    /// Waits up to `time` for the VM's end, then takes the new events.
    fn look(&mut self, time: Duration) -> Result<(), Error> {
        self.is_over = self.target.process.ended_within(time.min(CANCEL_POLL))?;
        self.recorder.poll()?;
        self.is_marked = !self.is_over && self.target.stops && self.target.take_stop()?;
        Ok(())
    }

    fn finish(self, per: TableScope) -> Result<(Vec<ExitTable>, Option<String>), Error> {
        let ActiveRecording { recorder, target, mut is_over, is_marked } = self;
        let tables = recorder.finish(per, is_marked)?;
        if is_marked {
            target.go_to_the_end()?;
            is_over = !target.cancel.is_cancelled();
        }
        Ok((tables, target.end(is_over)?))
    }
}

/// Interval at which ktax checks whether a command has stopped.
const STOP_POLL: Duration = Duration::from_millis(10);

/// Interval at which ktax checks whether the user has stopped a recording.
const CANCEL_POLL: Duration = Duration::from_millis(100);

/// Time that a command has to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);

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

/// VMM that is recorded. If ktax started it, it ends with the recording.
struct RecordedVmm {
    process: Process,
    /// Name and process ID.
    name: String,
    /// True if its next stop ends the recording.
    stops: bool,
    child: Option<Child>,
    /// Raised when the user stops the recording.
    cancel: Cancel,
}

impl VmmToRecord {
    /// Opens the process. A command is started and stands still until [`RecordedVmm::go`]. `None`
    /// if the user stopped it before that.
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
        Ok(Some(RecordedVmm { process, name, stops: false, child: None, cancel }))
    }
}

/// Starts ktax itself, which stops and then becomes the command, so that the recording misses
/// nothing.
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
    let target = RecordedVmm { process, name, stops: from_stop, child: Some(child), cancel };
    let mut stopped = target.stopped()?;
    if stopped == Some(true) && from_stop {
        target.go()?;
        stopped = target.stopped()?;
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
    fn go(&self) -> Result<(), Error> {
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
    fn stopped(&self) -> Result<Option<bool>, Error> {
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
    fn go_to_the_end(&self) -> Result<(), Error> {
        self.go()?;
        while !self.cancel.is_cancelled() && !self.process.ended_within(CANCEL_POLL)? {}
        Ok(())
    }

    /// Asks a command that still runs to end, and kills it if it does not. Returns how it failed,
    /// if it did.
    fn end(mut self, is_over: bool) -> Result<Option<String>, Error> {
        let Some(child) = &mut self.child else { return Ok(None) };
        if !is_over {
            kill_process(Pid::from_child(child), Signal::TERM).map_err(std::io::Error::from)?;
            // A stopped process would not see SIGTERM.
            kill_process(Pid::from_child(child), Signal::CONT).map_err(std::io::Error::from)?;
            // A second Ctrl-C ends this wait.
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

/// Stops this process, and becomes the command when it is continued.
pub fn become_vmm(command: &[String]) -> Result<(), Error> {
    kill_process(getpid(), Signal::STOP).map_err(std::io::Error::from)?;
    let reason = Command::new(&command[0]).args(&command[1..]).exec();
    let message = format!("cannot start {}: {reason}", escape(&command[0]));
    Err(Error::user(message).next("name an existing program"))
}
