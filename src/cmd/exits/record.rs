use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::args::{HowArgs, PrintArgs, seconds};
use super::target::TargetArgs;
use crate::cmd::drive::{cancel, is_cancelled};
use crate::cmd::exit::Exit;
use crate::cmd::progress::spinner;
use crate::exits::live::Recorder;
use crate::model::ExitTable;
use crate::report;
use crate::rundir::write_atomically;

/// How often a living VM is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Record a virtual machine and print where its time went
///
/// Ends with the VM, after --seconds, or with Ctrl-C.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    how: HowArgs,
    /// End after so long
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Keep the tables in a file, for `exits report` and `exits diff`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    print: PrintArgs,
}

pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let tables = record(args)?;
    if let Some(path) = &args.out {
        write_atomically(path, report::json(&tables)?.as_bytes())
            .with_context(|| format!("cannot write {}; give --out another", path.display()))?;
    }
    args.print.print(&tables)?;
    Ok(Exit::Ok)
}

fn record(args: &Args) -> anyhow::Result<Vec<ExitTable>> {
    cancel()?;
    let target = args.target.open()?;
    let mut recorder = Recorder::attach(&target.process, &target.of, args.how.choice())?;
    target.go()?;
    let began = Instant::now();
    let bar = spinner();
    bar.set_message(format!("recording {}; Ctrl-C ends it", target.of));
    let mut is_over = false;
    while !is_over && !is_cancelled() && args.seconds.is_none_or(|most| began.elapsed() < most) {
        let left = args.seconds.map_or(LOOK, |most| most.saturating_sub(began.elapsed()).min(LOOK));
        is_over = target.process.ended_within(left)?;
        recorder.poll()?;
    }
    bar.finish_and_clear();
    let tables = recorder.finish(args.how.per())?;
    if let Some(status) = target.end(is_over)? {
        let has_seen = tables.iter().any(|table| !table.rows.is_empty());
        anyhow::ensure!(has_seen, "the command failed before it entered a guest: {status}");
        note!("ktax: the command failed: {status}");
    }
    Ok(tables)
}
