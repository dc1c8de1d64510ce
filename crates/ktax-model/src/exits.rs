//! Exit tables: the time of vCPUs by the reason for which they left the guest.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Warning, is_default};

/// Time of vCPUs, by the reason for which they left the guest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitTable {
    /// Path or VM; empty if nothing is known.
    pub of: String,
    /// Name of the counters: `e500 timing`, `book3s HV timings`.
    pub source: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub rows_are: ExitRows,
    /// In the source's order.
    pub rows: Vec<ExitRow>,
    /// Events that were not recorded, so that a part of the table is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingEvents>,
    pub warnings: Vec<Warning>,
    /// Length of the recording, ns, however many vCPUs there are; rates refer to it. `None` if
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// Account of a recorder about itself; `None` for a file that a kernel wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<ExitAccount>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExitRows {
    /// Reasons for leaving the guest: each exit is in one row.
    #[default]
    Reasons,
    /// Phases of the way out of the guest and back: one exit is in several rows.
    Phases,
    /// Addresses, ports, registers or calls of the guest: not every exit is in a row.
    Accesses,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MissingEvents {
    pub events: ExitEvents,
    /// Next step to record them: the sentence begins with a verb and has no full stop.
    pub next_step: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExitEvents {
    /// Entries into the guest: without them no time is known.
    Entries,
    /// Task switches: without them it is unknown if a vCPU ran or slept.
    Scheduling,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitPair {
    pub base: ExitTable,
    pub change: ExitTable,
    /// True if counts and times are compared directly, because both did the same work, and not per
    /// second.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub totals: bool,
}

/// Exit table of a guest while it did something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitRun {
    pub row: String,
    pub table: ExitTable,
    /// Duration of the work by the guest's clock, ns; `None` without a clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest_ns: Option<u64>,
    /// Duration of the same work on the host itself, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_ns: Option<u64>,
}

/// Completeness of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitAccount {
    /// From each vCPU's first entry or exit to its end or the recording's, summed, ns.
    pub wall_ns: u64,
    /// Intervals that had begun and not ended.
    pub open: Vec<OpenExit>,
    /// Events that are in no row.
    pub lost: u64,
    /// Exits after an exit and entries after an entry.
    pub unpaired: u64,
    /// Task switches and wakeups of the whole machine that were missed. One of a vCPU's can move
    /// time between the four parts of one row, until the vCPU's next event.
    pub missed_switches: u64,
    /// Cost of the recorder itself; `None` if not counted.
    pub recorder: Option<RecorderCost>,
}

/// Interval that had not ended when the recording did; it is in no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenExit {
    /// Reason of the exit, or the guest.
    pub reason: String,
    /// Length so far, ns.
    pub ns: u64,
}

/// Run time of the recorder's programs, ns, on average over those that were timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecorderCost {
    /// For an exit and the entry after it.
    pub exit_ns: u64,
    /// For one task switch or wakeup of the machine.
    pub switch_ns: u64,
}

/// Parts of a row's time, which add up to its sum, ns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitParts {
    /// In the kernel on a CPU; for the guest's row, in the guest. Without scheduling events also
    /// the waits of a vCPU for a page or a CPU.
    pub kernel_ns: u64,
    pub user_ns: u64,
    /// Asleep in the kernel: a halted vCPU, or one that waits for a page. `None` without scheduling
    /// events.
    pub halted_ns: Option<u64>,
    /// Ready to run, without a CPU. `None` without scheduling events.
    pub preempted_ns: Option<u64>,
    /// In the kernel, halted or on a CPU: unknown without scheduling events.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unknown_ns: u64,
}

impl ExitParts {
    /// Halted, preempted, and unknown or halted, ns.
    pub fn waits_ns(&self) -> [u64; 3] {
        [self.halted_ns.unwrap_or(0), self.preempted_ns.unwrap_or(0), self.unknown_ns]
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitRow {
    /// Name by the kernel, or number.
    pub reason: String,
    /// True for the time in the guest, from an entry to the next exit.
    pub is_guest: bool,
    pub count: u64,
    /// Smallest duration, ns; absent without any.
    pub least_ns: Option<u64>,
    pub most_ns: Option<u64>,
    /// Sum, ns; absent if no time was measured.
    pub sum_ns: Option<u64>,
    /// Sum of the squares, ns²; absent if the source has none that can be used.
    pub squares_ns2: Option<u128>,
    /// Median, to an eighth of itself, ns; absent if only sums are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 99th percentile, to an eighth of itself, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// Absent if only sums are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<ExitParts>,
    /// Kind of KVM's counter; absent for exit reasons and the time in the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<ExitCounter>,
}

/// A counter of KVM other than the exits for one reason.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCounter {
    /// All exits, whatever their reason.
    AllExits,
    /// Something that is no exit: an emulated instruction, a flush, a halt.
    Other,
}

impl ExitCounter {
    pub fn name(self) -> &'static str {
        match self {
            ExitCounter::AllExits => "all-exits",
            ExitCounter::Other => "other",
        }
    }
}

impl ExitRow {
    /// True for a reason to leave the guest.
    pub fn is_reason(&self) -> bool {
        !self.is_guest && self.counter.is_none()
    }

    /// True if its time was measured: KVM's statistics count more than they time.
    pub fn is_timed(&self) -> bool {
        self.time_ns() > 0 || self.most_ns.is_some()
    }

    pub fn time_ns(&self) -> u64 {
        self.sum_ns.unwrap_or(0)
    }
}

