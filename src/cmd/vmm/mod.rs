//! `ktax vmm`: guests whose exits are counted by who runs them.

mod linux;
mod raw;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;

use super::exit::Exit;
use crate::vmm::{Account, Ended, Outcome};

/// Run a small guest on /dev/kvm and count how often it leaves to user space.
///
/// At its end one line of JSON says, for each vCPU, its wall time and how often KVM_RUN returned
/// for each reason.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run machine code without an operating system, that leaves exactly as often as it is told
    Raw(raw::Args),
    /// Boot a Linux kernel with one serial port
    Linux(linux::Args),
}

/// Where the account goes.
#[derive(Debug, clap::Args)]
struct AccountArgs {
    /// Write the account there instead of to stderr
    #[arg(long, value_name = "FILE")]
    account: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let (outcome, account) = match &args.command {
        Command::Raw(args) => (crate::vmm::raw::run(&args.loops())?, &args.account),
        Command::Linux(args) => (crate::vmm::linux::run(&args.config())?, &args.account),
    };
    let Outcome { account: counted, ended } = outcome;
    write_account(&counted, account.account.as_deref())?;
    Ok(match ended? {
        Ended::ByGuest => Exit::Ok,
        Ended::BySignal => Exit::Cancelled,
    })
}

fn write_account(account: &Account, file: Option<&Path>) -> anyhow::Result<()> {
    let line = serde_json::to_string(account)?;
    match file {
        None => note!("{line}"),
        Some(path) => std::fs::write(path, line + "\n")
            .with_context(|| format!("cannot write {}; name another file", path.display()))?,
    }
    Ok(())
}
