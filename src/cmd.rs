//! Command line: each subcommand has a file that parses arguments, calls [`crate::flow`], and
//! prints.

mod campaign;
mod compare;
mod exits;
mod experiment;
mod kvm_host;
mod machine;
mod manual;
mod options;
mod output;
mod results;
mod store;
mod terminal;
mod workloads;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::flow::{self, Error};
use crate::model::{Blame, Comparison, Effect, Metric, Row, Verdict, metric};
use output::note;

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
  KTAX_CACHE_SIZE  limit the size of the cache [default: 20G]
  KTAX_STATE  keep the journal of changed settings, and how long boots and runs take, here
              [default: /var/lib/ktax; for ordinary users ~/.local/state/ktax]
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
    // No doc comments on variants with arguments: clap would show them instead of those of `Args`.
    Compare(compare::CompareArgs),
    Plan(compare::PlanArgs),
    Run(compare::RunArgs),
    Analyse(compare::AnalyseArgs),
    Report(results::ReportArgs),
    Ledger(compare::LedgerArgs),
    Bisect(compare::BisectArgs),
    Campaign(campaign::Args),
    Exits(exits::Args),
    Workloads(workloads::Args),
    Experiments(workloads::ExperimentsArgs),
    Stat(machine::StatArgs),
    Calibrate(machine::CalibrateArgs),
    Validate(machine::ValidateArgs),
    Log(results::LogArgs),
    Show(results::ShowArgs),
    Diff(results::DiffArgs),
    History(results::HistoryArgs),
    Tag(results::TagArgs),
    Site(results::SiteArgs),
    Import(store::ImportArgs),
    Store(store::Args),
    Cache(store::CacheArgs),
    /// Stop, and then become a command
    #[command(hide = true)]
    StatHold(machine::HoldArgs),
    #[command(hide = true)]
    Vmm(kvm_host::VmmArgs),
    #[command(hide = true)]
    KvmHost(kvm_host::KvmHostArgs),
    /// Run as the first process of a KVM host
    #[command(hide = true)]
    KvmHostInit,
    Doctor(machine::DoctorArgs),
    Completions(manual::CompletionArgs),
    Man(manual::ManArgs),
}

impl Cli {
    /// Parses the command line. An error is the exit status after help or a message was printed.
    pub fn parse_command_line() -> Result<Cli, ExitCode> {
        // Only help shows examples and exit statuses. Adding them takes as long as parsing.
        let parsed = Cli::command().try_get_matches().or_else(|_| command_line().try_get_matches());
        parsed.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
            // If this fails, there is no place to report it.
            let _ = error.print();
            let is_bisect = || std::env::args_os().any(|word| word == "--bisect");
            match error.exit_code() {
                0 => ExitCode::SUCCESS,
                _ if is_bisect() => Exit::Usage.for_bisect(),
                _ => Exit::Usage.into(),
            }
        })
    }

    /// Exit status of a command that ended.
    pub fn status(&self, exit: Exit) -> ExitCode {
        if self.is_for_bisect() { exit.for_bisect() } else { exit.into() }
    }

    /// Exit status of a command that failed.
    pub fn error_status(&self, error: &Error) -> ExitCode {
        let exit = Exit::from_error(error);
        if self.is_for_bisect() { exit.for_bisect_abort() } else { exit.into() }
    }

    fn is_for_bisect(&self) -> bool {
        matches!(&self.command, Command::Compare(args) if args.bisect)
    }
}

/// Complete command line: arguments, with the examples and exit statuses of help and manual pages.
pub fn command_line() -> clap::Command {
    manual::add_manuals(Cli::command(), &[])
}

pub fn complain(error: &Error) {
    note!("ktax: {error}");
}

pub fn run(cli: &Cli) -> Result<Exit, Error> {
    match run_command(cli) {
        Err(error) if error.is_cancelled() => {
            note!("ktax: stopped; finished work is kept: type the same command to continue");
            Ok(Exit::Cancelled)
        }
        result => result,
    }
}

