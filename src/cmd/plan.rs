use std::path::PathBuf;

use super::args::{ExperimentArgs, HostArgs};
use super::exit::Exit;
use super::timed::{self, TimedArgs};
use super::{drive, output};
use crate::report;
use crate::rundir::RunDir;

/// Write the list of boots to make, and make none.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Run directory to make; without it the plan is printed
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    timed: TimedArgs,
    #[command(flatten)]
    host: HostArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if let Some(experiment) = args.timed.experiment(&args.experiment)? {
        return timed::plan(&experiment, args.out.as_deref(), &args.host);
    }
    let plan = drive::plan(&args.experiment.experiment()?, &args.host)?;
    match &args.out {
        Some(out) => {
            let (boots, rows) = (plan.steps.len(), plan.workloads.len());
            RunDir::create(out, plan)?;
            note!(
                "ktax: planned {boots} boots of {rows} rows; `ktax run {}` makes them",
                out.display()
            );
        }
        None => output::write_stdout(&report::json(&plan)?)?,
    }
    Ok(Exit::Ok)
}
