//! Arguments that several subcommands share.

use std::time::Duration;

use super::target::TargetArgs;
use crate::cmd::choice::{Choice, one_of};
use crate::cmd::output::{OutputArgs, write_stdout};
use crate::flow::Error;
use crate::flow::exits::{Level, Per, RecorderChoice, Via};
use crate::model::ExitTable;
use crate::report::{Classic, ExitTables, exits_classic};

pub(super) const PER: [Choice<Per>; 3] = [
    (Per::Vm, "vm", "All vCPUs together"),
    (Per::Vcpu, "vcpu", "Each vCPU"),
    (Per::Both, "both", "All vCPUs together, then each"),
];
const LEVEL: [Choice<Level>; 2] = [
    (
        Level::Exits,
        "exits",
        "From each exit of the guest to its next entry, by the processor's reason",
    ),
    (Level::Run, "run", "From each return of KVM_RUN to its next call; works with any KVM"),
];
const VIA: [Choice<Via>; 4] = [
    (Via::Bpf, "bpf", "Add up events in the kernel, with eBPF"),
    (Via::Perf, "perf", "Copy events through perf's ring buffers"),
    (Via::Stats, "stats", "Read KVM's statistics: counts of exits, but times of halts only"),
    (Via::ExitTimes, "timing", "Read the files timing and timings in debugfs (PowerPC)"),
];

const LAYOUTS: [Choice<Classic>; 2] = [
    (Classic::Long, "classic", "The columns of kvmppc_timing.py (2008)"),
    (
        Classic::Short,
        "classic-short",
        "The shorter columns of its tables before and after paravirtualization",
    ),
];

/// In how many tables.
#[derive(Debug, Clone, clap::Args)]
pub struct PerArgs {
    /// Print one table of the VM, one for each vCPU, or both
    #[arg(long, value_name = "PER", value_parser = one_of(&PER), default_value = "vm")]
    pub per: Per,
}

/// How to record.
#[derive(Debug, Clone, clap::Args)]
pub struct HowArgs {
    #[command(flatten)]
    per: PerArgs,
    /// Measure time between these events [default: exits, if KVM reports them]
    #[arg(long, value_name = "LEVEL", value_parser = one_of(&LEVEL))]
    level: Option<Level>,
    /// Choose how ktax gets the data [default: bpf, or perf if eBPF is refused]
    #[arg(long, value_name = "VIA", value_parser = one_of(&VIA))]
    via: Option<Via>,
}

impl HowArgs {
    /// In how many tables.
    pub fn per(&self) -> Per {
        self.per.per
    }

    /// An error where something was asked for that what KVM itself counts cannot give.
    pub fn check(&self, target: &TargetArgs) -> Result<(), Error> {
        let (whose, is_one) = match self.via {
            Some(Via::Stats) => ("KVM's statistics (--via stats)", true),
            Some(Via::ExitTimes) => ("KVM's own tables (--via timing)", false),
            _ => return Ok(()),
        };
        let cannot = [
            (is_one && self.per.per != Per::Vm, "have only one table, for the VM; remove --per"),
            (self.level.is_some(), "have no times of single exits; remove --level"),
            (target.is_command(), "exist only while the VM runs; start it, and give --pid or --vm"),
        ];
        match cannot.iter().find(|(is_wanted, _)| *is_wanted) {
            Some((_, why)) => Err(Error::Usage(format!("{whose} {why}"))),
            None => Ok(()),
        }
    }

    /// What was chosen.
    pub fn choice(&self) -> RecorderChoice {
        RecorderChoice { level: self.level, via: self.via }
    }
}

/// A number of seconds above 0.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0);
    number
        .and_then(|number| Duration::try_from_secs_f64(number).ok())
        .ok_or_else(|| "write a number of seconds above 0, such as 10".to_owned())
}

/// How to print tables.
#[derive(Debug, clap::Args)]
pub struct PrintArgs {
    /// Print the columns of a published table
    #[arg(long, value_parser = one_of(&LAYOUTS), conflicts_with_all = ["format", "json"])]
    #[arg(help_heading = "Output")]
    layout: Option<Classic>,
    #[command(flatten)]
    output: OutputArgs,
}

impl PrintArgs {
    /// Prints.
    pub fn print(&self, tables: &[ExitTable]) -> Result<(), Error> {
        let Some(columns) = self.layout else { return self.output.print(&ExitTables(tables)) };
        let text: Vec<String> = tables.iter().map(|table| exits_classic(table, columns)).collect();
        Ok(write_stdout(&text.join("\n"))?)
    }
}
