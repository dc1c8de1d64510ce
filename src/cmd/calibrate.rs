//! `ktax calibrate` measures the constants with which ktax estimates cycles. `ktax validate`
//! compares the estimates with times.

use std::path::PathBuf;

use super::Exit;
use super::choice::model;
use super::host::{HostArgs, first_free};
use super::output::{OutputArgs, note};
use super::terminal::{Terminal, with_bar_of_runs};
use crate::flow::{self, CalibrateOrder, Error, Session};
use crate::model::{Costly, Validation};
use crate::plan::ExperimentFile;

/// Measure what this machine takes for what ktax counts, so that ktax can estimate cycles.
///
/// ktax times costly instructions, which takes seconds; those that only a kernel may execute need
/// /dev/kvm. From rows that this machine ran it also learns what instructions, misses and
/// page walks take. Each number has the interval in which 9 of 10 values lie.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// Fit the rows of this comparison of the running kernel with itself; counted with --model,
    /// misses are fitted, too
    #[arg(long, value_name = "DIR", requires = "times")]
    counts: Option<PathBuf>,
    /// Fit them to these times: what `ktax workloads run --json` printed; repeat for more
    #[arg(long, value_name = "FILE", requires = "counts")]
    times: Vec<PathBuf>,
    /// Accept counts of another kernel than the one that this machine runs, for wider estimates
    #[arg(long, requires = "counts")]
    other_kernel: bool,
    /// Write this machine's caches and branches into the file [default: those of a like machine;
    /// those that were modelled take precedence]
    #[arg(long, value_name = "MODEL|FILE", value_parser = model())]
    #[arg(hide_possible_values = true)]
    model: Option<String>,
    /// Write this file
    #[arg(short, long, value_name = "FILE.toml", default_value = "machine.toml")]
    out: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  ktax calibrate
  ktax compare --kernel /boot/vmlinuz-$(uname -r) --same --model skylake --out counted
  ktax workloads run @lmbench @memory @processes --json > timed.json
  ktax calibrate --counts counted --times timed.json --out here.toml
  ktax compare lsm --model here.toml";

pub fn calibrate(args: &CalibrateArgs) -> Result<Exit, Error> {
    let order = CalibrateOrder {
        model: args.model.clone(),
        rows: args.counts.clone().map(|counts| (counts, args.times.clone())),
        may_be_other_kernel: args.other_kernel,
        out: args.out.clone(),
    };
    let kinds = Costly::ALL.len();
    let table = with_bar_of_runs(kinds, true, |cancel, show| flow::calibrate(&order, cancel, show));
    let Some(table) = table? else {
        note!("ktax: stopped; nothing was written");
        return Ok(Exit::Cancelled);
    };
    args.output.print(&table)?;
    Ok(Exit::Ok)
}

/// Compare the cycles that were estimated of an experiment with times of the same experiment.
///
/// An experiment is counted with the model of the machine, and timed with KVM on this one. Of two
/// results that are there, the first is counted and the second is timed. The rows that were
/// estimated wrong come first.
#[derive(Debug, clap::Args)]
#[command(after_help = VALIDATE_EXAMPLES)]
pub struct ValidateArgs {
    /// Measure this experiment; or read this directory, or file of --json, of counts
    #[arg(value_name = "EXPERIMENT|COUNTED")]
    what: PathBuf,
    /// Read this directory, or file of --json, of times
    #[arg(value_name = "TIMED")]
    timed: Option<PathBuf>,
    /// Estimate for this machine: a file that `ktax calibrate` wrote
    #[arg(long, alias = "machine", value_name = "FILE")]
    model: Option<PathBuf>,
    /// Keep the run directories in this directory [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", conflicts_with = "timed", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

const VALIDATE_EXAMPLES: &str = "\
Examples:
  ktax validate lsm --model here.toml
  ktax validate counted timed --model here.toml";

pub fn validate(args: &ValidateArgs) -> Result<Exit, Error> {
    match &args.timed {
        Some(timed) => {
            let machine = args.model.as_deref();
            print(args, &flow::validate_results(&args.what, timed, machine)?)
        }
        None => args.host.measuring(&Terminal::new(), |session| measure(args, session)),
    }
}

fn measure(args: &ValidateArgs, session: &Session<'_>) -> Result<Exit, Error> {
    let machine = args.model.as_ref().ok_or_else(|| {
        Error::user(
            "an experiment is estimated for a machine: add --model FILE, which `ktax calibrate` \
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

fn print(args: &ValidateArgs, validation: &Validation) -> Result<Exit, Error> {
    args.output.print(validation)?;
    Ok(Exit::Ok)
}
