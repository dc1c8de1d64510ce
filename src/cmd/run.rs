use std::path::PathBuf;

use clap::ValueEnum;

use super::Exit;
use super::compare::{cancelled, say_how_to_repeat, say_what_is_noisy};
use super::host::HostArgs;
use super::output::{OutputArgs, note, say_where};
use super::terminal::Terminal;
use crate::flow::{self, Ended, Error, Options, Session};
use crate::model::Side;
use crate::rundir::AnyRunDir;

/// Run the boots of a plan that have no results yet, and end as `ktax compare` does.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run the plan in this directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Show estimates while pairs are measured; this does not change when the run stops
    #[arg(long)]
    peek: bool,
    /// Measure a block of 20 boots for this side; only for kernels that you boot yourself
    #[arg(long, value_enum, value_name = "SIDE")]
    side: Option<SideArg>,
    /// Trace the programs whose counts differ between layouts, and say which system calls gave them
    /// something else
    #[arg(long, conflicts_with = "side")]
    explain_noise: bool,
    /// Continue with a warning if base and change differ in more than was declared (timed runs)
    #[arg(long)]
    allow_differences: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    host: HostArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SideArg {
    Base,
    Change,
}

impl From<SideArg> for Side {
    fn from(side: SideArg) -> Side {
        match side {
            SideArg::Base => Side::Base,
            SideArg::Change => Side::Change,
        }
    }
}

pub fn run(args: &Args) -> Result<Exit, Error> {
    let dir = AnyRunDir::open(&args.dir)?;
    args.host.measuring(&Terminal::new(), |session| measure(args, &dir, session))
}

fn measure(args: &Args, dir: &AnyRunDir, session: &Session<'_>) -> Result<Exit, Error> {
    let options = Options { peek: args.peek, allow_differences: args.allow_differences };
    if let Some(side) = args.side.map(Side::from) {
        if options != Options::default() {
            return Err(Error::user(
                "--peek and --allow-differences do not apply to a block; remove --peek, and give \
                 --allow-differences to `ktax analyse`",
            ));
        }
        let _lock = dir.lock()?;
        return Ok(match flow::run_block(dir, side, session)? {
            None => cancelled(dir.root(), &format!(" --side {}", side.name())),
            Some(next) => {
                note!("ktax: measured the block; {next}");
                Exit::Ok
            }
        });
    }
    let _lock = dir.lock()?;
    Ok(match flow::run(dir, options, session)? {
        Ended::Cancelled => cancelled(dir.root(), ""),
        // The exit status is that of `ktax compare`.
        Ended::Complete => {
            let comparison =
                flow::analyse_and_keep(dir, Options { peek: false, ..options }, session)?;
            args.output.print(&comparison)?;
            say_where(dir.root());
            say_how_to_repeat(dir.root(), &comparison);
            if args.explain_noise {
                say_what_is_noisy(dir, &comparison, session)?;
            }
            Exit::from_comparisons(&[comparison])
        }
    })
}
