//! `ktax exits`: where a virtual machine's time goes.

mod args;
mod diff;
mod file;
mod record;
mod report;
mod target;
mod watch;

use clap::Subcommand;

use super::exit::{Exit, UsageError};

/// Say where a virtual machine's time goes, exit by exit.
///
/// Of a VM that runs (record, watch), from the kernel's events or counts; or of a file (report,
/// diff): a recording, or a copy of the debugfs files `timing` of e500 and `timings` of book3s HV,
/// also from a serial line. A file with several tables is named with the number of one: FILE#2.
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
    /// Stop, and become a command
    #[command(hide = true)]
    Hold(target::HoldArgs),
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    command(args).map_err(|error| escaped(&error))
}

/// In an error are names of other people's processes and files, which reach a terminal.
fn escaped(error: &anyhow::Error) -> anyhow::Error {
    let text = crate::text::escape(&format!("{error:#}"));
    match Exit::of_error(error) {
        Exit::Usage => UsageError::Text(text).into(),
        _ => anyhow::anyhow!(text),
    }
}

fn command(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Record(args) => record::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Hold(args) => target::hold(args),
        Command::Report(args) => report::run(args),
        Command::Diff(args) => diff::run(args),
    }
}
