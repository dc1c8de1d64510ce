//! Arguments that several subcommands share.

use std::time::Duration;

use super::target::TargetArgs;
use crate::cmd::choice::{Choice, one_of};
use crate::cmd::output::{OutputArgs, write_stdout};
use crate::exits::Per;
use crate::exits::live::{Level, RecorderChoice, Via};
use crate::flow::Error;
use crate::model::ExitTable;
use crate::report::{Classic, ExitTables, exits_classic};

const PER: [Choice<Per>; 3] = [
    (Per::Vm, "vm", "All vCPUs together"),
    (Per::Vcpu, "vcpu", "Each vCPU"),
    (Per::Both, "both", "All vCPUs together, then each"),
];
const LEVEL: [Choice<Level>; 2] = [
    (Level::Exits, "exits", "The guest's exits and entries, with the processor's reasons"),
    (Level::Run, "run", "The returns and calls of KVM_RUN, which reach the VMM, on any KVM"),
];
const VIA: [Choice<Via>; 4] = [
    (Via::Bpf, "bpf", "Add events up in the kernel"),
    (Via::Perf, "perf", "Copy events through perf's ring buffers"),
    (Via::Stats, "stats", "Read KVM's statistics: counts, and the time of halts alone"),
    (Via::ExitTimes, "timing", "Read PowerPC's tables: the files timing and timings in debugfs"),
];

const LAYOUTS: [Choice<Classic>; 2] = [
    (Classic::Long, "classic", "The columns of the wiki's workloads, 2008"),
    (
        Classic::Short,
        "classic-short",
        "The columns of its two tables before and after paravirtualization",
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
    /// Take time between these moments [default: exits, where KVM reports them]
    #[arg(long, value_name = "LEVEL", value_parser = one_of(&LEVEL))]
    level: Option<Level>,
    /// Choose how events reach ktax [default: bpf, where it is allowed]
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
            (is_one && self.per.per != Per::Vm, "have one table, of the VM; leave --per out"),
            (self.level.is_some(), "have no times of single exits; leave --level out"),
            (target.is_command(), "exist once the VM runs; start it, and give --pid or --vm"),
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
