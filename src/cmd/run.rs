use std::path::PathBuf;

use super::args::HostArgs;
use super::drive;
use super::exit::Exit;
use crate::run::Ended;
use crate::rundir::RunDir;

/// Make the boots of a plan, or those that are still missing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    host: HostArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let dir = RunDir::open(&args.dir)?;
    let _lock = dir.lock()?;
    Ok(match drive::run(&dir, &args.host)? {
        Ended::Complete => complete(&dir)?,
        Ended::Cancelled => cancelled(&dir),
    })
}

/// Says what came of it, and what comes next.
fn complete(dir: &RunDir) -> anyhow::Result<Exit> {
    let path = dir.root().display();
    Ok(match dir.failures()? {
        0 => {
            note!("ktax: every run is there; compare them with `ktax analyse {path}`");
            Exit::Ok
        }
        failures => {
            note!("ktax: {failures} boots or runs failed; `ktax analyse {path}` says why");
            Exit::NotRun
        }
    })
}

/// Says how to go on.
pub fn cancelled(dir: &RunDir) -> Exit {
    note!("ktax: stopped; resume with `ktax run {}`", dir.root().display());
    Exit::Cancelled
}
