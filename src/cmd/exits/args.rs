//! What the subcommands have in common.

use std::time::Duration;

use clap::ValueEnum;

use crate::cmd::output::{text_options, write_stdout};
use crate::exits::Per;
use crate::exits::live::{self, Choice};
use crate::model::ExitTable;
use crate::report::{self, Classic};

/// In how many tables.
#[derive(Debug, Clone, clap::Args)]
pub struct PerArgs {
    /// One table of the VM, one for each vCPU, or both
    #[arg(long, value_enum, default_value_t = PerArg::Vm)]
    per: PerArg,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PerArg {
    Vm,
    Vcpu,
    Both,
}

impl PerArgs {
    /// What was chosen.
    pub fn per(&self) -> Per {
        match self.per {
            PerArg::Vm => Per::Vm,
            PerArg::Vcpu => Per::Vcpu,
            PerArg::Both => Per::Both,
        }
    }
}

/// What to look at.
#[derive(Debug, Clone, clap::Args)]
pub struct HowArgs {
    #[command(flatten)]
    per: PerArgs,
    /// Between which moments time is taken [default: exits, where KVM reports them]
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// How events reach ktax [default: bpf, where it is allowed]
    #[arg(long, value_enum)]
    via: Option<Via>,
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
    /// No events but KVM's own statistics: counts, and times of halts alone
    Stats,
}

impl HowArgs {
    /// In how many tables.
    pub fn per(&self) -> Per {
        self.per.per()
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
            Via::Stats => live::Via::Stats,
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

/// How to print tables.
#[derive(Debug, clap::Args)]
pub struct PrintArgs {
    /// In the columns of a published table
    #[arg(long, value_enum)]
    layout: Option<Layout>,
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

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Layout {
    /// Of the wiki's workloads, 2008
    Classic,
    /// Of its two tables before and after paravirtualization
    ClassicShort,
}

/// All tables as text.
pub fn texts(tables: &[ExitTable], layout: Option<Layout>) -> String {
    let text = |table: &ExitTable| match layout {
        None => report::exits(table, text_options()),
        Some(Layout::Classic) => report::exits_classic(table, Classic::Long),
        Some(Layout::ClassicShort) => report::exits_classic(table, Classic::Short),
    };
    tables.iter().map(text).collect::<Vec<_>>().join("\n")
}
