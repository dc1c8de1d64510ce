use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::exit::{Exit, UsageError};
use super::output::{OutputArgs, write_stdout};
use super::timed;
use crate::model::{Comparison, TimedComparison};
use crate::report::{self, Format, Shape};
use crate::rundir::{RunDir, TimedDir};

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
    let missing = |path: &Path| {
        let path = path.display();
        let text = format!("{path} has no comparison yet; make it with `ktax analyse {path}`");
        UsageError::Text(text)
    };
    let mut exits = Vec::new();
    for path in &args.dirs {
        exits.push(if TimedDir::is_one(path) {
            let comparison = TimedDir::open(path)?.comparison()?.ok_or_else(|| missing(path))?;
            print_timed(args, &comparison)?
        } else {
            let comparison = RunDir::open(path)?.comparison()?.ok_or_else(|| missing(path))?;
            print(args, &comparison)?;
            Exit::of_comparisons(&[comparison])
        });
    }
    Ok(Exit::of_all(exits))
}

fn print_timed(args: &Args, comparison: &TimedComparison) -> anyhow::Result<Exit> {
    if args.layout.is_some() {
        let text = "published tables are of counts; leave --layout out for a comparison of times";
        return Err(UsageError::Text(text.into()).into());
    }
    timed::print(comparison, &args.output)?;
    Ok(timed::exit(comparison))
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
