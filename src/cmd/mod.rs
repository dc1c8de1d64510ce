//! One file per subcommand; the only place where the phases are joined.

/// Tells the user something; one who does not listen (`2>&1 | head`) is no error.
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod analyse;
mod args;
mod bisect;
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

Exit status:
  0  no slowdown detected        4  inconclusive: too few boots, or different work
  1  ktax or its host failed     69 a guest could not be run
  2  usage or plan error         130 stopped by Ctrl-C; `ktax run DIR` resumes
  3  slowdown above the threshold";

#[derive(Debug, Subcommand)]
enum Command {
    /// Plan, run, analyse and report in one go
    Compare(compare::Args),
    /// Write the list of boots to make, and make none
    Plan(plan::Args),
    /// Make the boots of a plan, or those that are still missing
    Run(run::Args),
    /// Work out what changed from what was run
    Analyse(analyse::Args),
    /// Print a finished comparison
    Report(report::Args),
    /// Compare several additions with one base, and rank them by what they cost
    Ledger(ledger::Args),
    /// Find the commits, options, patches or parameters that carry a difference
    Bisect(bisect::Args),
    /// Say where a virtual machine's time goes, exit by exit
    Exits(exits::Args),
    /// List the workloads, describe one, or run one on the running kernel
    Workloads(workloads::Args),
    /// Run a small guest on /dev/kvm and count how often it leaves to user space
    #[command(hide = true)]
    Vmm(vmm::Args),
    /// Run a command in a real KVM host, within QEMU
    #[command(hide = true)]
    KvmHost(kvm_host::Args),
    /// Be the first process of that host
    #[command(hide = true)]
    KvmHostInit,
    /// Say what this machine can and cannot do, and the command that mends it
    Doctor(doctor::Args),
    /// Print a completion script for a shell
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
        Err(_) if drive::is_cancelled() => {
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
