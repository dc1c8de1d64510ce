//! One file per subcommand; the only place where the phases are joined.

/// Tells the user something; one who does not listen (`2>&1 | head`) is no error. What comes from
/// files does nothing to a terminal.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write;
        let text = std::fmt::format(format_args!($($text)*));
        let _ = writeln!(std::io::stderr(), "{}", crate::text::escape_lines(&text));
    }};
}

mod analyse;
mod args;
mod bisect;
mod choice;
mod compare;
mod doctor;
mod drive;
mod exit;
mod exits;
mod generate;
mod guests;
mod kvm_host;
mod ledger;
mod output;
mod plan;
mod progress;
mod report;
mod run;
mod stat;
mod timed;
mod vmm;
mod workloads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use exit::Exit;

/// Say what a Linux kernel change costs, to the instruction.
///
/// ktax boots two kernels, or one kernel with two boot lines, under QEMU, runs the workloads that
/// kernel people argue with, and prints what changed, by how much, how sure it is, and in which
/// kernel functions the difference sits. It needs no root, no KVM and no performance counters.
#[derive(Debug, Parser)]
#[command(name = "ktax", version, max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  ktax compare experiments/lsm.toml
  ktax compare --kernel debian:cloud-amd64 --change-boot-line mitigations=off
  ktax compare --base ./bzImage.before --change ./bzImage.after -w fork-exit -w pipe
  ktax compare --engine host --change-set thp=never -w page-fault
  ktax stat --vs 'gzip -1 -k -f file' -- gzip -9 -k -f file

Exit status:
  0  no slowdown detected        4  inconclusive: too few boots, or different work
  1  ktax or its host failed     69 a guest could not be run
  2  usage or plan error         130 stopped by Ctrl-C; `ktax run DIR` resumes
  3  slowdown above the threshold";

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
    Exits(exits::Args),
    Workloads(workloads::Args),
    Stat(stat::Args),
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
    /// Print the manual page
    Man,
}

impl Cli {
    /// The exit status.
    pub fn status(&self, exit: Exit) -> ExitCode {
        match &self.command {
            Command::Compare(args) if args.bisect => exit.for_bisect(),
            _ => exit.into(),
        }
    }
}

/// Runs one command.
pub fn run(cli: &Cli) -> anyhow::Result<Exit> {
    match command(cli) {
        // What ends because the user stops it has not failed.
        // (Ctrl-C is how a recording ends; what fails after it has failed.)
        Err(_) if drive::is_cancelled() && !matches!(cli.command, Command::Exits(_)) => {
            note!("ktax: stopped; the same command goes on with what is done");
            Ok(Exit::Cancelled)
        }
        ended => ended,
    }
}

fn command(cli: &Cli) -> anyhow::Result<Exit> {
    match &cli.command {
        Command::Compare(args) => compare::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Run(args) => run::run(args),
        Command::Analyse(args) => analyse::run(args),
        Command::Report(args) => report::run(args),
        Command::Ledger(args) => ledger::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Exits(args) => exits::run(args),
        Command::Workloads(args) => workloads::run(args),
        Command::Stat(args) => stat::run(args),
        Command::StatHold(args) => stat::hold(args),
        Command::Vmm(args) => vmm::run(args),
        Command::KvmHost(args) => kvm_host::run(args),
        Command::KvmHostInit => {
            crate::kvmhost::init::main()?;
            Ok(Exit::Ok)
        }
        Command::Doctor(args) => doctor::run(args),
        Command::Completions(args) => generate::completions(args),
        Command::Man => generate::man(),
    }
}
