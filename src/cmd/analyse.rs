use std::path::PathBuf;

use super::Exit;
use super::output::OutputArgs;
use crate::flow::{self, Error, Options};
use crate::rundir::AnyRunDir;

/// Compare base and change, from the boots that a run has made.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Analyse the run in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Judge with a warning if base and change differ in more than was declared (timed runs)
    #[arg(long)]
    allow_differences: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let dir = AnyRunDir::open(&args.dir)?;
    let _lock = dir.lock()?;
    let allow_differences = args.allow_differences;
    let comparison = flow::analyse(&dir, Options { allow_differences, ..Options::default() })?;
    args.output.print(&comparison)?;
    Ok(Exit::from_comparisons(&[comparison]))
}
