use std::path::PathBuf;

use super::analyse::analyse_and_keep;
use super::args::{ExperimentArgs, HostArgs, first_free};
use super::drive;
use super::exit::{Exit, UsageError};
use super::guests;
use super::output::OutputArgs;
use super::run::cancelled;
use super::timed::{self, TimedArgs};
use crate::run::Ended;
use crate::rundir::RunDir;

/// Plan, run, analyse and report in one go.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Run directory to make [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Exit for `git bisect run`: 0 not slower, 3 slower, 125 cannot be judged, 128 and more stops
    #[arg(long, help_heading = "Output")]
    pub(super) bisect: bool,
    #[command(flatten)]
    timed: TimedArgs,
    /// Show what is known so far; looking does not change when it stops
    #[arg(long, help_heading = "Timed engines")]
    peek: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

/// The four phases; each arrow between them is a file.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(guests) = args.experiment.guests()? {
        args.timed.refuse()?;
        refuse_peek(args.peek)?;
        return guests::run(&guests, args.out.as_deref(), args.output.is_json(), &args.host);
    }
    if let Some(experiment) = args.timed.experiment(&args.experiment)? {
        let out = args.out.as_deref();
        return timed::compare(&experiment, out, args.peek, &args.output, &args.host);
    }
    refuse_peek(args.peek)?;
    let plan = match drive::plan(&args.experiment.experiment()?, &args.host) {
        // A commit that does not have the option cannot be judged.
        Err(error) if args.bisect => {
            note!("ktax: {}", drive::why_unbuilt(error)?);
            return Ok(Exit::NotRun);
        }
        planned => planned?,
    };
    let dir = RunDir::create(&args.out.clone().unwrap_or_else(first_free), plan)?;
    let _lock = dir.lock()?;
    if drive::run(&dir, &args.host)? == Ended::Cancelled {
        return Ok(cancelled(&dir));
    }
    let comparison = analyse_and_keep(&dir)?;
    args.output.print(&comparison)?;
    note!("ktax: everything is in {}", dir.root().display());
    Ok(Exit::of_comparisons(&[comparison]))
}

/// Only pairs of times come one after the other, each with an estimate.
fn refuse_peek(peek: bool) -> Result<(), UsageError> {
    match peek {
        true => Err(UsageError::Text("--peek is for times; leave it out".into())),
        false => Ok(()),
    }
}
