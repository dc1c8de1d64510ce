use serde::{Deserialize, Serialize};

use super::Warning;

/// What a vCPU's time went to, by the reason for which it left the guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitTable {
    /// What it says it is of: a path, a VM; empty where nothing is said.
    pub of: String,
    /// Who counted: `e500 timing`, `book3s HV timings`.
    pub source: String,
    /// What one row of it is.
    #[serde(default, skip_serializing_if = "ExitRows::are_reasons")]
    pub rows_are: ExitRows,
    /// In the source's order.
    pub rows: Vec<ExitRow>,
    /// Events that were not recorded, so that a part of the table is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingEvents>,
    /// Facts to know.
    pub warnings: Vec<Warning>,
    /// How long was recorded, ns, however many vCPUs there are: what rates are of. Nothing where
    /// the source does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// What a recorder says of itself; a file that a kernel wrote has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<ExitAccount>,
}

/// What the rows of an exit table are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitRows {
    /// Reasons for which the guest was left: each exit is in one row.
    #[default]
    Reasons,
    /// Phases of the way out of the guest and back: one exit is in several rows.
    Phases,
    /// Addresses, ports, registers or calls that the guest used: not every exit is in a row.
    Accesses,
}

impl ExitRows {
    fn are_reasons(&self) -> bool {
        *self == ExitRows::Reasons
    }
}

/// Events that a source lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissingEvents {
    /// Which events.
    pub events: ExitEvents,
    /// How to record them: the sentence begins with a verb and has no full stop.
    pub next_step: String,
}

/// Kinds of events that make an exit table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitEvents {
    /// Entries into the guest: without them no time is known.
    Entries,
    /// Task switches: without them nobody knows whether a vCPU ran or slept.
    Scheduling,
}

/// Two exit tables that are compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitPair {
    /// Before.
    pub base: ExitTable,
    /// After.
    pub change: ExitTable,
    /// Whether counts and times are compared as they are, because both did the same work, and not
    /// for each second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub totals: bool,
}

/// What a guest's time went to while it did something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitRun {
    /// What it did.
    pub row: String,
    /// Where its time went.
    pub table: ExitTable,
    /// How long the work took by the guest's clock, ns; nothing where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_ns: Option<u64>,
    /// How long the same took on the host itself, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_ns: Option<u64>,
}

/// Whether a recording is whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitAccount {
    /// From each vCPU's first entry or exit to its end or the recording's, all together, ns.
    pub wall_ns: u64,
    /// What had begun and not ended.
    pub open: Vec<OpenExit>,
    /// Events that are in no row.
    pub lost: u64,
    /// Exits after an exit and entries after an entry.
    pub unpaired: u64,
    /// Task switches and wakeups of the whole machine that were not seen: one of a vCPU's can move
    /// time between the four parts of one row, until the vCPU's next event, and no more.
    pub missed_switches: u64,
    /// What the recorder itself took; nothing where nobody counts it.
    pub recorder: Option<RecorderCost>,
}

/// What had not ended when the recording did; it is in no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenExit {
    /// What it is: an exit's reason, or the guest.
    pub reason: String,
    /// So far, ns.
    pub ns: u64,
}

/// How long the recorder's programs run, ns, on average over those that were timed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecorderCost {
    /// At an exit and the entry after it.
    pub exit_ns: u64,
    /// At one task switch or wakeup of the machine.
    pub switch_ns: u64,
}

/// Where a row's time went; the parts add up to its sum, ns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitParts {
    /// In the kernel on a CPU; of the guest's row, in the guest. Without scheduling events also
    /// what a vCPU waited for a page or a CPU.
    pub kernel_ns: u64,
    /// In the VMM.
    pub user_ns: u64,
    /// Asleep in the kernel: a halted vCPU, or one that waits for a page. `None` without scheduling
    /// events.
    pub halted_ns: Option<u64>,
    /// Ready to run, without a CPU. `None` without scheduling events.
    pub preempted_ns: Option<u64>,
    /// In the kernel, halted or on a CPU: nobody knows without scheduling events.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_ns: u64,
}

