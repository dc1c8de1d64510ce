use std::path::PathBuf;

use super::exit::{Exit, UsageError};
use super::output::OutputArgs;
use crate::rundir::RunDir;

/// Print a finished comparison.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run directory that has been analysed
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let dir = RunDir::open(&args.dir)?;
    let comparison = dir.comparison()?.ok_or_else(|| {
        let path = args.dir.display();
        UsageError::Text(format!(
            "{path} has no comparison yet; make it with `ktax analyse {path}`"
        ))
    })?;
    args.output.print(&comparison)
}
