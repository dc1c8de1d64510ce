//! Boots, Runs and their counts, also of several CPUs.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CacheLine, Costly, Counts, Failure, Growth, Msr, Signature, Workload, is_default};

named_enum! {
    /// Contexts in which an instruction of a Region is executed.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Context {
        /// User mode, system calls and exceptions of tasks that enter user mode.
        Process = "process",
        /// Hard interrupts, and the softirqs that run on their exit.
        Interrupt = "interrupt",
        /// Tasks that never enter user mode.
        Kthread = "kthread",
        /// Tasks that never enter user mode, while processes wait for them; `plugin/context.h` has
        /// the rule.
        Awaited = "awaited",
    }
}

impl Context {
    /// True if a row can be slower or faster by it.
    pub fn decides(self) -> bool {
        matches!(self, Context::Process | Context::Awaited)
    }

    /// Words for a sentence: `kernel threads`.
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
    /// By Context; an absent Context executed nothing.
    pub counts: BTreeMap<Context, Counts>,
    /// All dispatched instructions, counted apart from the functions.
    pub total: u64,
    /// The guest's own time-stamp difference around the Region.
    pub tsc: u64,
    pub signature: Signature,
    /// Other values that the guest saw: page faults and context switches of the Workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: Signature,
    /// Last lines that a user's program printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<PrintedEnd>,
    /// Notes about parts that the plugin could not separate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Time of several CPUs, by activity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
}

impl Sample {
    /// Suffix of names of values that are the operations of a known suite: `unixbench-operations`.
    pub const OPERATIONS_OF: &str = "-operations";

    /// Suite that the program is by its output, and its operations.
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stdout: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// A Sample, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome<S = Sample> {
    Measured(S),
    Failed(Failure),
}

/// One Workload in one Boot: `boots/NNN-side/runs/ROW.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run<S = Sample> {
    pub row: String,
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
    /// Name in /proc/crypto of the code that computes crc32c; only with a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<String>,
    /// True if the kernel's random number generator had no seed at the Snapshot.
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
    pub context: Context,
    /// Symbol, `[user]` or `[kernel]`.
    pub function: String,
    /// Counts of the function itself, without its callees.
    pub counts: Counts,
}

/// Accesses of one function to one model-specific register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsrLine {
    pub context: Context,
    /// [`Costly::Wrmsr`] or [`Costly::Rdmsr`].
    pub kind: Costly,
    pub msr: Msr,
    pub count: u64,
    pub function: String,
}

/// A function below its caller, in a Region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub context: Context,
    /// Number of functions above it.
    pub depth: u32,
    /// Symbol, `[user]`, or `[unknown]` if the call was before the Region.
    pub function: String,
    pub calls: u64,
    /// Counts there without those of its callees: instructions, REP iterations, costly
    /// instructions, waiting of CPUs, and idle time of a CPU after its process left it there.
    pub counts: Counts,
}

/// The counts of one Region by function: `boots/NNN-side/runs/ROW.profile.tsv`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Sorted by Context, then function.
    pub lines: Vec<ProfileLine>,
    /// Accesses to model-specific registers, if QEMU lets them be read.
    pub msrs: Vec<MsrLine>,
    /// Lines that travelled, by the model of coherence; most first.
    pub cache_lines: Vec<CacheLine>,
    /// Call paths: a caller, then its callees by name.
    pub paths: Vec<Path>,
}

/// Time of one of several CPUs, by activity, in instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// Time of execution.
    pub work: u64,
    /// Time of waiting for another CPU: the rest of its slices after a PAUSE.
    pub wait: u64,
    /// Time when it was halted.
    pub idle: u64,
    /// Time by which its slices were shorter than the longest of their rounds. Results of an older
    /// ktax have this in `idle`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uneven: u64,
}

