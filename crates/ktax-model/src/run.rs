//! Boots and Runs with their counts, Runs on the running kernel, and counted commands (`ktax
//! stat`).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CacheLine, Costly, Counts, Failure, Growth, Msr, Signature, Workload, is_default};

named_enum! {
    /// Contexts in which instructions of a Region are executed.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Context {
        /// User mode, system calls and exceptions of tasks that enter user mode.
        Process = "process",
        /// Hard interrupts, and softirqs that run on return from a hard interrupt.
        Interrupt = "interrupt",
        /// Tasks that never enter user mode.
        Kthread = "kthread",
        /// Tasks that never enter user mode, while processes wait for them. `plugin/context.h`
        /// defines when a process waits.
        Awaited = "awaited",
    }
}

impl Context {
    /// True if counts in the Context can make a row slower or faster.
    pub fn is_deciding(self) -> bool {
        matches!(self, Context::Process | Context::Awaited)
    }

    /// Noun for a sentence: `kernel threads`.
    pub fn words(self) -> &'static str {
        match self {
            Context::Process => "the process",
            Context::Interrupt => "interrupts",
            Context::Kthread => "kernel threads",
            Context::Awaited => "kernel threads that it waits for",
        }
    }
}

/// Counts of one Region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Number of operations in the Region.
    pub ops: u64,
    /// Counts by Context. An absent Context executed no instructions.
    pub counts: BTreeMap<Context, Counts>,
    /// Number of all executed instructions, counted independently of the functions.
    pub total: u64,
    /// Duration of the Region by the guest's time-stamp counter.
    pub tsc: u64,
    pub signature: Signature,
    /// Values that the guest observed besides the signature, such as page faults and context
    /// switches of the Workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: Signature,
    /// Last lines that a user's program printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<PrintedEnd>,
    /// Notes of the plugin about counts that it could not separate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Times of several CPUs; absent for one CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<ParallelWork>,
}

impl Sample {
    /// Suffix of values with the number of operations of a known benchmark suite:
    /// `unixbench-operations`.
    pub const OPERATIONS_SUFFIX: &str = "-operations";

    /// Name of the benchmark suite that was recognized by its output, and its number of operations.
    pub fn suite_operations(&self) -> Option<(&str, u64)> {
        self.values
            .iter()
            .find_map(|(name, count)| Some((name.strip_suffix(Sample::OPERATIONS_SUFFIX)?, *count)))
    }
}

/// Last lines that a program printed, escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrintedEnd {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stdout: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// Result of a Run: a Sample, or the reason for its absence.
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

/// One Boot: `boots/NNN-side/boot.json`. A KVM host does not report its kernel, but its plan has
/// the hash of the image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// Output of `uname -r` in the guest.
    pub release: Option<String>,
    /// GNU build-id that the guest reports.
    pub build_id: Option<String>,
    /// Boot parameters that the kernel does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Kernel threads that were still running at the Snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<String>,
    /// Driver in /proc/crypto that computes crc32c; only with a disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc32c: Option<String>,
    /// True if the kernel's random number generator had no seed at the Snapshot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unseeded: bool,
    /// Failures after which the Boot, or one of its Runs, was made a second time.
    #[serde(default, rename = "lost", skip_serializing_if = "Vec::is_empty")]
    pub retry_reasons: Vec<Failure>,
    /// Reason why the Boot did not reach its Snapshot. All Runs of the Boot then failed.
    pub failure: Option<Failure>,
}

impl Boot {
    /// Boot that did not reach its Snapshot.
    pub fn failed(failure: Failure) -> Boot {
        Boot { failure: Some(failure), ..Boot::default() }
    }
}

/// Counts of one function in one Context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileLine {
    pub context: Context,
    /// Symbol, `[user]` or `[kernel]`.
    pub function: String,
    /// Counts of the function itself, without its callees.
    pub counts: Counts,
}

/// Accesses of one function to one model-specific register (MSR).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MsrLine {
    pub context: Context,
    /// [`Costly::Wrmsr`] or [`Costly::Rdmsr`].
    pub kind: Costly,
    pub msr: Msr,
    pub count: u64,
    pub function: String,
}

/// Node of a call tree: a function below its caller, in a Region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    pub context: Context,
    /// Number of callers above the function.
    pub depth: u32,
    /// Symbol; `[user]`; or `[unknown]` if the function was called before the Region.
    pub function: String,
    pub calls: u64,
    /// Counts without callees: instructions, REP iterations, costly instructions, time that CPUs
    /// waited, and time that a CPU was idle after its process had left the CPU in this path.
    pub counts: Counts,
}

