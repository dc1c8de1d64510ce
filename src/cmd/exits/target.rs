use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use crate::cmd::exit::UsageError;
use crate::engine::die_with_parent;
use crate::exits::live::{Process, by_name};

/// Whose exits.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct TargetArgs {
    /// The VMM's process, such as that of qemu-system-x86_64
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The VM that was named so: -name of QEMU, --id of Firecracker
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,
    /// Start this VMM, and record it to its end
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A VMM that is recorded; one that was started ends with it.
pub struct Target {
    pub process: Process,
    /// Its name and number.
    pub of: String,
    child: Option<Child>,
}

impl TargetArgs {
    /// The process. A command is made and stands still until [`Target::go`].
    pub fn open(&self) -> anyhow::Result<Target> {
        if let [program, ..] = &self.command[..] {
            return start(&self.command)
                .with_context(|| format!("cannot start {program}; give a program that is there"));
        }
        let pid = match (&self.vm, self.pid) {
            (Some(name), _) => by_name(name)?,
            (None, Some(pid)) => pid,
            (None, None) => unreachable!("one of the three is required"),
        };
        let process = Process::open(pid)?;
        process.require_vm()?;
        let of = format!("{} (PID {pid})", process.name());
        Ok(Target { process, of, child: None })
    }
}

/// ktax itself, which stops and then becomes the command: so that nothing of it is missed.
fn start(command: &[String]) -> anyhow::Result<Target> {
    let mut held = Command::new(std::env::current_exe()?);
    held.args(["exits", "hold", "--"]).args(command);
    die_with_parent(&mut held, [None, None]);
    let child = held.spawn()?;
    let pid = Pid::from_child(&child);
    let stopped = waitpid(Some(pid), WaitOptions::UNTRACED)?;
    let has_stopped = stopped.is_some_and(|(_, status)| status.stopped());
    anyhow::ensure!(has_stopped, "it ended before it began");
    let program = Path::new(&command[0]).file_name().unwrap_or_default().to_string_lossy();
    let of = format!("{program} (PID {})", child.id());
    Ok(Target { process: Process::open(child.id())?, of, child: Some(child) })
}

impl Target {
    /// A command goes on.
    pub fn go(&self) -> anyhow::Result<()> {
        match &self.child {
            Some(child) => Ok(kill_process(Pid::from_child(child), Signal::CONT)?),
            None => Ok(()),
        }
    }

    /// A command that still runs is asked to end. How it ended, if it was not well.
    pub fn end(mut self, is_over: bool) -> anyhow::Result<Option<String>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        if !is_over {
            kill_process(Pid::from_child(child), Signal::TERM)?;
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
