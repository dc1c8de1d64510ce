use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::Context;
use clap::ArgGroup;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, waitid};

use crate::cmd::drive::is_cancelled;
use crate::cmd::exit::UsageError;
use crate::engine::die_with_parent;
use crate::exits::live::{Process, by_name};

/// How often it is looked whether a command has stopped.
const LOOK: Duration = Duration::from_millis(10);

/// How long a command that was asked to end has for it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whose exits.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("target").required(true).args(["pid", "vm", "command"]))]
pub struct TargetArgs {
    /// The VMM's process, such as that of qemu-system-x86_64
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The VM that was named so: -name of QEMU, --id of Firecracker
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,
    /// Begin when the command stops itself (SIGSTOP), and end when it does so again
    #[arg(long, requires = "command", conflicts_with_all = ["pid", "vm"])]
    from_stop: bool,
    /// Start this VMM, and look at it until it ends. The command itself must be the VMM: what it
    /// starts is not looked at, so a shell has to `exec` it
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A VMM that is recorded; one that was started ends with it.
pub struct Target {
    pub process: Process,
    /// Its name and number.
    pub of: String,
    /// Whether its next stop is the end of what is of interest.
    stops: bool,
    child: Option<Child>,
}

impl TargetArgs {
    /// Whether it is started.
    pub fn is_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// The process; nothing if the user ends it before it began. A command is made and stands still
    /// until [`Target::go`].
    pub fn open(&self) -> anyhow::Result<Option<Target>> {
        if !self.command.is_empty() {
            return start(&self.command, self.from_stop);
        }
        let pid = match (&self.vm, self.pid) {
            (Some(name), _) => by_name(name)?,
            (None, Some(pid)) => pid,
            (None, None) => unreachable!("one of the three is required"),
        };
        let process = Process::open(pid)?;
        process.require_vm()?;
        let of = format!("{} (PID {pid})", process.name());
        Ok(Some(Target { process, of, stops: false, child: None }))
    }
}

/// ktax itself, which stops and then becomes the command: so that nothing of it is missed.
fn start(command: &[String], from_stop: bool) -> anyhow::Result<Option<Target>> {
    let mut held = Command::new(std::env::current_exe()?);
    held.args(["exits", "hold", "--"]).args(command);
    die_with_parent(&mut held, [None, None]);
    let program = Path::new(&command[0]).file_name().unwrap_or_default().to_string_lossy();
    let failed = || format!("cannot start {program}; try again");
    let child = held.spawn().with_context(failed)?;
    let of = format!("{program} (PID {})", child.id());
    let process = Process::open(child.id())?;
    let target = Target { process, of, stops: from_stop, child: Some(child) };
    let mut stopped = target.stopped()?;
    if stopped == Some(true) && from_stop {
        target.go()?;
        stopped = target.stopped()?;
        anyhow::ensure!(
            stopped != Some(false),
            "{program} ended and never stopped itself; leave --from-stop out, or let it raise \
             SIGSTOP where the recording is to begin"
        );
    }
    anyhow::ensure!(stopped != Some(false), "{program} was ended before it began; try again");
    if stopped.is_none() {
        target.end(false)?;
        note!("ktax: stopped");
        return Ok(None);
    }
    Ok(Some(target))
}

impl Target {
    /// A command goes on.
    pub fn go(&self) -> anyhow::Result<()> {
        match &self.child {
            Some(child) => Ok(kill_process(Pid::from_child(child), Signal::CONT)?),
            None => Ok(()),
        }
    }

    /// Waits until the command stops itself or ends; whether it stopped. Nothing if the user does
    /// not want to wait.
    fn stopped(&self) -> anyhow::Result<Option<bool>> {
        while !is_cancelled() {
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
    fn take_stop(&self) -> anyhow::Result<bool> {
        let Some(child) = &self.child else { return Ok(false) };
        let now = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(Pid::from_child(child)), now)?.is_some())
    }

    /// Whether what is of interest has ended although the process lives.
    pub fn has_marked_its_end(&self) -> anyhow::Result<bool> {
        Ok(self.stops && self.take_stop()?)
    }

    /// Lets a command go on alone to its end.
    pub fn go_to_the_end(&self) -> anyhow::Result<()> {
        self.go()?;
        while !is_cancelled() && !self.process.ended_within(Duration::from_millis(100))? {}
        Ok(())
    }

    /// A command that still runs is asked to end, and made to if it does not. How it ended, if it
    /// was not well.
    pub fn end(mut self, is_over: bool) -> anyhow::Result<Option<String>> {
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

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Stops until it is told to go on, and becomes the command.
#[derive(Debug, clap::Args)]
pub struct HoldArgs {
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn hold(args: &HoldArgs) -> anyhow::Result<crate::cmd::exit::Exit> {
    kill_process(getpid(), Signal::STOP)?;
    let error = Command::new(&args.command[0]).args(&args.command[1..]).exec();
    Err(UsageError::Text(format!(
        "cannot start {}: {error}; give a program that is there",
        args.command[0]
    ))
    .into())
}
