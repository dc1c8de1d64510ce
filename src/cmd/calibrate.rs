//! `ktax calibrate`: measures the constants with which ktax estimates cycles.

use std::path::PathBuf;

use super::Exit;
use super::choice::model;
use super::host::cancel;
use super::output::{OutputArgs, note};
use super::terminal::{bar_of_runs, show};
use crate::flow::{self, CalibrateOrder, Error};
use crate::model::Costly;

/// Measure what this machine takes for what ktax counts, so that ktax can estimate cycles.
///
/// ktax times costly instructions, which takes seconds; those that only a kernel may execute need
/// /dev/kvm. From rows that this machine ran it also learns what instructions, misses and
/// page walks take. Each number has the interval in which 9 of 10 values lie.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
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
  ktax compare lsm --machine here.toml";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let order = CalibrateOrder {
        model: args.model.clone(),
        rows: args.counts.clone().map(|counts| (counts, args.times.clone())),
        may_be_other_kernel: args.other_kernel,
        out: args.out.clone(),
    };
    let cancel = cancel()?;
    let bar = bar_of_runs(Costly::ALL.len());
    let table = flow::calibrate(&order, &cancel, &|event| show(&bar, event));
    bar.finish_and_clear();
    let Some(table) = table? else {
        note!("ktax: stopped; nothing was written");
        return Ok(Exit::Cancelled);
    };
    args.output.print(&table)?;
    Ok(Exit::Ok)
}
