//! `ktax bisect`: finds the elements that carry a difference.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::Exit;
use super::experiment::CountedArgs;
use super::host::{HostArgs, first_free};
use super::output::{OutputArgs, note, say_where};
use super::terminal::Terminal;
use crate::flow::bisect::Search;
use crate::flow::{Error, bisect};
use crate::plan::ExperimentMethod;

/// Find the commits, options, patches or parameters that carry a difference.
///
/// The differences between base and change form a chain: commits of a history, options of a
/// configuration, patches, or kernel parameters. ktax measures points of this chain. Each point is
/// measured once, because counts have no noise. ktax finds every element that carries a share of
/// the difference, and prints the share. It only reads your tree, and checks nothing out.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  ktax bisect start --tree linux --base git:v6.12.1 --change git:v6.12.9 -w fork-exit
  ktax bisect start --kernel debian-src:6.12 --config hardened.config -w open-close
  ktax bisect start --kernel src:linux --patch 1.patch --patch 2.patch -w pipe
  ktax bisect start --kernel debian:cloud-amd64 \\
      --change-boot-line 'pti=on audit=1 slab_nomerge' -- ./reproducer

A commit that does not build or boot is skipped.

Exit status:
  0  found, or nothing to find   4  some elements could not be told apart, or different work
  1  ktax or its host failed     69 base or change could not be run
  2  usage error                 130 stopped by Ctrl-C; `ktax bisect run DIR` resumes";

#[derive(Debug, Subcommand)]
enum Command {
    Start(Box<StartArgs>),
    Run(Box<RunArgs>),
}

/// Compare base and change with the exact engine, then search
#[derive(Debug, clap::Args)]
struct StartArgs {
    #[command(flatten)]
    experiment: CountedArgs,
    /// Make this directory for the search [default: the first free of ktax-1, ktax-2, …]
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    out: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

/// Resume a search that was stopped, or print one that is finished
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Resume or print the search in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let terminal = Terminal::new();
    match &args.command {
        Command::Start(args) => {
            let experiment = args.experiment.experiment()?;
            let ExperimentMethod::Counts(counts) = &experiment.method else {
                return Err(Error::user(
                    "bisect needs exact counts, so it only works with the exact engine; remove the \
                     keys engine and host from the experiment file",
                ));
            };
            let experiment = experiment.with(counts.clone());
            let out = args.out.clone().unwrap_or_else(first_free);
            args.host.measuring(&terminal, |session| {
                print(bisect::start(experiment, &out, session)?, &out, &args.output)
            })
        }
        Command::Run(args) => args.host.measuring(&terminal, |session| {
            print(bisect::resume(&args.dir, session)?, &args.dir, &args.output)
        }),
    }
}

fn print(search: Search, out: &Path, output: &OutputArgs) -> Result<Exit, Error> {
    if let Some(result) = search.result() {
        output.print(result)?;
    }
    let bisection = match search {
        Search::Stopped { next } => {
            note!("ktax: stopped; to resume, {next}");
            return Ok(Exit::Cancelled);
        }
        Search::Nothing(nothing) => {
            say_where(out);
            return Ok(Exit::from_failures([nothing.comparison()]));
        }
        Search::Found(bisection) => bisection,
    };
    say_where(out);
    let mut found = bisection.found.iter().flatten();
    let is_certain = found.all(|carrier| carrier.at == carrier.after + 1);
    Ok(if is_certain { Exit::Ok } else { Exit::Inconclusive })
}
