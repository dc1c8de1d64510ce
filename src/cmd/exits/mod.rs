//! `ktax exits`: where a virtual machine's time goes.

mod args;
mod diff;
mod record;
mod report;
mod target;
mod watch;

use clap::Subcommand;

use super::exit::Exit;
use crate::flow::Error;

/// Show where a virtual machine's time goes, by exit reason.
///
/// `record` and `watch` observe a running VM through the kernel's events or counters. `report` and
/// `diff` read files: recordings, traces as text, the text of `perf kvm stat report`, and copies of
/// KVM's debugfs files `timing` (e500) and `timings` (book3s HV). FILE#2 names the second table of
/// a file.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    // Without words of their own, which would hide those of the arguments.
    Record(record::Args),
    Watch(watch::Args),
    Report(report::Args),
    Diff(diff::Args),
    /// Stop, and then become a command
    #[command(hide = true)]
    Hold(target::StoppedArgs),
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        Command::Record(args) => record::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Hold(args) => target::hold(args),
        Command::Report(args) => report::run(args),
        Command::Diff(args) => diff::run(args),
    }
}
