//! `ktax campaign`: many subjects, on as many machines as there are.

mod collect;
mod plan;
mod run;
mod sbatch;
mod status;

use clap::Subcommand;

use super::exit::Exit;
use crate::flow::Error;

/// Measure many kernels on many machines, with any scheduler.
///
/// A campaign is a directory that the machines share, or have copies of. It has shards: what one
/// machine does in about ten minutes. Which machine does which does not matter: counts are exact.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Examples:
  ktax campaign plan kernels.toml --out C
  ktax campaign run C                           # all shards, here, one after the other
  seq 0 39 | xargs -P 8 -I{} ktax campaign run C --shard {} --jobs 1
  ktax campaign sbatch C && sh C/slurm/submit   # or on a cluster
  ktax campaign collect C";

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan::Args),
    Run(run::Args),
    Status(status::Args),
    Collect(collect::Args),
    Sbatch(sbatch::Args),
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.command {
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
        Command::Status(args) => status::run(args),
        Command::Collect(args) => collect::run(args),
        Command::Sbatch(args) => sbatch::run(args),
    }
}
