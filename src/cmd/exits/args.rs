//! What the subcommands have in common.

use std::time::Duration;

use super::target::TargetArgs;
use crate::cmd::choice::{Choice as Value, one_of};
use crate::cmd::exit::UsageError;
use crate::cmd::output::{text_options, write_stdout};
use crate::exits::Per;
use crate::exits::live::{Choice, Level, Via};
use crate::model::ExitTable;
use crate::report::{self, Classic};

const PER: [Value<Per>; 3] = [
    (Per::Vm, "vm", "All vCPUs together"),
    (Per::Vcpu, "vcpu", "Each vCPU"),
    (Per::Both, "both", "All together, then each"),
];

const LEVELS: [Value<Level>; 2] = [
    (Level::Exits, "exits", "The guest's exits and entries: the processor's reasons"),
    (Level::Run, "run", "KVM_RUN's returns and calls: what reaches the VMM, on any KVM"),
];

const VIAS: [Value<Via>; 4] = [
    (Via::Bpf, "bpf", "Added up in the kernel"),
    (Via::Perf, "perf", "Copied through perf's ring buffers"),
    (Via::Stats, "stats", "No events but KVM's own statistics: counts, and times of halts alone"),
    (
        Via::Timing,
        "timing",
        "No events but PowerPC's own tables, the files timing and timings in debugfs",
    ),
];

const LAYOUTS: [Value<Classic>; 2] = [
    (Classic::Long, "classic", "Of the wiki's workloads, 2008"),
    (Classic::Short, "classic-short", "Of its two tables before and after paravirtualization"),
];

/// In how many tables.
#[derive(Debug, Clone, clap::Args)]
pub struct PerArgs {
    /// One table of the VM, one for each vCPU, or both
    #[arg(long, value_parser = one_of(&PER), default_value = "vm")]
    pub per: Per,
}

/// What to look at.
#[derive(Debug, Clone, clap::Args)]
pub struct HowArgs {
    #[command(flatten)]
    per: PerArgs,
    /// Between which moments time is taken [default: exits, where KVM reports them]
    #[arg(long, value_parser = one_of(&LEVELS))]
    level: Option<Level>,
    /// How events reach ktax [default: bpf, where it is allowed]
    #[arg(long, value_parser = one_of(&VIAS))]
    via: Option<Via>,
}

impl HowArgs {
    /// In how many tables.
    pub fn per(&self) -> Per {
        self.per.per
    }

    /// An error where something was asked for that what KVM itself counts cannot give.
    pub fn check(&self, target: &TargetArgs) -> Result<(), UsageError> {
        let (whose, is_one) = match self.via {
            Some(Via::Stats) => ("KVM's statistics (--via stats)", true),
            Some(Via::Timing) => ("KVM's own tables (--via timing)", false),
            _ => return Ok(()),
        };
        let cannot = [
            (is_one && self.per.per != Per::Vm, "have one table, of the VM; leave --per out"),
            (self.level.is_some(), "know no moments; leave --level out"),
            (target.is_command(), "are there once the VM is; start it, and give --pid or --vm"),
        ];
        match cannot.iter().find(|(is_wanted, _)| *is_wanted) {
            Some((_, why)) => Err(UsageError::Text(format!("{whose} {why}"))),
            None => Ok(()),
        }
    }

    /// What was chosen.
    pub fn choice(&self) -> Choice {
        Choice { level: self.level, via: self.via }
    }
}

/// A number of seconds above 0.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0);
    number
        .and_then(|number| Duration::try_from_secs_f64(number).ok())
        .ok_or_else(|| "a number of seconds above 0, such as 10".to_owned())
}

/// How to print tables.
#[derive(Debug, clap::Args)]
pub struct PrintArgs {
    /// In the columns of a published table
    #[arg(long, value_parser = one_of(&LAYOUTS))]
    layout: Option<Classic>,
    /// Print as JSON
    #[arg(long, conflicts_with = "layout")]
    json: bool,
}

impl PrintArgs {
    /// Prints.
    pub fn print(&self, tables: &[ExitTable]) -> anyhow::Result<()> {
        let text = match self.json {
            true => report::json(&tables)?,
            false => texts(tables, self.layout),
        };
        Ok(write_stdout(&text)?)
    }
}

/// All tables as text.
pub fn texts(tables: &[ExitTable], layout: Option<Classic>) -> String {
    let text = |table: &ExitTable| match layout {
        None => report::exits(table, text_options()),
        Some(columns) => report::exits_classic(table, columns),
    };
    tables.iter().map(text).collect::<Vec<_>>().join("\n")
}