impl ExitAccount {
    /// Sum of the intervals that had not ended, ns.
    pub fn open_ns(&self) -> u64 {
        self.open.iter().map(|open| open.ns).fold(0, u64::saturating_add)
    }
}

/// Phase in which POWER9 and POWER8 come from the guest.
const EXIT_PHASES: [&str; 2] = ["guest_exit", "rm_intr"];

impl ExitTable {
    /// Sum of all rows, ns: the observed time, if nothing is missing.
    pub fn sum_ns(&self) -> u64 {
        self.rows.iter().map(ExitRow::time_ns).fold(0, u64::saturating_add)
    }

    /// Length of the recording, s; `None` if unknown.
    pub fn elapsed_s(&self) -> Option<f64> {
        self.elapsed_ns.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9)
    }

    /// Number of exits: KVM's count of all exits, else the sum of the reasons. One exit has several
    /// phases, and is counted by one of them.
    pub fn exits(&self) -> u64 {
        if self.rows_are == ExitRows::Phases {
            return self.exit_phase().map_or(0, |row| row.count);
        }
        let sum = |is_counted: fn(&ExitRow) -> bool| {
            let rows = self.rows.iter().filter(|row| is_counted(row)).map(|row| row.count);
            rows.reduce(u64::saturating_add)
        };
        let counted = sum(|row| row.counter == Some(ExitCounter::AllExits));
        counted.or_else(|| sum(ExitRow::is_reason)).unwrap_or(0)
    }

    /// True if the time of exits was measured; KVM's statistics have only that of halts.
    pub fn is_timed(&self) -> bool {
        self.rows.iter().any(|row| row.counter.is_none() && row.is_timed())
    }

    /// Phase that each exit has once; else the time in the guest.
    pub fn exit_phase(&self) -> Option<&ExitRow> {
        let named = EXIT_PHASES.iter().find_map(|name| self.row(name));
        named.or_else(|| self.rows.iter().find(|row| row.is_guest))
    }

    pub fn lacks(&self, events: ExitEvents) -> bool {
        self.missing.iter().any(|missing| missing.events == events)
    }

    pub fn row(&self, reason: &str) -> Option<&ExitRow> {
        self.rows.iter().find(|row| row.reason == reason)
    }
}

/// No architecture has a tenth as many. A text with more has addresses among its reasons.
pub const EXIT_REASONS_MAX: usize = 4096;

/// Warnings of all tables, each once.
pub fn exit_warnings<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in tables.into_iter().flat_map(|table| &table.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    warnings
}

/// Refuses exit tables that no recorder writes, wherever they come from.
pub fn check_exits<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Result<()> {
    tables.into_iter().enumerate().try_for_each(|(index, table)| check_table(index + 1, table))
}

fn check_table(number: usize, table: &ExitTable) -> Result<()> {
    if table.rows.len() > EXIT_REASONS_MAX {
        let message = format!("its table {number} has more than {EXIT_REASONS_MAX} reasons");
        return Err(Error::user(message));
    }
    let mut reasons = BTreeSet::new();
    if let Some(ExitRow { reason, .. }) = table.rows.iter().find(|row| !reasons.insert(&row.reason))
    {
        let message = format!("its table {number} has two rows for the reason {reason:?}");
        return Err(Error::user(message));
    }
    let wall_ns = table.account.as_ref().map_or(0, |account| account.wall_ns);
    let rows_ns: u128 = table.rows.iter().map(|row| u128::from(row.time_ns())).sum();
    match wall_ns > 0 && rows_ns > u128::from(wall_ns) {
        true => Err(Error::user(format!(
            "the rows of its table {number} add up to {rows_ns} ns, more than its wall time of \
             {wall_ns} ns"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExitAccount, ExitRow};

    fn faults(rows: &[(&str, u64)], wall_ns: u64) -> Result<(), String> {
        let row = |(reason, sum_ns): &(&str, u64)| ExitRow {
            reason: (*reason).into(),
            count: 1,
            sum_ns: Some(*sum_ns),
            ..ExitRow::default()
        };
        let account = ExitAccount {
            wall_ns,
            open: vec![],
            lost: 0,
            unpaired: 0,
            missed_switches: 0,
            recorder: None,
        };
        let (of, source) = (String::new(), "a test".to_owned());
        let (rows, warnings) = (rows.iter().map(row).collect(), vec![]);
        let account = Some(account);
        let table = ExitTable { of, source, rows, warnings, account, ..ExitTable::default() };
        check_exits([&table]).map_err(|error| error.to_string())
    }

    #[test]
    fn rows_longer_than_the_wall_time_are_refused() {
        assert_eq!(faults(&[("IO", 60), ("HLT", 40)], 100), Ok(()));
        let rows_ns = u128::from(u64::MAX) + 40;
        let fault = format!(
            "the rows of its table 1 add up to {rows_ns} ns, more than its wall time of 100 ns"
        );
        assert_eq!(faults(&[("IO", u64::MAX), ("HLT", 40)], 100), Err(fault));
    }

    #[test]
    fn a_reason_that_is_there_twice_is_refused() {
        let fault = "its table 1 has two rows for the reason \"IO\"".to_owned();
        assert_eq!(faults(&[("IO", 6), ("IO", 4)], 100), Err(fault));
    }

    #[test]
    fn more_reasons_than_any_architecture_has_are_refused() {
        let names: Vec<String> = (0..=EXIT_REASONS_MAX).map(|number| number.to_string()).collect();
        let rows: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        assert_eq!(faults(&rows[1..], 0), Ok(()));
        assert_eq!(faults(&rows, 0), Err("its table 1 has more than 4096 reasons".to_owned()));
    }
}
