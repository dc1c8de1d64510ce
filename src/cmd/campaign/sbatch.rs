use std::path::PathBuf;

use crate::cmd::choice::number;
use crate::cmd::exit::Exit;
use crate::cmd::note::note;
use crate::flow::{self, Error};
use crate::rundir::CampaignDir;
use crate::text::shell_path;

/// Write the scripts with which Slurm runs the shards.
///
/// Kernels are built by a first array of jobs, on which the counts depend. Each counted shard takes
/// one CPU. Each timed experiment takes a node to itself. Where a node failed or was taken away,
/// Slurm starts the job again, and it goes on where it was.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct Args {
    /// Run the campaign of this directory, which all nodes see by the same path
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Run at most N jobs of an array at a time
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = number(1_usize..))]
    at_once: Option<usize>,
    /// Give these options to sbatch
    #[arg(value_name = "OPTION", last = true)]
    options: Vec<String>,
}

const AFTER: &str = "\
Examples:
  ktax campaign sbatch C && sh C/slurm/submit
  ktax campaign sbatch C --at-once 50 -- --partition=batch --time=30

Each node needs ktax at the same path, and the same package of QEMU. If the nodes share the home
directory, set KTAX_CACHE to a directory of the node.";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let dir = CampaignDir::open(&args.dir)?;
    let submit = flow::campaign::write_slurm(&dir, args.at_once, &args.options)?;
    note!("ktax: wrote the scripts; submit them with `sh {}`", shell_path(&submit));
    Ok(Exit::Ok)
}