/// Counts of one Region by function: `boots/NNN-side/runs/ROW.profile.tsv`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Functions, sorted by Context, then by name.
    pub lines: Vec<ProfileLine>,
    /// Accesses to model-specific registers, if the plugin API of QEMU can read registers.
    pub msrs: Vec<MsrLine>,
    /// Cache lines with transfers, by the model of coherence; those with most transfers first.
    pub cache_lines: Vec<CacheLine>,
    /// Call paths: a caller before its callees, callees sorted by name.
    pub paths: Vec<Path>,
}

/// Time of one of several CPUs, by activity, in instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuTime {
    /// Time of executing instructions.
    pub work: u64,
    /// Time of waiting for another CPU: the rest of a slice after a PAUSE.
    pub wait: u64,
    /// Time of being halted.
    pub idle: u64,
    /// Sum of the differences between the CPU's slices and the longest slice of their rounds. In
    /// results of older releases this time is part of `idle`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub uneven: u64,
}

/// Work of several CPUs in a Region. In a round each CPU executes one slice; the round is as long
/// as its longest slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParallelWork {
    /// Times of each CPU, which add up to the makespan.
    pub cpus: Vec<CpuTime>,
    /// Sum of the lengths of all rounds, in instructions.
    pub makespan: u64,
    pub rounds: u64,
    /// Number of slices that ended because the CPU had used its quantum.
    pub kicks: u64,
    /// Hash over the executed instructions, their order and their CPUs.
    pub trace: String,
    /// Number of transfers of a cache line between CPUs, by the model of coherence.
    #[serde(rename = "model_transfers", default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u64>,
}

impl ParallelWork {
    /// Sum of the times of all CPUs.
    pub fn sum(&self) -> CpuTime {
        self.cpus.iter().fold(CpuTime::default(), |sum, cpu| CpuTime {
            work: sum.work.saturating_add(cpu.work),
            wait: sum.wait.saturating_add(cpu.wait),
            idle: sum.idle.saturating_add(cpu.idle),
            uneven: sum.uneven.saturating_add(cpu.uneven),
        })
    }

    /// True if the times of each CPU add up to the makespan.
    pub fn is_consistent(&self) -> bool {
        let time = |cpu: &CpuTime| {
            cpu.work.checked_add(cpu.wait)?.checked_add(cpu.idle)?.checked_add(cpu.uneven)
        };
        self.cpus.iter().all(|cpu| time(cpu) == Some(self.makespan))
    }
}

named_enum! {
    /// Activity of one of several CPUs when its last slice ended.
    pub enum CpuActivity {
        Work = "work",
        Wait = "wait",
        Idle = "idle",
    }
}

/// Activity and function of one of several CPUs when the time limit was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CpuPosition {
    pub cpu: u32,
    #[serde(rename = "doing")]
    pub activity: CpuActivity,
    pub function: String,
}

impl CpuPosition {
    /// True if the CPU executed instructions, and neither waited nor was idle.
    pub fn is_working(&self) -> bool {
        self.activity == CpuActivity::Work
    }
}

/// Places of all CPUs, as the end of a sentence.
pub(super) fn places_text(cpus: &[CpuPosition]) -> String {
    let waiting = cpus.iter().filter(|cpu| cpu.activity == CpuActivity::Wait).count();
    let is_deadlock = waiting > 1 && !cpus.iter().any(CpuPosition::is_working);
    let describe = |position: &CpuPosition| {
        let verb = match position.activity {
            CpuActivity::Work => " executes",
            CpuActivity::Wait if is_deadlock => " in",
            CpuActivity::Wait => " waits in",
            CpuActivity::Idle => return format!("CPU {} is idle", position.cpu),
        };
        format!("CPU {}{verb} {}", position.cpu, position.function)
    };
    let positions = cpus.iter().map(describe).collect::<Vec<_>>().join(", ");
    match (is_deadlock, cpus) {
        (_, []) => String::new(),
        (true, _) => format!("; its CPUs wait for each other: {positions}"),
        (false, _) => format!(": {positions}"),
    }
}

/// One Run on the running kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeSample {
    pub signature: Signature,
    /// Measured values: times, faults, counters. Names have the unit.
    pub values: Signature,
}

/// Row that was run several times, each time in a new process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeRow {
    pub workload: Workload,
    pub samples: Vec<NativeSample>,
    /// Reason why fewer Runs were made than planned.
    pub failure: Option<Failure>,
    /// Counters that this machine does not have, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uncounted: BTreeMap<String, String>,
    /// Summary for each column of the table; `None` if the Samples lack the column.
    pub cells: Vec<Option<Summary>>,
}

