use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Sides;
use super::workload::is_zero;

/// What a program of the user's did in a Region, as counted from outside: its work signature.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramWork {
    /// System calls by name; `other` are those that no function of the kernel served.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub system_calls: BTreeMap<String, u64>,
    /// Reads of the time-stamp counter in user mode: the vDSO reads it for `clock_gettime`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clock_reads: u64,
    /// Page faults, also those that the kernel took for the program.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub page_faults: u64,
    /// Processes and threads that it started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub forks: u64,
    /// Programs that it executed; its own exec is one of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub execs: u64,
    /// Bytes that its system calls read and wrote, where the kernel accounts for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<TransferredBytes>,
}

/// Bytes that system calls moved, from a program's exec to its exit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferredBytes {
    /// `rchar` of `/proc/PID/io`.
    pub read: u64,
    /// `wchar` of it.
    pub written: u64,
}

impl ProgramWork {
    /// All system calls.
    pub fn all_system_calls(&self) -> u64 {
        self.system_calls.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// One kind of work of which the Sides did not do as much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkDifference {
    /// The name of a system call, or `clock reads`, `page faults`, `forks`, `execs`,
    /// `bytes read`, `bytes written`.
    pub what: String,
    /// Whether it is a system call or a read of the clock: those are what a program asked for.
    pub is_request: bool,
    /// How much each Side did, in the headline's Layout.
    pub count: Sides<u64>,
}

/// Operations that a program counts itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedOperations {
    /// What it printed on each Side, in the headline's Layout.
    pub count: Sides<u64>,
    /// The suite that was known by what it prints; absent where the user says where it prints them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<String>,
}

/// What a program did on both Sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkEvidence {
    /// In the headline's Layout.
    pub sides: Sides<ProgramWork>,
    /// What differs by more than Layouts of one Side differ, the largest difference first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<WorkDifference>,
}

impl WorkEvidence {
    /// The system calls and reads of the clock that differ.
    pub fn requests(&self) -> impl Iterator<Item = &WorkDifference> + Clone {
        self.differences.iter().filter(|difference| difference.is_request)
    }

    /// By how much they differ, in percent of what the base asked for.
    pub fn requests_differ_percent(&self) -> f64 {
        let differing = self.requests().map(|one| one.count.base.abs_diff(one.count.change));
        let differing: u64 = differing.fold(0, u64::saturating_add);
        let all = self.sides.base.all_system_calls().saturating_add(self.sides.base.clock_reads);
        100.0 * differing as f64 / all.max(1) as f64
    }
}
