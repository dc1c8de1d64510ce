use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::workload::is_zero;
use super::{CacheLine, Costly, CostlyCounts, Failure, ModelledCounts, Msr, Parallel, Signature};

/// Who executed an instruction of a Region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Context {
    /// User mode, system calls and exceptions of tasks that enter user mode.
    Process,
    /// Hard interrupts, and the softirqs that run on their exit.
    Interrupt,
    /// Tasks that never enter user mode.
    Kthread,
    /// Such tasks while the processes wait for them: `plugin/awaited.h` has the rule.
    Awaited,
}

impl Context {
    /// All Contexts, in the order in which they are printed.
    pub const ALL: [Context; 4] =
        [Context::Process, Context::Interrupt, Context::Kthread, Context::Awaited];

    /// Whether a row can be slower or faster by what it executes.
    pub fn decides(self) -> bool {
        matches!(self, Context::Process | Context::Awaited)
    }

    /// What it is in a sentence: `kernel threads`.
    pub fn words(self) -> &'static str {
        match self {
            Context::Process => "the process",
            Context::Interrupt => "interrupts",
            Context::Kthread => "kernel threads",
            Context::Awaited => "kernel threads that it waits for",
        }
    }

    /// `process`, `interrupt`, `kthread` or `awaited`.
    pub fn name(self) -> &'static str {
        match self {
            Context::Process => "process",
            Context::Interrupt => "interrupt",
            Context::Kthread => "kthread",
            Context::Awaited => "awaited",
        }
    }
}

/// What was dispatched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Instructions; a REP string instruction counts once.
    pub instructions: u64,
    /// Repeats of REP string instructions.
    pub rep_iterations: u64,
    /// What one of several CPUs waited for another one, in instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wait: u64,
    /// What one of several CPUs had nothing to do, in instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: u64,
    /// How often it got a cache line that another CPU had written, by the model of coherence.
    #[serde(rename = "model_transfers", default, skip_serializing_if = "is_zero")]
    pub transfers: u64,
    /// Those that cost many times what others cost.
    #[serde(default, skip_serializing_if = "CostlyCounts::is_zero")]
    pub costly: CostlyCounts,
    /// What the model of a machine counted.
    #[serde(default, skip_serializing_if = "ModelledCounts::is_zero")]
    pub modelled: ModelledCounts,
}

impl Counts {
    /// What `make` makes of each count of both.
    #[must_use]
    pub fn with(&self, other: &Counts, make: impl Fn(u64, u64) -> u64) -> Counts {
        let Counts { instructions, rep_iterations, wait, idle, transfers, costly, modelled } = self;
        Counts {
            instructions: make(*instructions, other.instructions),
            rep_iterations: make(*rep_iterations, other.rep_iterations),
            wait: make(*wait, other.wait),
            idle: make(*idle, other.idle),
            transfers: make(*transfers, other.transfers),
            costly: costly.with(&other.costly, &make),
            modelled: modelled.with(&other.modelled, &make),
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.instructions += more.instructions;
        self.rep_iterations += more.rep_iterations;
        self.wait += more.wait;
        self.idle += more.idle;
        self.transfers += more.transfers;
        self.costly += more.costly;
        self.modelled += more.modelled;
    }
}

impl std::ops::SubAssign for Counts {
    fn sub_assign(&mut self, less: Counts) {
        let Counts { instructions, rep_iterations, wait, idle, transfers, costly, modelled } = self;
        *instructions = instructions.saturating_sub(less.instructions);
        *rep_iterations = rep_iterations.saturating_sub(less.rep_iterations);
        *wait = wait.saturating_sub(less.wait);
        *idle = idle.saturating_sub(less.idle);
        *transfers = transfers.saturating_sub(less.transfers);
        *costly -= less.costly;
        *modelled -= less.modelled;
    }
}

/// The counts of one Region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Operations that the Region performed.
    pub ops: u64,
    /// Counts by Context; an absent Context executed nothing.
    pub counts: BTreeMap<Context, Counts>,
    /// Everything dispatched, counted apart from the functions.
    pub total: u64,
    /// The guest's own time-stamp difference around the Region.
    pub tsc: u64,
    /// What the Workload says it did.
    pub signature: Signature,
    /// What the guest saw beside its work: page faults and context switches of the Workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: Signature,
    /// The end of what a program of the user's printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<PrintedEnd>,
    /// What the plugin could not keep apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Of several CPUs: where their time went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
}

