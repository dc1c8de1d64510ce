use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::ValueEnum;

use super::report::PrintArgs;
use super::target::TargetArgs;
use crate::cmd::drive::{cancel, is_cancelled};
use crate::cmd::exit::Exit;
use crate::cmd::progress::spinner;
use crate::exits::Per;
use crate::exits::live::{self, Choice, Recorder};
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

/// What to look at.
#[derive(Debug, Clone, clap::Args)]
pub struct HowArgs {
    /// One table of the VM, one for each vCPU, or both
    #[arg(long, value_enum, default_value_t = PerArg::Vm)]
    per: PerArg,
    /// Between which moments time is taken [default: exits, where KVM reports them]
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// How events reach ktax [default: bpf, where it is allowed]
    #[arg(long, value_enum)]
    via: Option<Via>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PerArg {
    Vm,
    Vcpu,
    Both,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    /// The guest's exits and entries: the processor's reasons
    Exits,
    /// KVM_RUN's returns and calls: what reaches the VMM, on any KVM
    Run,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Via {
    /// Added up in the kernel
    Bpf,
    /// Copied through perf's ring buffers
    Perf,
}

impl HowArgs {
    /// In how many tables.
    pub fn per(&self) -> Per {
        match self.per {
            PerArg::Vm => Per::Vm,
            PerArg::Vcpu => Per::Vcpu,
            PerArg::Both => Per::Both,
        }
    }

    /// What was chosen.
    pub fn choice(&self) -> Choice {
        let level = self.level.map(|level| match level {
            Level::Exits => live::Level::Exits,
            Level::Run => live::Level::Run,
        });
        let via = self.via.map(|via| match via {
            Via::Bpf => live::Via::Bpf,
            Via::Perf => live::Via::Perf,
        });
        Choice { level, via }
    }
}

/// A number of seconds above 0.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0);
    number
        .and_then(|number| Duration::try_from_secs_f64(number).ok())
        .ok_or_else(|| "a number of seconds above 0, such as 10".to_owned())
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
    let mut recorder = Recorder::attach(target.process.pid, &target.of, args.how.choice())?;
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
