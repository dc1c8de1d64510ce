//! Boots, Runs and their counts, also of several CPUs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CacheLine, Costly, Counts, Failure, Msr, Signature, is_default};

named_enum! {
    /// Contexts in which an instruction of a Region is executed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum Context {
        /// User mode, system calls and exceptions of tasks that enter user mode.
        Process = "process",
        /// Hard interrupts, and the softirqs that run on their exit.
        Interrupt = "interrupt",
        /// Tasks that never enter user mode.
        Kthread = "kthread",
        /// Tasks that never enter user mode, while the processes wait for them: `plugin/context.h`
        /// has the rule.
        Awaited = "awaited",
    }
}

impl Context {
    /// Whether a row can be slower or faster by what it executes.
    pub fn decides(self) -> bool {
        matches!(self, Context::Process | Context::Awaited)
    }

    /// Words in a sentence: `kernel threads`.
    pub fn words(self) -> &'static str {
        match self {
            Context::Process => "the process",
            Context::Interrupt => "interrupts",
            Context::Kthread => "kernel threads",
            Context::Awaited => "kernel threads that it waits for",
        }
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
    /// Work signature of the Workload.
    pub signature: Signature,
    /// Values that the guest saw beside its work: page faults and context switches of the Workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: Signature,
    /// The end of what a program of the user's printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<PrintedEnd>,
    /// Notes about what the plugin could not keep apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Time of several CPUs, by what they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
}

impl Sample {
    /// Suffix of the names of values that are the operations of a known suite:
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The measurement.
    Measured(S),
    /// The reason why there is none.
    Failed(Failure),
}

/// One Workload in one Boot: `boots/NNN-side/runs/ROW.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run<S = Sample> {
    /// The Workload's row.
    pub row: String,
    /// Sample or failure of the Run.
    pub outcome: Outcome<S>,
}

/// One Boot: `boots/NNN-side/boot.json`. A KVM host says nothing of its kernel: the plan has the
/// image's hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// Name in /proc/crypto of the kernel's code that computes crc32c, where there is a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<String>,
    /// Whether the kernel's random number generator had no seed at the Snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unseeded: bool,
    /// Reasons why the Boot, or a Run of it, was made a second time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Failure>,
    /// Reason why the Boot did not reach its Snapshot; every Workload of it is then a failed row.
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
    /// Context of the execution.
    pub context: Context,
    /// The function's symbol, `[user]` or `[kernel]`.
    pub function: String,
    /// Counts of the function itself, callees not included.
    pub counts: Counts,
}

/// Accesses of one function to one model-specific register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsrLine {
    /// Context of the execution.
    pub context: Context,
    /// [`Costly::Wrmsr`] or [`Costly::Rdmsr`].
    pub kind: Costly,
    /// Which register.
    pub msr: Msr,
    /// Number of accesses.
    pub count: u64,
    /// The function's symbol.
    pub function: String,
}

/// A function below the one that called it, in a Region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Context of the execution.
    pub context: Context,
    /// Number of functions above it.
    pub depth: u32,
    /// The function's symbol, `[user]`, or `[unknown]` where the call was before the Region.
    pub function: String,
    /// Number of calls there.
    pub calls: u64,
    /// Counts of its own there, without those that it called: instructions, REP iterations, costly
    /// instructions, waiting of CPUs, and idle time of a CPU after its process had left it there.
    pub counts: Counts,
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

/// Time of one of several CPUs, by what it did, in instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// Time that it executed.
    pub work: u64,
    /// Time that it waited for another CPU: what a PAUSE left of its slices.
    pub wait: u64,
    /// Time that it was halted, with nothing to do.
    pub idle: u64,
    /// Time by which its slices were shorter than the longest ones of their rounds. Results of an
    /// older ktax have this in `idle`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uneven: u64,
}

/// Work of several CPUs in a Region. Each executes a slice in turn; a round is as long as its
/// longest slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallel {
    /// The CPUs, each of which has the makespan as its time.
    pub cpus: Vec<CpuTime>,
    /// The length of all rounds, in instructions.
    pub makespan: u64,
    /// Number of rounds.
    pub rounds: u64,
    /// Number of slices that the quantum ended.
    pub kicks: u64,
    /// A hash of what was executed, in which order and by which CPU.
    pub trace: String,
    /// Number of times that a cache line travelled from one CPU to another, by the model of
    /// coherence.
    #[serde(rename = "model_transfers", default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u64>,
}

impl Parallel {
    /// All CPUs together.
    pub fn sum(&self) -> CpuTime {
        self.cpus.iter().fold(CpuTime::default(), |sum, cpu| CpuTime {
            work: sum.work.saturating_add(cpu.work),
            wait: sum.wait.saturating_add(cpu.wait),
            idle: sum.idle.saturating_add(cpu.idle),
            uneven: sum.uneven.saturating_add(cpu.uneven),
        })
    }

    /// Whether each CPU's time is the makespan.
    pub fn adds_up(&self) -> bool {
        let time = |cpu: &CpuTime| {
            cpu.work.checked_add(cpu.wait)?.checked_add(cpu.idle)?.checked_add(cpu.uneven)
        };
        self.cpus.iter().all(|cpu| time(cpu) == Some(self.makespan))
    }
}

named_enum! {
    /// Activity of one of several CPUs when its last slice ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Doing {
        /// The CPU executed.
        Work = "work",
        /// The CPU waited for another one.
        Wait = "wait",
        /// The CPU had nothing to do.
        Idle = "idle",
    }
}

/// Place of one of several CPUs when its time was over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuPlace {
    /// Which CPU.
    pub cpu: u32,
    /// Activity of the CPU.
    pub doing: Doing,
    /// In which function.
    pub function: String,
}

impl CpuPlace {
    /// Whether it did something.
    pub fn works(&self) -> bool {
        self.doing == Doing::Work
    }
}

/// Places of all CPUs, as the end of a sentence.
pub(super) fn places_text(cpus: &[CpuPlace]) -> String {
    let waits = cpus.iter().filter(|place| place.doing == Doing::Wait).count();
    let is_deadlock = waits > 1 && !cpus.iter().any(CpuPlace::works);
    let describe = |place: &CpuPlace| {
        let how = match place.doing {
            Doing::Work => " executes",
            Doing::Wait if is_deadlock => " in",
            Doing::Wait => " waits in",
            Doing::Idle => return format!("CPU {} is idle", place.cpu),
        };
        format!("CPU {}{how} {}", place.cpu, place.function)
    };
    let all = cpus.iter().map(describe).collect::<Vec<_>>().join(", ");
    match (is_deadlock, cpus) {
        (_, []) => String::new(),
        (true, _) => format!("; its CPUs wait for each other: {all}"),
        (false, _) => format!(": {all}"),
    }
}
