//! `ktax bisect`: which part of what differs carries the difference.

mod run;
mod start;
mod store;

use clap::Subcommand;

use super::exit::Exit;

/// Find the commits, options, patches or parameters that carry a difference.
///
/// What the change differs in from the base is a chain: commits of a history, options of a
/// configuration, patches, or kernel parameters. Each place on it is measured once, because counts
/// have no noise, and what lies between two places is known exactly. So every element that carries
/// a share is found, and its share is said. Nothing is checked out: your tree is only read.
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
      --change-boot-line 'pti=on audit=1 slab_nomerge' -w getppid

A commit that does not build or boot is skipped.

Exit status:
  0  found, or nothing to find   4  some could not be told apart
  1  ktax or its host failed     69 base or change could not be run
  2  usage error                 130 stopped by Ctrl-C; `ktax bisect run DIR` goes on";

#[derive(Debug, Subcommand)]
enum Command {
    Start(Box<start::Args>),
    Run(run::Args),
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        Command::Start(args) => start::run(args),
        Command::Run(args) => run::run(args),
    }
}
