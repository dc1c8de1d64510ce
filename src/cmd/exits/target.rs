use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::cmd::note::note;
use crate::flow::OrHost;
use clap::ArgGroup;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

use crate::engine::{Cancel, die_with_parent};
use crate::exits::live::{Process, by_name};
use crate::flow::Error;

/// How often ktax looks whether a command has stopped.
const LOOK: Duration = Duration::from_millis(10);

/// How long a command has to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);

/// The VM to look at.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("target").required(true).args(["pid", "vm", "command"]))]
pub struct TargetArgs {
    /// Look at this process, a VMM such as qemu-system-x86_64
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Look at the VM of this name: -name of QEMU, --id of Firecracker
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,
    /// Start when the command stops itself (SIGSTOP), and end when it stops itself again
    #[arg(long, requires = "command", conflicts_with_all = ["pid", "vm"])]
    from_stop: bool,
    /// Start this VMM, and look at it until it ends
    ///
    /// The command itself must be the VMM. ktax does not look at its children, so a shell must
    /// `exec` the VMM.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A VMM that is recorded. One that ktax started ends with the recording.
pub struct RecordedVmm {
    pub process: Process,
    /// Its name and number.
    pub of: String,
    /// Whether its next stop ends the recording.
    stops: bool,
    child: Option<Child>,
    /// Raised when the user wants it to end.
    cancel: Cancel,
}

impl TargetArgs {
    /// Whether it is started.
    pub fn is_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// The process; nothing if the user ends it before it began. A command is made and stands still
    /// until [`RecordedVmm::go`].
    pub fn open(&self, cancel: Cancel) -> Result<Option<RecordedVmm>, Error> {
        if !self.command.is_empty() {
            return start(&self.command, self.from_stop, cancel);
        }
        let pid = match (&self.vm, self.pid) {
            (Some(name), _) => by_name(name)?,
            (None, Some(pid)) => pid,
            (None, None) => unreachable!("one of the three is required"),
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
    let program = Path::new(&command[0]).file_name().unwrap_or_default().to_string_lossy();
    let child = held.spawn().context(format!("cannot start {program}"), "try again")?;
    let of = format!("{program} (PID {})", child.id());
    let process = Process::open(child.id())?;
    let target = RecordedVmm { process, of, stops: from_stop, child: Some(child), cancel };
    let mut stopped = target.stopped()?;
    if stopped == Some(true) && from_stop {
        target.go()?;
        stopped = target.stopped()?;
        if stopped == Some(false) {
            return Err(Error::host(format!(
                "{program} ended but never stopped itself; remove --from-stop, or let the program \
                 raise SIGSTOP where the recording should begin"
            )));
        }
    }
    if stopped == Some(false) {
        return Err(Error::host(format!(
            "{program} was killed before ktax could start it; try again"
        )));
    }
    if stopped.is_none() {
        target.end(false)?;
        note!("ktax: stopped");
        return Ok(None);
    }
    Ok(Some(target))
}

impl RecordedVmm {
    /// Whether the user wants it to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
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
            if self.process.ended_within(LOOK)? {
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
        while !self.is_cancelled() && !self.process.ended_within(Duration::from_millis(100))? {}
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

/// Stops itself, and becomes the command once it is continued.
#[derive(Debug, clap::Args)]
pub struct StoppedArgs {
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn hold(args: &StoppedArgs) -> Result<crate::cmd::exit::Exit, Error> {
    kill_process(getpid(), Signal::STOP)?;
    let error = Command::new(&args.command[0]).args(&args.command[1..]).exec();
    Err(Error::Usage(format!(
        "cannot start {}: {error}; name an existing program",
        args.command[0]
    )))
}