/// Work of several CPUs in a Region. Each executes a slice in turn; a round is as long as its
/// longest slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallel {
    /// Each CPU has the makespan as its time.
    pub cpus: Vec<CpuTime>,
    /// The length of all rounds, in instructions.
    pub makespan: u64,
    pub rounds: u64,
    /// Number of slices that the quantum ended.
    pub kicks: u64,
    /// Hash of the executed instructions, with their order and CPUs.
    pub trace: String,
    /// Number of transfers of a cache line between CPUs, by the model of coherence.
    #[serde(rename = "model_transfers", default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u64>,
}

impl Parallel {
    /// Sum over all CPUs.
    pub fn sum(&self) -> CpuTime {
        self.cpus.iter().fold(CpuTime::default(), |sum, cpu| CpuTime {
            work: sum.work.saturating_add(cpu.work),
            wait: sum.wait.saturating_add(cpu.wait),
            idle: sum.idle.saturating_add(cpu.idle),
            uneven: sum.uneven.saturating_add(cpu.uneven),
        })
    }

    /// True if each CPU's time is the makespan.
    pub fn adds_up(&self) -> bool {
        let time = |cpu: &CpuTime| {
            cpu.work.checked_add(cpu.wait)?.checked_add(cpu.idle)?.checked_add(cpu.uneven)
        };
        self.cpus.iter().all(|cpu| time(cpu) == Some(self.makespan))
    }
}

named_enum! {
    /// Activity of one of several CPUs when its last slice ended.
    pub enum Doing {
        Work = "work",
        Wait = "wait",
        Idle = "idle",
    }
}

/// Place of one of several CPUs when its time was over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuPlace {
    pub cpu: u32,
    pub doing: Doing,
    pub function: String,
}

impl CpuPlace {
    /// True unless it waited or was idle.
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
    let places = cpus.iter().map(describe).collect::<Vec<_>>().join(", ");
    match (is_deadlock, cpus) {
        (_, []) => String::new(),
        (true, _) => format!("; its CPUs wait for each other: {places}"),
        (false, _) => format!(": {places}"),
    }
}

/// One Run on the running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeSample {
    pub signature: Signature,
    /// Measured values: times, faults, counters; the unit is in the name.
    pub values: Signature,
}

/// One row, run several times, each time in a process of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeRow {
    pub workload: Workload,
    pub samples: Vec<NativeSample>,
    /// Reason why the Runs ended early.
    pub failure: Option<Failure>,
    /// Counters that this machine lacks, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uncounted: BTreeMap<String, String>,
    /// Summary of each column of the table; `None` if the Samples have none.
    pub cells: Vec<Option<Summary>>,
}

/// Several values of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Middle value, or the mean of the middle two.
    pub median: f64,
    pub least: f64,
    pub most: f64,
    /// All values, in the order in which they were measured.
    pub samples: Vec<f64>,
}

/// A column of a native table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeColumn {
    /// The name in files, as workload definitions use it.
    pub name: String,
    pub heading: String,
    /// The unit of its values; empty for a ratio.
    pub unit: String,
}

/// A Workload run on the running kernel: what `ktax workloads run` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeTable {
    pub workload: String,
    /// One line for people.
    pub title: String,
    pub operation: String,
    /// The words in which the original prints its result.
    pub original: Option<String>,
    /// `uname -r` of the running kernel.
    pub release: String,
    /// CPU name; empty in results of older releases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// Columns derived from the Samples.
    pub columns: Vec<NativeColumn>,
    /// One for each combination of parameters.
    pub rows: Vec<NativeRow>,
    /// Growth of times with a size, for rows that show it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
}

/// Counter of the kernel for a command; a part belongs to the headline above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatCounter {
    pub name: &'static str,
    /// The name on the screen.
    pub title: &'static str,
    /// Unit of a value in files; the screen has milliseconds for ns.
    pub unit: &'static str,
    /// False if it is part of another StatCounter.
    pub headline: bool,
}

