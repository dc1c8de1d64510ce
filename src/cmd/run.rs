use std::path::PathBuf;

use clap::ValueEnum;

use super::args::HostArgs;
use super::drive;
use super::exit::{Exit, UsageError};
use super::timed::{self, Run};
use crate::model::Side;
use crate::run::Ended;
use crate::rundir::{RunDir, TimedDir};

/// Make the boots of a plan, or those that are still missing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Of times: show what is known so far; looking does not change when it stops
    #[arg(long)]
    peek: bool,
    /// Of kernels that you boot: which side this machine is now
    #[arg(long, value_enum, value_name = "SIDE")]
    side: Option<SideArg>,
    /// Of times: go on, with a warning, where base and change differ in more than was declared
    #[arg(long)]
    allow_differences: bool,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SideArg {
    Base,
    Change,
}

impl From<SideArg> for Side {
    fn from(side: SideArg) -> Side {
        match side {
            SideArg::Base => Side::Base,
            SideArg::Change => Side::Change,
        }
    }
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    if TimedDir::is_one(&args.dir) {
        let dir = TimedDir::open(&args.dir)?;
        let how = Run { peek: args.peek, allow_differences: args.allow_differences };
        return timed::go_on(&dir, args.side.map(Side::from), how, &args.host);
    }
    let dir = RunDir::open(&args.dir)?;
    if args.peek || args.side.is_some() || args.allow_differences {
        let text = "--peek, --side and --allow-differences are for times, and this plan counts; \
                    leave them out";
        return Err(UsageError::Text(text.into()).into());
    }
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
