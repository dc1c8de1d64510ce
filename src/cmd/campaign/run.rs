use std::path::PathBuf;

use crate::cmd::exit::Exit;
use crate::cmd::host::HostArgs;
use crate::cmd::note::note;
use crate::cmd::terminal::Terminal;
use crate::flow::campaign::ShardEnd;
use crate::flow::{self, Error, Session};
use crate::model::Blame;
use crate::rundir::CampaignDir;
use crate::text::{counted, shell_path};

/// Measure a shard, or all of them, or build a kernel. What is done already is not done again.
///
/// Counts share a machine with other counts. A timed experiment takes the machine for itself, and
/// both of its sides run there.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT)]
pub struct Args {
    /// Work in the campaign of this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Measure this shard, from 0 [default: all, after all builds]
    #[arg(long, value_name = "N", conflicts_with = "build")]
    shard: Vec<usize>,
    /// Build the kernel of this subject, from 0
    #[arg(long, value_name = "N")]
    build: Vec<usize>,
    #[command(flatten)]
    host: HostArgs,
}

const EXIT: &str = "\
Exit status:
  0  done                           69  a boot or a run failed: `ktax campaign status` says which
  2  usage error, or another QEMU   75  the machine failed, or is in use: try again, or on another
                                    130 stopped by Ctrl-C or SIGTERM; run the shard again";

pub fn run(args: &Args) -> Result<Exit, Error> {
    let dir = CampaignDir::open(&args.dir)?;
    args.host.measuring(&Terminal::new(), |session| match all(args, &dir, session) {
        // A scheduler is told that it is worth another try.
        Err(error) if error.blame() == Some(Blame::Host) => {
            note!("ktax: {error}");
            Ok(Exit::TryAgain)
        }
        ended => ended,
    })
}

fn all(args: &Args, dir: &CampaignDir, session: &Session<'_>) -> Result<Exit, Error> {
    let is_whole = args.shard.is_empty() && args.build.is_empty();
    let builds = if is_whole { dir.plan().to_build() } else { args.build.clone() };
    let shards = if is_whole { dir.plan().numbers().collect() } else { args.shard.clone() };
    for subject in builds {
        let kernel = flow::campaign::build(dir, subject, session)?;
        note!("ktax: subject {subject} is {}", kernel.name());
    }
    let mut failed = Vec::new();
    for number in &shards {
        let end: ShardEnd = flow::campaign::run(dir, *number, session)?;
        if end.is_stopped {
            let path = shell_path(dir.root());
            note!("ktax: stopped; go on with `ktax campaign run {path} --shard {number}`");
            return Ok(Exit::Cancelled);
        }
        failed.extend(end.failed);
    }
    if is_whole {
        let path = shell_path(dir.root());
        note!("ktax: bring it together with `ktax campaign collect {path}`");
    }
    match failed.first() {
        None => Ok(Exit::Ok),
        Some(first) => {
            note!("ktax: {} failed, such as {first}", counted(failed.len(), "measurement"));
            Ok(Exit::NotRun)
        }
    }
}
