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
    let (mut is_over, mut is_marked) = (false, false);
    let is_long_enough = || args.seconds.is_some_and(|most| began.elapsed() >= most);
    while !is_over && !is_marked && !is_cancelled() && !is_long_enough() {
        let left = args.seconds.map_or(LOOK, |most| most.saturating_sub(began.elapsed()).min(LOOK));
        is_over = target.process.ended_within(left)?;
        recorder.poll()?;
        is_marked = !is_over && target.has_marked_its_end()?;
    }
    bar.finish_and_clear();
    let tables = recorder.finish(args.how.per(), is_marked)?;
    if is_marked {
        target.go_to_the_end()?;
        is_over = !is_cancelled();
    }
    if let Some(status) = target.end(is_over)? {
        let has_seen = tables.iter().any(|table| !table.rows.is_empty());
        anyhow::ensure!(has_seen, "the command failed before it entered a guest: {status}");
        note!("ktax: the command failed: {status}");
    }
    Ok(tables)
}
