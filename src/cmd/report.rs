use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::exit::{Exit, UsageError};
use super::output::{OutputArgs, write_stdout};
use crate::model::Comparison;
use crate::report::{self, Format, Shape};
use crate::rundir::RunDir;

/// Print finished comparisons.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run directory that has been analysed
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Print in the shape of a published table
    #[arg(short = 'L', long, value_enum, conflicts_with_all = ["format", "json"])]
    #[arg(help_heading = "Output")]
    layout: Option<Published>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Published {
    /// LMBench's tables of the LSM paper of 2002
    Lmbench,
    /// The performance counters of the PARAVIRT mail of 2009
    Counters,
    /// The fork test of the shared page tables of 2002
    Pages,
}

/// Prints one after the other; the exit status is that of all their rows together.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let comparisons: Vec<Comparison> =
        args.dirs.iter().map(|dir| comparison(dir)).collect::<Result<_, _>>()?;
    comparisons.iter().try_for_each(|comparison| print(args, comparison))?;
    Ok(Exit::of_comparisons(&comparisons))
}

fn comparison(path: &Path) -> anyhow::Result<Comparison> {
    let dir = RunDir::open(path)?;
    let missing = || {
        let path = path.display();
        UsageError::Text(format!(
            "{path} has no comparison yet; make it with `ktax analyse {path}`"
        ))
    };
    Ok(dir.comparison()?.ok_or_else(missing)?)
}

fn print(args: &Args, comparison: &Comparison) -> anyhow::Result<()> {
    let shape = match args.layout {
        None => return args.output.print(comparison),
        Some(Published::Lmbench) => Shape::Lmbench,
        Some(Published::Counters) => Shape::Counters,
        Some(Published::Pages) => Shape::Pages,
    };
    let format = Format::Shape(shape, args.output.text_options());
    Ok(write_stdout(&report::render(comparison, &format)?)?)
}
