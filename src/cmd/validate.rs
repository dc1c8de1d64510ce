//! `ktax validate`: compares estimated cycles with measured times.

use std::path::PathBuf;

use super::Exit;
use super::host::{HostArgs, first_free};
use super::output::{OutputArgs, note};
use super::terminal::Terminal;
use crate::flow::{self, Error, Session};
use crate::model::Validation;
use crate::plan::ExperimentFile;

/// Compare the cycles that were estimated of an experiment with times of the same experiment.
///
/// An experiment is counted with the model of the machine, and timed with KVM on this one. Of two
/// results that are there, the first is counted and the second is timed. The rows that were
/// estimated wrong come first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Measure this experiment; or read this directory, or file of --json, of counts
    #[arg(value_name = "EXPERIMENT|COUNTED")]
    what: PathBuf,
    /// Read this directory, or file of --json, of times
    #[arg(value_name = "TIMED")]
    timed: Option<PathBuf>,
    /// Estimate for this machine: a file that `ktax calibrate` wrote
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Keep the run directories in this directory [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", conflicts_with = "timed", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

const EXAMPLES: &str = "\
Examples:
  ktax validate lsm --machine here.toml
  ktax validate counted timed --machine here.toml";

pub fn run(args: &Args) -> Result<Exit, Error> {
    match &args.timed {
        Some(timed) => {
            let machine = args.machine.as_deref();
            print(args, &flow::validate_results(&args.what, timed, machine)?)
        }
        None => args.host.measuring(&Terminal::new(), |session| measure(args, session)),
    }
}

fn measure(args: &Args, session: &Session<'_>) -> Result<Exit, Error> {
    let machine = args.machine.as_ref().ok_or_else(|| {
        Error::user(
            "an experiment is estimated for a machine: add --machine FILE, which `ktax calibrate` \
             writes; or name two results that are there",
        )
    })?;
    let text = flow::experiment_text(&args.what)?;
    let file = ExperimentFile::parse(&text, &args.what.display().to_string())?;
    let out = args.out.clone().unwrap_or_else(first_free);
    match flow::validate(&file, machine, &out, session)? {
        Some(validation) => print(args, &validation),
        None => {
            let out = out.display();
            note!("ktax: stopped; the same command with --out {out} continues");
            Ok(Exit::Cancelled)
        }
    }
}

fn print(args: &Args, validation: &Validation) -> Result<Exit, Error> {
    args.output.print(validation)?;
    Ok(Exit::Ok)
}