impl Sample {
    /// What the names of values end in that are the operations of a known suite:
    /// `unixbench-operations`.
    pub const OPERATIONS_OF: &str = "-operations";

    /// The suite that a program is, by what it printed, and its operations.
    pub fn suite_operations(&self) -> Option<(&str, u64)> {
        self.values
            .iter()
            .find_map(|(name, count)| Some((name.strip_suffix(Sample::OPERATIONS_OF)?, *count)))
    }
}

/// The last lines that a program printed, escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrintedEnd {
    /// On its standard output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stdout: Vec<String>,
    /// On its standard error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// A Sample, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome<S = Sample> {
    /// It was measured.
    Measured(S),
    /// It was not.
    Failed(Failure),
}

/// One Workload in one Boot: `boots/NNN-side/runs/ROW.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run<S = Sample> {
    /// The Workload's row.
    pub row: String,
    /// What came of it.
    pub outcome: Outcome<S>,
}

/// One Boot: `boots/NNN-side/boot.json`. A KVM host says nothing of its kernel: the plan has the
/// image's hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// `uname -r` as the guest reports it.
    pub release: Option<String>,
    /// GNU build-id as the guest reports it.
    pub build_id: Option<String>,
    /// Boot parameters that the kernel does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Kernel threads that still ran at the Snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<String>,
    /// Where there is a disk: the kernel's code that computes crc32c, as /proc/crypto calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<String>,
    /// Whether the kernel's random number generator had no seed at the Snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unseeded: bool,
    /// Why the Boot, or a Run of it, was made a second time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Failure>,
    /// Why the Boot did not reach its Snapshot; every Workload of it is then a failed row.
    pub failure: Option<Failure>,
}

impl Boot {
    /// A Boot without an answer.
    pub fn failed(failure: Failure) -> Boot {
        Boot { failure: Some(failure), ..Boot::default() }
    }
}

/// One function's counts in one Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileLine {
    /// Who executed it.
    pub context: Context,
    /// The function's symbol, `[user]` or `[kernel]`.
    pub function: String,
    /// What it executed itself, callees not included.
    pub counts: Counts,
}

/// How often one function read or wrote one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsrLine {
    /// Who executed it.
    pub context: Context,
    /// [`Costly::Wrmsr`] or [`Costly::Rdmsr`].
    pub kind: Costly,
    /// Which register.
    pub msr: Msr,
    /// How often.
    pub count: u64,
    /// The function's symbol.
    pub function: String,
}

/// A function below the one that called it, in a Region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Who executed it.
    pub context: Context,
    /// How many functions it is below.
    pub depth: u32,
    /// The function's symbol, `[user]`, or `[unknown]` where the call was before the Region.
    pub function: String,
    /// How often it was called there.
    pub calls: u64,
    /// Instructions of its own there, without those that it called.
    pub instructions: u64,
    /// REP iterations of its own there.
    pub rep_iterations: u64,
    /// Costly instructions of its own there.
    pub costly: CostlyCounts,
    /// What one of several CPUs waited for another one there, in instructions.
    pub wait: u64,
    /// What a CPU was idle after its process had left it there, in instructions.
    pub idle: u64,
}

/// The counts of one Region by function: `boots/NNN-side/runs/ROW.profile.tsv`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Sorted by Context, then function.
    pub lines: Vec<ProfileLine>,
    /// Which model-specific registers were accessed, where QEMU lets them be read.
    pub msrs: Vec<MsrLine>,
    /// By the model of coherence: what travelled, most first.
    pub cache_lines: Vec<CacheLine>,
    /// From where functions were called: a caller, then all that it called, by their names.
    pub paths: Vec<Path>,
}