impl ExitParts {
    /// Halted, preempted, and unknown or halted, ns.
    pub fn waits_ns(&self) -> [u64; 3] {
        [self.halted_ns.unwrap_or(0), self.preempted_ns.unwrap_or(0), self.unknown_ns]
    }
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// One reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitRow {
    /// The kernel's name, or its number.
    pub reason: String,
    /// Whether it is the time in the guest, from an entry to the next exit, and no exit's.
    pub is_guest: bool,
    /// How often.
    pub count: u64,
    /// The shortest, ns; nothing where there was none.
    pub least_ns: Option<u64>,
    /// The longest, ns.
    pub most_ns: Option<u64>,
    /// All together, ns; nothing where no time was measured.
    pub sum_ns: Option<u64>,
    /// The sum of the squares, ns²; nothing where the source has none that can be used.
    pub squares_ns2: Option<u128>,
    /// The median, to an eighth of itself, ns; nothing where only sums are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// What one in a hundred is longer than, to an eighth of itself, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// Nothing where only sums are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<ExitParts>,
    /// Which of KVM's counters it is; nothing where it is a reason to leave the guest, or the time
    /// in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<ExitCounter>,
}

/// A counter of KVM that is not the number of exits for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCounter {
    /// All exits, whatever their reason.
    AllExits,
    /// Something that is no exit: an emulated instruction, a flush, a halt.
    Other,
}

impl ExitCounter {
    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            ExitCounter::AllExits => "all-exits",
            ExitCounter::Other => "other",
        }
    }
}

impl ExitRow {
    /// Whether it is a reason to leave the guest.
    pub fn is_reason(&self) -> bool {
        !self.is_guest && self.counter.is_none()
    }

    /// Whether its time was measured: KVM's statistics count more than they time.
    pub fn is_timed(&self) -> bool {
        self.time_ns() > 0 || self.most_ns.is_some()
    }

    /// All together, ns; 0 where no time was measured.
    pub fn time_ns(&self) -> u64 {
        self.sum_ns.unwrap_or(0)
    }
}

impl ExitAccount {
    /// All that had not ended, ns.
    pub fn open_ns(&self) -> u64 {
        self.open.iter().map(|open| open.ns).fold(0, u64::saturating_add)
    }
}

/// The phase in which POWER9 and POWER8 come from the guest.
const EXIT_PHASES: [&str; 2] = ["guest_exit", "rm_intr"];

impl ExitTable {
    /// All rows together, ns: where nothing is missing, the time that was looked at.
    pub fn sum_ns(&self) -> u64 {
        self.rows.iter().map(ExitRow::time_ns).fold(0, u64::saturating_add)
    }

    /// How long was recorded, s; nothing where that is not known.
    pub fn elapsed_s(&self) -> Option<f64> {
        self.elapsed_ns.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9)
    }

    /// How often the guest was left: what KVM counted, if it counts all exits, and otherwise the
    /// sum of the reasons. One exit has several phases, and is counted by one of them.
    pub fn exits(&self) -> u64 {
        if self.rows_are == ExitRows::Phases {
            return self.exit_phase().map_or(0, |row| row.count);
        }
        let sum = |of: fn(&ExitRow) -> bool| {
            let rows = self.rows.iter().filter(|row| of(row)).map(|row| row.count);
            rows.reduce(u64::saturating_add)
        };
        let counted = sum(|row| row.counter == Some(ExitCounter::AllExits));
        counted.or_else(|| sum(ExitRow::is_reason)).unwrap_or(0)
    }

    /// Whether the time of its exits was measured; KVM's statistics have only that of halts.
    pub fn is_timed(&self) -> bool {
        self.rows.iter().any(|row| row.counter.is_none() && row.is_timed())
    }

    /// The phase that each exit has once; where the file has none, the time in the guest.
    pub fn exit_phase(&self) -> Option<&ExitRow> {
        let named = EXIT_PHASES.iter().find_map(|name| self.row(name));
        named.or_else(|| self.rows.iter().find(|row| row.is_guest))
    }

    /// Whether it lacks such events.
    pub fn lacks(&self, events: ExitEvents) -> bool {
        self.missing.iter().any(|missing| missing.events == events)
    }

    /// The row of a reason.
    pub fn row(&self, reason: &str) -> Option<&ExitRow> {
        self.rows.iter().find(|row| row.reason == reason)
    }
}
