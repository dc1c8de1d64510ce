//! `ktax stat`: counts what one or two commands do.

use std::path::PathBuf;

use super::Exit;
use super::choice::number;
use super::experiment::random_seed;
use super::output::{OutputArgs, note};
use super::terminal::with_bar_of_runs;
use crate::flow::{self, Error, StatOrder};
use crate::report::StatPage;

/// Count what a command does on the running kernel, and compare it with another command.
///
/// The kernel counts the command and all processes that it starts: task clock, migrations, context
/// switches, page faults, cycles, instructions, cache and dTLB misses. ktax also measures the
/// elapsed time. If this machine cannot count something, the output says why. The command's stdin
/// and stdout are /dev/null.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Run each command N times [default: 1; with --vs: 10]
    #[arg(short = 'n', long, value_name = "N")]
    #[arg(allow_negative_numbers = true, value_parser = number(1..=10_000_u32))]
    runs: Option<u32>,
    /// Compare with this command, the base; ktax splits it into words as a shell does
    #[arg(long, value_name = "COMMAND")]
    vs: Option<String>,
    /// Use this random seed for which command of a pair runs first [default: drawn and printed]
    #[arg(long, value_name = "N", requires = "vs")]
    #[arg(allow_negative_numbers = true, value_parser = number(0..=u64::MAX))]
    seed: Option<u64>,
    /// Print the values of all runs, for the time and the main counters
    #[arg(long, conflicts_with = "json")]
    values: bool,
    /// Show what the command prints to stdout and stderr
    #[arg(long, conflicts_with_all = ["format", "json"])]
    show_output: bool,
    /// Continue after failed runs, and count them too
    #[arg(long)]
    ignore_failure: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Run this command, with all that follows it; with --vs, it is the change
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  ktax stat ls -R /usr
  ktax stat -n 10 --values taskset 2 ./mmap-perf 1
  ktax stat --vs 'gzip -1 -k -f file' gzip -9 -k -f file";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let order = args.order()?;
    let runs = order.commands.len() * order.runs as usize;
    let table = with_bar_of_runs(runs, false, |cancel, show| flow::stat(&order, cancel, show));
    let Some(table) = table? else {
        note!("ktax: stopped");
        return Ok(Exit::Cancelled);
    };
    args.output.print(&StatPage { table: &table, values: args.values })?;
    Ok(Exit::Ok)
}

impl Args {
    fn order(&self) -> Result<StatOrder, Error> {
        let with_base = self.vs.is_some();
        Ok(StatOrder {
            commands: self.commands()?,
            runs: self.runs.unwrap_or(if with_base { 10 } else { 1 }),
            seed: with_base.then(|| self.seed.unwrap_or_else(random_seed)),
            is_shown: self.show_output,
            ignores_failure: self.ignore_failure,
        })
    }

    /// The command; or the base and the change.
    fn commands(&self) -> Result<Vec<Vec<String>>, Error> {
        let Some(base) = &self.vs else { return Ok(vec![self.command.clone()]) };
        let base = shlex::split(base).filter(|words| !words.is_empty()).ok_or_else(|| {
            Error::user(format!(
                "--vs {base:?} is not a command: it is empty, or a quote in it is not closed; \
                 write it as in a shell"
            ))
        })?;
        Ok(vec![base, self.command.clone()])
    }
}

/// Arguments of the process with which `ktax stat` starts a command.
#[derive(Debug, clap::Args)]
pub struct HoldArgs {
    /// Where to say why it does not start
    report: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

pub fn hold(args: &HoldArgs) -> Result<Exit, Error> {
    flow::become_command(&args.report, &args.command)?;
    Ok(Exit::Internal)
}