/// Several values of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Middle value, or for an even number the mean of the middle two.
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
    /// Name in JSON and in workload definitions.
    pub name: String,
    pub heading: String,
    /// Unit of the values; empty for a ratio.
    pub unit: String,
}

/// Workload on the running kernel: the result of `ktax workloads run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeTable {
    pub workload: String,
    /// One line for people.
    pub title: String,
    pub operation: String,
    /// Result in the format of the benchmark that the workload reproduces.
    pub original: Option<String>,
    /// `uname -r` of the running kernel.
    pub release: String,
    /// Name of the CPU; empty in results of older releases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu: String,
    /// Number of CPUs that the process may use.
    pub cpus: usize,
    /// Columns derived from the Samples.
    pub columns: Vec<NativeColumn>,
    /// Rows, one for each combination of parameters.
    pub rows: Vec<NativeRow>,
    /// Growth of times with a parameter, if the rows have enough values of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
}

/// Counter of the kernel for a command. Headline counters may be followed by counters for a part of
/// the headline's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatCounter {
    pub name: &'static str,
    /// Name on the screen.
    pub title: &'static str,
    /// Unit in files. The screen shows milliseconds for ns.
    pub unit: &'static str,
    /// False if the counter is for a part of the headline's events.
    pub is_headline: bool,
}

const fn headline(name: &'static str, title: &'static str, unit: &'static str) -> StatCounter {
    StatCounter { name, title, unit, is_headline: true }
}

const fn part(name: &'static str, title: &'static str, unit: &'static str) -> StatCounter {
    StatCounter { name, title, unit, is_headline: false }
}

/// All counters of `perf_event_open`, in the order of the table.
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

/// Elapsed time, which is measured without `perf_event_open`; the last row of the table.
pub const ELAPSED: StatCounter = headline("elapsed", "time elapsed (msecs)", "ns");

/// Value of a StatCounter for one run of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum StatCount {
    /// Value. It is extrapolated if the counter was active for less than 100 % of the CPU time.
    Measured {
        /// In the StatCounter's unit.
        value: f64,
        /// Share of the command's CPU time in which the counter was active.
        counted_percent: f64,
    },
    /// Reason why the counter has no value, with the next step.
    Missing(String),
}

/// Values of one run of a command, by the StatCounter's name.
pub type StatCounts = BTreeMap<&'static str, StatCount>;

/// Command that was run several times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatCommand {
    /// Program and arguments.
    pub words: Vec<String>,
    /// Descriptions of how runs failed.
    pub failures: Vec<String>,
}

/// Interval of the median of repeated values, by its order statistics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MedianInterval {
    pub low: f64,
    pub high: f64,
    /// Coverage probability in percent, at least 95 %.
    pub level_percent: f64,
}

/// Values of one StatCounter over the runs of one command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeats {
    /// Values in the order of the runs.
    pub values: Vec<f64>,
    /// Values in ascending order.
    pub sorted: Vec<f64>,
    pub mean: f64,
    /// Middle value, or for an even number the mean of the middle two.
    pub median: f64,
    /// Difference between largest and smallest value, in percent of the smallest. `None` for fewer
    /// than two values, and if the smallest is 0.
    pub spread_percent: Option<f64>,
    /// Interval of the median; `None` for fewer than six values.
    pub interval: Option<MedianInterval>,
    /// Smallest share of a run's CPU time in which the counter was active.
    pub counted_percent: f64,
}

/// Comparison of two commands by the pairs of their runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatChange {
    /// Difference of the second command from the first, in percent of the first.
    pub percent: f64,
    /// 95 % confidence interval; `None` for fewer than six pairs.
    pub interval_percent: Option<[f64; 2]>,
}

/// Row of one StatCounter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatRow {
    /// [`StatCounter::name`].
    pub counter: String,
    /// [`StatCounter::unit`].
    pub unit: String,
    /// Values of each command; empty if a command has no values.
    pub repeats: Vec<Repeats>,
    /// Reason why a command has no values, with the next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncounted: Option<String>,
    /// Difference of the second command from the first; `None` for one command, and if a value is
    /// 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<StatChange>,
}

/// Result of `ktax stat`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatTable {
    /// `uname -r` of the running kernel.
    pub release: String,
    /// Number of CPUs that the process may use.
    pub cpus: usize,
    /// One command, or base and change.
    pub commands: Vec<StatCommand>,
    /// Number of runs of each command.
    pub runs: usize,
    /// Seed of the order within the pairs; absent for one command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Rows in the order of [`STAT_COUNTERS`].
    pub rows: Vec<StatRow>,
}
