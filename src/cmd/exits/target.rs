use clap::ArgGroup;

use crate::cmd::choice::number;
use crate::cmd::exit::Exit;
use crate::flow::Error;
use crate::flow::exits::{VmmToRecord, become_vmm};

/// No process has a larger number: PID_MAX_LIMIT of Linux.
const PID_MAX: u32 = 1 << 22;

/// The VM to look at.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("target").required(true).args(["pid", "vm", "command"]))]
pub struct TargetArgs {
    /// Look at this process, a VMM such as qemu-system-x86_64
    #[arg(long, value_name = "PID")]
    #[arg(allow_negative_numbers = true, value_parser = number(1..=PID_MAX))]
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

impl TargetArgs {
    /// Whether it is started.
    pub fn is_command(&self) -> bool {
        !self.command.is_empty()
    }

    /// The VMM that was named.
    pub fn vmm(&self) -> VmmToRecord {
        match (&self.vm, self.pid) {
            (Some(name), _) => VmmToRecord::Name(name.clone()),
            (None, Some(pid)) => VmmToRecord::Pid(pid),
            // One of the three is required.
            (None, None) => {
                let (command, from_stop) = (self.command.clone(), self.from_stop);
                VmmToRecord::Command { command, from_stop }
            }
        }
    }
}

/// Stops itself, and becomes the command once it is continued.
#[derive(Debug, clap::Args)]
pub struct StoppedArgs {
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn hold(args: &StoppedArgs) -> Result<Exit, Error> {
    become_vmm(&args.command)?;
    Ok(Exit::Internal)
}
