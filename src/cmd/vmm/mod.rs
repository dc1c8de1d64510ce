//! `ktax vmm`: guests whose exits are counted by who runs them.

mod account;
mod linux;
mod raw;

use crate::cmd::note::note;
use crate::flow::OrHost;
use clap::Subcommand;

use account::AccountArgs;

use super::exit::Exit;
use super::output::write_stdout;
use crate::flow::Error;
use crate::vmm::{Account, GuestEnd, GuestOutcome};

/// Run a small guest on /dev/kvm and count its exits to user space.
///
/// When the guest ends, ktax prints the account: one line of JSON with the wall time of each vCPU,
/// and with how often KVM_RUN returned for each reason.
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

pub fn run(args: &Args) -> Result<Exit, Error> {
    let (outcome, account) = match &args.command {
        Command::Raw(args) => (crate::vmm::raw::run(&args.loops())?, &args.account),
        // The two could not be told apart.
        Command::Linux(args) if args.account.is_stdout() => {
            let problem = "stdout is what the guest prints; remove --account, or name a file";
            return Err(Error::usage(problem));
        }
        Command::Linux(args) => (crate::vmm::linux::run(&args.config())?, &args.account),
    };
    let GuestOutcome { account: counted, ended } = outcome;
    write_account(&counted, account)?;
    Ok(match ended? {
        GuestEnd::ByGuest => Exit::Ok,
        GuestEnd::BySignal => Exit::Cancelled,
    })
}

fn write_account(account: &Account, to: &AccountArgs) -> Result<(), Error> {
    let line = serde_json::to_string(account)?;
    match to.account.as_deref() {
        None => note!("{line}"),
        Some(_) if to.is_stdout() => write_stdout(&(line + "\n"))?,
        Some(path) => std::fs::write(path, line + "\n")
            .context(format!("cannot write {}", path.display()), "name another file")?,
    }
    Ok(())
}
