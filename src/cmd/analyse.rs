use std::path::PathBuf;

use super::exit::{Exit, UsageError};
use super::output::OutputArgs;
use super::timed;
use crate::analyse;
use crate::model::Comparison;
use crate::report::{self, Format, TextOptions};
use crate::rundir::{RunDir, TimedDir};

/// Work out what changed from what was run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Of times: judge them, with a warning, where base and change differ in more than was declared
    #[arg(long)]
    allow_differences: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if TimedDir::is_one(&args.dir) {
        let dir = TimedDir::open(&args.dir)?;
        return timed::analyse(&dir, args.allow_differences, &args.output);
    }
    let dir = RunDir::open(&args.dir)?;
    if args.allow_differences {
        let text = "--allow-differences is for times, and this run counted; leave it out";
        return Err(UsageError::Text(text.into()).into());
    }
    let _lock = dir.lock()?;
    let comparison = analyse_and_keep(&dir)?;
    args.output.print(&comparison)?;
    Ok(Exit::of_comparisons(&[comparison]))
}

/// Analyses a run directory and puts the Comparison into it, in every format.
pub fn analyse_and_keep(dir: &RunDir) -> anyhow::Result<Comparison> {
    let comparison = analyse::analyse(dir)?;
    dir.write_comparison(&comparison)?;
    for (name, format) in kept() {
        dir.write_report(name, &report::render(&comparison, &format)?)?;
    }
    Ok(comparison)
}

/// The reports that are kept beside a Comparison.
pub fn kept() -> [(&'static str, Format); 3] {
    let text = Format::Text(TextOptions { width: 100, colour: false });
    [("report.txt", text), ("report.csv", Format::Csv), ("report.md", Format::Markdown)]
}
