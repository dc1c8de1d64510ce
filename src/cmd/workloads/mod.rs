//! `ktax workloads`: the list, one of them in full, and one of them run on this machine.

mod list;
mod run;
mod show;
mod touching;

use clap::Subcommand;

use super::exit::Exit;
use crate::flow::Error;

/// List the workloads, describe one, or run one on the running kernel.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: list::ListArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Args),
    Run(run::Args),
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        None => list::run(&args.list),
        Some(Command::Show(args)) => show::run(args),
        Some(Command::Run(args)) => run::run(args),
    }
}
