use std::path::PathBuf;

use super::choice::{Choice, one_of};
use super::exit::Exit;
use super::output::{OutputArgs, write_stdout};
use crate::flow::{self, Error};
use crate::model::{Comparison, Saved, SavedResult};
use crate::report::{Report, Shape};

/// Print the saved results of runs, searches and ledgers.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read this directory of a run, a search or a ledger, or this file of --json
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,
    /// Print the columns of a published table (unrelated to --layouts)
    #[arg(short = 'L', long, value_parser = one_of(&SHAPES))]
    #[arg(conflicts_with_all = ["format", "json"], help_heading = "Output")]
    layout: Option<Shape>,
    #[command(flatten)]
    output: OutputArgs,
}

const SHAPES: [Choice<Shape>; 3] = [
    (Shape::Lmbench, "lmbench", "LMBench's tables of the LSM paper of 2002"),
    (Shape::Counters, "counters", "The performance counters of the PARAVIRT mail of 2009"),
    (Shape::Pages, "pages", "The fork test of the shared page tables of 2002"),
];

/// Prints one after the other; the exit status is that of all rows of comparisons together.
pub fn run(args: &Args) -> Result<Exit, Error> {
    let results = flow::saved(&args.paths)?;
    match args.layout {
        Some(shape) => print_in(shape, &results, &args.output)?,
        None => {
            let results: Vec<&dyn Report> = results.iter().map(|it| it as &dyn Report).collect();
            args.output.print_all(&results)?;
        }
    }
    let comparisons = results.into_iter().filter_map(|result| match result.result {
        SavedResult::Comparison(comparison) => Some(*comparison),
        _ => None,
    });
    Ok(Exit::of_comparisons(&comparisons.collect::<Vec<_>>()))
}

fn print_in(shape: Shape, results: &[Saved], output: &OutputArgs) -> Result<(), Error> {
    let all: Option<Vec<&Comparison>> = results.iter().map(counted).collect();
    let all = all.ok_or_else(|| {
        Error::usage("--layout only applies to runs of the exact engine; remove it")
    })?;
    let text = all.into_iter().map(|it| shape.render(it, output.text_options()));
    Ok(write_stdout(&text.collect::<String>())?)
}

fn counted(result: &Saved) -> Option<&Comparison> {
    match &result.result {
        SavedResult::Comparison(comparison) if comparison.counts().is_some() => Some(comparison),
        _ => None,
    }
}
