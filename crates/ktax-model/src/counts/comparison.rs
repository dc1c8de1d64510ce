use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::effect::Effect;
use super::super::{
    CacheLine, CountedOperations, CpuTime, Disk, Estimate, Growth, Identity, Key, PrintedEnd,
    Sides, Signature, Subject, UserProgram, WaitStack, WorkEvidence,
};

/// What exact counts say of a row.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsEvidence {
    /// The Metric that decided: the first in process context that changed, else the headline; empty
    /// where the row failed or the work differed.
    pub decided_by: String,
    /// The headline first; empty where the row failed.
    pub effects: Vec<Effect>,
    /// What each Side's guest saw beside its work, in the headline's Layout: page faults, context
    /// switches; and the numbers that a program of the user's printed. Absent where the row failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Sides<Signature>>,
    /// The operations of a program that counts them itself. Counts of a Side that did not do as
    /// many as the row has (`ops`) are scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<CountedOperations>,
    /// What a program of the user's did. Absent where the row failed, and of other rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkEvidence>,
    /// The end of what each Side's program printed, where they did not print the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Sides<PrintedEnd>>,
    /// Of several CPUs: what they waited for each other in each function, in instructions of the
    /// Region, in the Layout with the median makespan. All Contexts; absent where the row failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Sides<BTreeMap<String, u64>>>,
    /// What was executed in these functions and in those of the other Side's waits, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executed_there: Option<Sides<BTreeMap<String, u64>>>,
    /// Where the time of all CPUs together went in that Layout, each Side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Sides<CpuTime>>,
    /// From where the functions are called in which CPUs wait for each other, in that Layout: those
    /// where they wait most, all Contexts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wait_stacks: Vec<WaitStack>,
    /// Where processes were when they left CPUs that were idle then, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_stacks: Vec<WaitStack>,
    /// By the model of coherence: the cache lines that travelled most in the Region, in the Layout
    /// with the median difference of transfers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_lines: Option<Sides<Vec<CacheLine>>>,
    /// What a machine would take, by its Calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
    /// The rows of two sizes of a program that this row is computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<OfSizes>,
}

/// Two sizes of a program, the smaller one first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfSizes {
    /// The names of their rows.
    pub rows: [String; 2],
    /// The sizes.
    pub sizes: [u64; 2],
}

/// What was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subjects {
    /// As it was asked for.
    pub subject: Subject,
    /// What the Kernel is.
    pub kernel: Identity,
}

/// What exact counts say of all rows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountsComparison {
    /// What the counts compare with.
    pub key: Key,
    /// The two Subjects.
    pub subjects: Sides<Subjects>,
    /// Layouts per Side.
    pub layouts: usize,
    /// What they were drawn from.
    pub seed: u64,
    /// The file system of the guest's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// The kernels' names of the code that computes crc32c for a disk, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crc32c: Vec<String>,
    /// The programs of the user's, of which each is a row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<UserProgram>,
    /// What runs beside rows that are no programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<UserProgram>,
    /// The directory of the user's workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads_from: Option<String>,
    /// How costs grow with a size, where the rows say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<Growth>,
}