fn run_command(cli: &Cli) -> Result<Exit, Error> {
    match &cli.command {
        Command::Compare(args) => compare::compare(args),
        Command::Plan(args) => compare::plan(args),
        Command::Run(args) => compare::run(args),
        Command::Analyse(args) => compare::analyse(args),
        Command::Report(args) => results::report(args),
        Command::Ledger(args) => compare::rank(args),
        Command::Campaign(args) => campaign::run(args),
        Command::Bisect(args) => compare::bisect(args),
        Command::Exits(args) => exits::run(args),
        Command::Workloads(args) => workloads::run(args),
        Command::Experiments(args) => workloads::experiments(args),
        Command::Stat(args) => machine::stat(args),
        Command::Calibrate(args) => machine::calibrate(args),
        Command::Validate(args) => machine::validate(args),
        Command::Log(args) => results::log(args),
        Command::Show(args) => results::show(args),
        Command::Diff(args) => results::diff(args),
        Command::History(args) => results::history(args),
        Command::Tag(args) => results::tag(args),
        Command::Site(args) => results::site(args),
        Command::Import(args) => store::import(args),
        Command::Store(args) => store::run(args),
        Command::Cache(args) => store::cache(args),
        Command::StatHold(args) => machine::hold(args),
        Command::Vmm(args) => kvm_host::run_vmm(args),
        Command::KvmHost(args) => kvm_host::run_in_host(args),
        Command::KvmHostInit => {
            flow::kvm_host::init()?;
            Ok(Exit::Ok)
        }
        Command::Doctor(args) => machine::doctor(args),
        Command::Completions(args) => manual::completions(args, command_line()),
        Command::Man(args) => manual::man(args, command_line()),
    }
}

/// Exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// No slowdown detected.
    Ok = 0,
    /// ktax or its host failed.
    Internal = 1,
    /// The command line, the experiment or the plan is wrong.
    Usage = 2,
    /// A slowdown above the threshold.
    Slower = 3,
    /// Too few boots, or different work.
    Inconclusive = 4,
    /// A boot or a run failed.
    NotRun = 69,
    /// The machine failed, or is in use: another try may succeed.
    TryAgain = 75,
    /// Stopped by the user.
    Cancelled = 130,
}

impl Exit {
    /// Exit status of several Comparisons: slower, else failed, else inconclusive. Only headline
    /// rows count.
    pub fn from_comparisons(comparisons: &[Comparison]) -> Exit {
        match headline_rows(comparisons).any(is_slower) {
            true => Exit::Slower,
            false => Exit::from_failures(comparisons),
        }
    }

    /// Exit status of several Comparisons for which a slowdown is no failure.
    pub fn from_failures<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Exit {
        let exits: Vec<Exit> = headline_rows(comparisons).map(exit_without_slowdown).collect();
        let mut by_severity = [Exit::Internal, Exit::NotRun, Exit::Inconclusive].into_iter();
        by_severity.find(|exit| exits.contains(exit)).unwrap_or(Exit::Ok)
    }

    pub fn from_error(error: &Error) -> Exit {
        match error.blame {
            _ if error.is_cancelled() => Exit::Cancelled,
            Blame::User => Exit::Usage,
            Blame::Guest => Exit::NotRun,
            Blame::Host => Exit::Internal,
        }
    }

    /// Exit status for `git bisect run`: commits that cannot be judged are skipped, and errors that
    /// no commit causes end the search.
    pub fn for_bisect(self) -> ExitCode {
        const SKIP: u8 = 125;
        match self {
            Exit::Ok | Exit::Slower => self.into(),
            Exit::NotRun | Exit::Inconclusive => ExitCode::from(SKIP),
            Exit::Internal | Exit::Usage | Exit::TryAgain | Exit::Cancelled => {
                self.for_bisect_abort()
            }
        }
    }

    /// Exit status that ends `git bisect run`, for errors that every commit would cause, such as a
    /// missing QEMU.
    pub fn for_bisect_abort(self) -> ExitCode {
        const ABORT: u8 = 128;
        match self {
            Exit::Cancelled => self.into(),
            other => ExitCode::from(ABORT + other as u8),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Exit status of a row for which a slowdown is no failure.
fn exit_without_slowdown(row: &Row) -> Exit {
    match row.verdict {
        Verdict::Slower | Verdict::Faster | Verdict::BelowThreshold => Exit::Ok,
        Verdict::NoDetectedChange | Verdict::OneSide => Exit::Ok,
        Verdict::TooFewBoots | Verdict::DifferentWork | Verdict::Inconclusive => Exit::Inconclusive,
        // A failure of the host is no result of the guest.
        Verdict::Failed if has_host_failure(row) => Exit::Internal,
        Verdict::Failed => Exit::NotRun,
    }
}

fn has_host_failure(row: &Row) -> bool {
    row.failures.iter().any(|failed| failed.failure.blame() == Blame::Host)
}

fn headline_rows<'a>(
    comparisons: impl IntoIterator<Item = &'a Comparison>,
) -> impl Iterator<Item = &'a Row> {
    comparisons.into_iter().flat_map(|comparison| &comparison.rows).filter(|row| row.headline)
}

/// Returns true if a row, or any metric that decides, is slower. Fewer instructions do not make up
/// for more REP iterations, because neither is the unit of the other.
fn is_slower(row: &Row) -> bool {
    let is_slower = |effect: &Effect| {
        effect.verdict == Verdict::Slower && metric(&effect.metric).is_some_and(Metric::is_deciding)
    };
    row.verdict == Verdict::Slower || row.effects().iter().any(is_slower)
}
