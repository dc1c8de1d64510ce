//! `ktax vmm`: guests whose exits are counted by who runs them.

mod linux;
mod raw;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;

use super::exit::{Exit, UsageError};
use super::output::write_stdout;
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
    Raw(raw::Args),
    Linux(linux::Args),
}

/// Where the account goes.
#[derive(Debug, clap::Args)]
struct AccountArgs {
    /// Write the account there instead of to stderr; `-` is stdout, where `raw` prints nothing else
    #[arg(long, value_name = "FILE")]
    account: Option<PathBuf>,
}

impl AccountArgs {
    fn is_stdout(&self) -> bool {
        self.account.as_deref() == Some(Path::new("-"))
    }
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let (outcome, account) = match &args.command {
        Command::Raw(args) => (crate::vmm::raw::run(&args.loops())?, &args.account),
        // The two could not be told apart.
        Command::Linux(args) if args.account.is_stdout() => {
            let problem = "stdout is what the guest prints; leave --account out, or name a file";
            return Err(UsageError::Text(problem.to_owned()).into());
        }
        Command::Linux(args) => (crate::vmm::linux::run(&args.config())?, &args.account),
    };
    let Outcome { account: counted, ended } = outcome;
    write_account(&counted, account)?;
    Ok(match ended? {
        Ended::ByGuest => Exit::Ok,
        Ended::BySignal => Exit::Cancelled,
    })
}

fn write_account(account: &Account, to: &AccountArgs) -> anyhow::Result<()> {
    let line = serde_json::to_string(account)?;
    match to.account.as_deref() {
        None => note!("{line}"),
        Some(_) if to.is_stdout() => write_stdout(&(line + "\n"))?,
        Some(path) => std::fs::write(path, line + "\n")
            .with_context(|| format!("cannot write {}; name another file", path.display()))?,
    }
    Ok(())
}
