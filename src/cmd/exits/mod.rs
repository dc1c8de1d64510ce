//! `ktax exits`: where a virtual machine's time goes.

mod diff;
mod file;
mod report;

use clap::Subcommand;

use super::exit::Exit;

/// Say where a virtual machine's time goes, exit by exit.
///
/// Reads what KVM says of it: the debugfs files `timing` of e500 and `timings` of book3s HV, as
/// they were copied, also from a serial line. A file with several tables is named with the number
/// of one: FILE#2.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the tables of a file
    Report(report::Args),
    /// Compare two tables, reason by reason
    Diff(diff::Args),
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Report(args) => report::run(args),
        Command::Diff(args) => diff::run(args),
    }
}
