//! One file or folder for each subcommand. It parses arguments, asks [`crate::flow`], and prints.

mod analyse;
mod bisect;
mod cache;
mod calibrate;
mod campaign;
mod choice;
mod compare;
mod diff;
mod doctor;
mod exit;
mod exits;
mod experiment;
mod experiments;
mod generate;
mod history;
mod host;
mod import;
mod kvm_host;
mod ledger;
mod locale;
mod log;
mod manual;
mod note;
mod output;
mod plan;
mod progress;
mod report;
mod run;
mod show;
mod site;
mod stat;
mod store;
mod stored;
mod tag;
mod terminal;
mod validate;
mod vmm;
mod workloads;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use exit::Exit;

use crate::cmd::note::note;
use crate::flow::{self, Error};

/// Measure what a Linux kernel change costs, to the instruction.
///
/// ktax boots two kernels, or one kernel with two boot lines, under QEMU. It runs the workloads
/// that kernel developers cite, and prints what changed, by how much, how sure the result is, and
/// which kernel functions carry the difference. It needs no root, no KVM and no performance
/// counters.
#[derive(Debug, Parser)]
#[command(name = "ktax", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  ktax compare lsm
  ktax compare --kernel debian:cloud-amd64 --change-boot-line mitigations=off
  ktax compare --base ./bzImage.before --change ./bzImage.after -w fork-exit -w pipe
  sudo ktax compare --engine host --change-set thp=never -w page-fault
  ktax stat --vs 'gzip -1 -k -f file' gzip -9 -k -f file

Environment:
  KTAX_CACHE  keep kernels, snapshots and symbols here [default: $XDG_CACHE_HOME/ktax]
  KTAX_CACHE_SIZE  keep at most so much there [default: 20G]
  KTAX_STATE  keep the journal of changed settings, and how long boots and runs take, here
              [default: /var/lib/ktax; of ordinary users ~/.local/state/ktax]
  KTAX_STORE  keep measurements here [default: $XDG_DATA_HOME/ktax/store]; empty: keep none
  KTAX_QEMU   run this QEMU [default: qemu-system-x86_64]
  LC_ALL, LC_CTYPE, LANG  a locale without UTF-8, such as C, prints ASCII alone

Exit status:
  0  no slowdown detected         4   inconclusive: too few boots, or different work
  1  ktax or its host failed      69  a boot or a run failed
  2  usage or plan error          75  a shard of a campaign: run it again
  3  slowdown above the threshold 130 stopped by Ctrl-C; `ktax run DIR` resumes";

#[derive(Debug, Subcommand)]
enum Command {
    // What has arguments has its words there: words here would hide them.
    Compare(compare::Args),
    Plan(plan::Args),
    Run(run::Args),
    Analyse(analyse::Args),
    Report(report::Args),
    Ledger(ledger::Args),
    Bisect(bisect::Args),
    Campaign(campaign::Args),
    Exits(exits::Args),
    Workloads(workloads::Args),
    Experiments(experiments::Args),
    Stat(stat::Args),
    Calibrate(calibrate::Args),
    Validate(validate::Args),
    Log(log::Args),
    Show(show::Args),
    Diff(diff::Args),
    History(history::Args),
    Tag(tag::Args),
    Site(site::Args),
    Import(import::Args),
    Store(store::Args),
    Cache(cache::Args),
    /// Stop, and become a command
    #[command(hide = true)]
    StatHold(stat::HoldArgs),
    #[command(hide = true)]
    Vmm(vmm::Args),
    #[command(hide = true)]
    KvmHost(kvm_host::Args),
    /// Be the first process of that host
    #[command(hide = true)]
    KvmHostInit,
    Doctor(doctor::Args),
    Completions(generate::CompletionArgs),
    Man(generate::ManArgs),
}

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    /// What to exit with: help was printed, or what is wrong.
    pub fn of_command_line() -> Result<Cli, ExitCode> {
        let parsed = command_line().try_get_matches();
        parsed.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
            // Nobody is left to be told where this fails.
            let _ = error.print();
            let is_bisect = || std::env::args_os().any(|word| word == "--bisect");
            match error.exit_code() {
                0 => ExitCode::SUCCESS,
                _ if is_bisect() => Exit::Usage.for_bisect(),
                _ => Exit::Usage.into(),
            }
        })
    }

    /// The exit status.
    pub fn status(&self, exit: Exit) -> ExitCode {
        if self.is_for_bisect() { exit.for_bisect() } else { exit.into() }
    }

    /// The exit status where the command failed.
    pub fn status_of_error(&self, error: &Error) -> ExitCode {
        let exit = Exit::of_error(error);
        if self.is_for_bisect() { exit.of_no_commit() } else { exit.into() }
    }

    fn is_for_bisect(&self) -> bool {
        matches!(&self.command, Command::Compare(args) if args.bisect)
    }
}

/// The whole command line: arguments, and what help and manual pages have behind them.
pub fn command_line() -> clap::Command {
    manual::completed(Cli::command(), &[])
}

/// Says on stderr why a command failed.
pub fn complain(error: &Error) {
    note!("ktax: {error}");
}

/// Runs one command.
pub fn run(cli: &Cli) -> Result<Exit, Error> {
    match command(cli) {
        Err(Error::Cancelled) => {
            note!("ktax: stopped; finished work is kept: type the same command to continue");
            Ok(Exit::Cancelled)
        }
        ended => ended,
    }
}

fn command(cli: &Cli) -> Result<Exit, Error> {
    match &cli.command {
        Command::Compare(args) => compare::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
        Command::Analyse(args) => analyse::run(args),
        Command::Report(args) => report::run(args),
        Command::Ledger(args) => ledger::run(args),
        Command::Campaign(args) => campaign::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Exits(args) => exits::run(args),
        Command::Workloads(args) => workloads::run(args),
        Command::Experiments(args) => experiments::run(args),
        Command::Stat(args) => stat::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Validate(args) => validate::run(args),
        Command::Log(args) => log::run(args),
        Command::Show(args) => show::run(args),
        Command::Diff(args) => diff::run(args),
        Command::History(args) => history::run(args),
        Command::Tag(args) => tag::run(args),
        Command::Site(args) => site::run(args),
        Command::Import(args) => import::run(args),
        Command::Store(args) => store::run(args),
        Command::Cache(args) => cache::run(args),
        Command::StatHold(args) => stat::hold(args),
        Command::Vmm(args) => vmm::run(args),
        Command::KvmHost(args) => kvm_host::run(args),
        Command::KvmHostInit => {
            flow::kvm_host::init()?;
            Ok(Exit::Ok)
        }
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => generate::completions(args, command_line()),
        Command::Man(args) => generate::man(args, command_line()),
    }
}
