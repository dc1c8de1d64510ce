use std::path::PathBuf;

use super::exit::Exit;
use super::output::OutputArgs;
use crate::analyse;
use crate::model::Comparison;
use crate::report::{self, Format, TextOptions};
use crate::rundir::RunDir;

/// Work out what changed from what was run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let dir = RunDir::open(&args.dir)?;
    let _lock = dir.lock()?;
    let comparison = analyse_and_keep(&dir)?;
    args.output.print(&comparison)?;
    Ok(Exit::of_comparisons(&[comparison]))
}

/// Analyses a run directory and puts the Comparison into it, in every format.
pub fn analyse_and_keep(dir: &RunDir) -> anyhow::Result<Comparison> {
    let comparison = analyse::analyse(dir)?;
    dir.write_comparison(&comparison)?;
    let text = Format::Text(TextOptions { width: 100, colour: false });
    for (name, format) in
        [("report.txt", text), ("report.csv", Format::Csv), ("report.md", Format::Markdown)]
    {
        dir.write_report(name, &report::render(&comparison, &format)?)?;
    }
    Ok(comparison)
}