const fn headline(name: &'static str, title: &'static str, unit: &'static str) -> StatCounter {
    StatCounter { name, title, unit, headline: true }
}

const fn part(name: &'static str, title: &'static str, unit: &'static str) -> StatCounter {
    StatCounter { name, title, unit, headline: false }
}

/// All of them, in the order of the table.
pub const STAT_COUNTERS: [StatCounter; 15] = [
    headline("task-clock", "task clock (msecs)", "ns"),
    headline("cpu-migrations", "CPU migrations", "migrations"),
    headline("context-switches", "context switches", "switches"),
    headline("page-faults", "page faults", "faults"),
    part("minor-faults", "of them minor", "faults"),
    part("major-faults", "of them major", "faults"),
    headline("cycles", "CPU cycles", "cycles"),
    part("cycles-user", "of them user", "cycles"),
    part("cycles-kernel", "of them kernel", "cycles"),
    headline("instructions", "instructions", "instructions"),
    part("instructions-user", "of them user", "instructions"),
    part("instructions-kernel", "of them kernel", "instructions"),
    headline("cache-references", "cache references", "references"),
    headline("cache-misses", "cache misses", "misses"),
    headline("dtlb-misses", "dTLB misses (loads)", "misses"),
];

/// StatCounter that needs no help of the kernel, below all others.
pub const ELAPSED: StatCounter = headline("elapsed", "time elapsed (msecs)", "ns");

/// One value of a StatCounter.
#[derive(Debug, Clone, PartialEq)]
pub enum Count {
    /// Value, scaled up if it was counted for less than 100 % of the command's CPU time.
    Seen {
        /// In the StatCounter's unit.
        value: f64,
        /// Share of the command's CPU time.
        counted_percent: f64,
    },
    /// Reason why there is no value, and what to do about it.
    Not(String),
}

/// Counts of one run of a command, by the StatCounter's name.
pub type Counted = BTreeMap<&'static str, Count>;

/// A command, run several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Ends of the runs that did not end well.
    pub failures: Vec<String>,
}

/// Interval of the median of repeated values, by its order statistics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MedianInterval {
    pub low: f64,
    pub high: f64,
    /// Coverage in percent: 95 % at least.
    pub level_percent: f64,
}

/// The values of one StatCounter over the runs of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// In the order of the runs.
    pub values: Vec<f64>,
    /// In ascending order.
    pub sorted: Vec<f64>,
    pub mean: f64,
    /// Middle value, or the mean of the middle two.
    pub median: f64,
    /// Distance of the largest value above the smallest, in percent of that; `None` for fewer than
    /// two values, and if one is 0.
    pub spread_percent: Option<f64>,
    /// Interval of the median; `None` below six values.
    pub interval: Option<MedianInterval>,
    /// Smallest share of the command's CPU time in which a value was counted.
    pub counted_percent: f64,
}

/// Comparison of two commands by the pairs of their runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatChange {
    /// Distance of the second above the first, in percent of it.
    pub percent: f64,
    /// 95 % confidence interval; `None` below six pairs.
    pub interval_percent: Option<[f64; 2]>,
}

/// Row for one StatCounter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatRow {
    /// [`StatCounter::name`].
    pub counter: String,
    /// [`StatCounter::unit`].
    pub unit: String,
    /// Values of each command; empty if one of them has none.
    pub repeats: Vec<Repeats>,
    /// Reason why there are no values, and what to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<String>,
    /// Distance of the second of two commands above the first; `None` where a value is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<StatChange>,
}

/// Result of `ktax stat`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatTable {
    /// `uname -r` of the running kernel.
    pub release: String,
    /// CPUs that may be used.
    pub cpus: usize,
    /// One command; or base and change.
    pub commands: Vec<StatCommand>,
    /// Runs of each command.
    pub runs: usize,
    /// Seed that decides which of a pair went first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// In the order of the table.
    pub rows: Vec<StatRow>,
}
