use std::path::PathBuf;

use super::Exit;
use super::experiment::ExperimentArgs;
use super::host::HostArgs;
use super::output::{self, note};
use super::terminal::Terminal;
use crate::flow::{self, Error};
use crate::report;
use crate::rundir::AnyRunDir;

/// Plan which boots to run, without running any.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Write the plan to this new run directory [default: print the plan]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    host: HostArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let points = flow::sweep_points(&args.experiment.experiment()?)?;
    let [(_, experiment)] = points.as_slice() else {
        return Err(Error::user(
            "a sweep of settings needs several plans; sweep settings with `ktax compare`",
        ));
    };
    let terminal = Terminal::new();
    let session = args.host.session(&terminal)?;
    let plan = flow::plan(experiment, &session)?;
    let estimate = flow::estimate(&plan, &session);
    match &args.out {
        Some(out) => {
            let dir = AnyRunDir::create(out, plan)?;
            note!("ktax: {}", flow::planned(&dir));
        }
        None => output::write_stdout(&report::to_json(&plan)?)?,
    }
    if let Some(estimate) = estimate {
        note!("ktax: {estimate}");
    }
    Ok(Exit::Ok)
}
