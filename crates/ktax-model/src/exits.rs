//! Exit tables: the time of vCPUs by the reason for which they left the guest.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Warning, is_default};

/// Table of exits: the time of vCPUs by exit reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitTable {
    /// Name of the recorded VM, or path of the recording; empty if unknown.
    #[serde(rename = "of")]
    pub name: String,
    /// Name of the data source: `e500 timing`, `book3s HV timings`.
    pub source: String,
    #[serde(default, skip_serializing_if = "is_default")]
    pub rows_are: ExitRows,
    /// Rows in the order of the source.
    pub rows: Vec<ExitRow>,
    /// Kinds of events that were not recorded. A part of the table is then unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingEvents>,
    pub warnings: Vec<Warning>,
    /// Length of the recording in real time, ns. Rates are per second of this time. `None` if
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ns: Option<u64>,
    /// Completeness of the recording; `None` for files that a kernel wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<ExitAccount>,
}

/// Meaning of the rows of an exit table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExitRows {
    /// Exit reasons: each exit is in one row.
    #[default]
    Reasons,
    /// Phases of an exit and of the next entry: one exit is in several rows.
    Phases,
    /// Accesses by address, port, register or hypercall: some exits are in no row.
    Accesses,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MissingEvents {
    /// Kind of the events that were not recorded.
    pub events: ExitEvents,
    /// Next step to record the events: a sentence that begins with a verb, without a full stop.
    pub next_step: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExitEvents {
    /// Entries into the guest. Without entries, no times are known.
    Entries,
    /// Task switches. Without task switches, running and sleeping vCPUs look the same.
    Scheduling,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitPair {
    pub base: ExitTable,
    pub change: ExitTable,
    /// True if both recordings have the same work, so that totals are compared and not rates.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub totals: bool,
}

/// Exit table of a guest while it did the work of one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitRun {
    pub row: String,
    pub table: ExitTable,
    /// Duration of the work by the guest's clock, ns; `None` if the guest has no clock.
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
    /// Observed time, summed over the vCPUs, ns: from a vCPU's first event to its end, or to the
    /// end of the recording.
    pub wall_ns: u64,
    /// Intervals that the end of the recording cut off.
    pub open: Vec<OpenExit>,
    /// Number of events that were lost, and so are in no row.
    pub lost: u64,
    /// Number of exits that follow an exit, and of entries that follow an entry.
    pub unpaired: u64,
    /// Number of lost task switches and wakeups of the whole machine. If a lost one concerns a
    /// vCPU, time is in the wrong one of the four parts of a row until the vCPU's next event.
    pub missed_switches: u64,
    /// Cost of the recorder itself; `None` if it was not measured.
    pub recorder: Option<RecorderCost>,
}

/// Interval that the end of the recording cut off; it is in no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenExit {
    /// Exit reason, or the name of the guest's row.
    pub reason: String,
    /// Length until the end of the recording, ns.
    pub ns: u64,
}

/// Average run time of the recorder's eBPF programs, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecorderCost {
    /// For an exit and the next entry.
    pub exit_ns: u64,
    /// For one task switch or wakeup.
    pub switch_ns: u64,
}

/// Parts of a row's time, ns. Their sum is `sum_ns` of the row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitParts {
    /// Running in the kernel; for the guest's row, running in the guest. Without scheduling events,
    /// waits for a page or a CPU are included.
    pub kernel_ns: u64,
    /// Running in user space.
    pub user_ns: u64,
    /// Asleep in the kernel: the vCPU is halted, or waits for a page. `None` without scheduling
    /// events.
    pub halted_ns: Option<u64>,
    /// Runnable without a CPU. `None` without scheduling events.
    pub preempted_ns: Option<u64>,
    /// In the kernel, either halted or running: without scheduling events this is unknown.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unknown_ns: u64,
}

impl ExitParts {
    /// `halted_ns`, `preempted_ns` and `unknown_ns`, with 0 for `None`.
    pub fn waits_ns(&self) -> [u64; 3] {
        [self.halted_ns.unwrap_or(0), self.preempted_ns.unwrap_or(0), self.unknown_ns]
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExitRow {
    /// The kernel's name of the exit reason, or its number.
    pub reason: String,
    /// True for the row with the time in the guest, from an entry to the next exit.
    pub is_guest: bool,
    pub count: u64,
    /// Smallest duration, ns; absent if no duration was measured.
    pub least_ns: Option<u64>,
    /// Largest duration, ns; absent if no duration was measured.
    pub most_ns: Option<u64>,
    /// Sum of the durations, ns; absent if no duration was measured.
    pub sum_ns: Option<u64>,
    /// Sum of the squared durations, ns²; absent if the source has no usable sum.
    pub squares_ns2: Option<u128>,
    /// Median duration, ns, with an error of at most 1/8; absent if only sums are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 99th percentile of the durations, ns, with an error of at most 1/8; absent if only sums are
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// Parts of `sum_ns`; absent if only sums are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<ExitParts>,
    /// Set if the row is a counter of KVM other than an exit reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<ExitCounter>,
}

/// Counters of KVM that are not exit reasons.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCounter {
    /// Number of all exits.
    AllExits,
    /// Number of events that are not exits: emulated instructions, flushes, halts.
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
    /// True for an exit reason.
    pub fn is_reason(&self) -> bool {
        !self.is_guest && self.counter.is_none()
    }

    /// True if the row's time was measured. KVM's statistics have times for few counters.
    pub fn is_timed(&self) -> bool {
        self.time_ns() > 0 || self.most_ns.is_some()
    }

    pub fn time_ns(&self) -> u64 {
        self.sum_ns.unwrap_or(0)
    }
}

impl ExitAccount {
    /// Sum of the intervals that the end of the recording cut off, ns.
    pub fn open_ns(&self) -> u64 {
        self.open.iter().map(|open| open.ns).fold(0, u64::saturating_add)
    }
}

/// First phase of an exit on POWER9 and on POWER8.
const EXIT_PHASES: [&str; 2] = ["guest_exit", "rm_intr"];

impl ExitTable {
    /// Sum of the time of all rows, ns.
    pub fn sum_ns(&self) -> u64 {
        self.rows.iter().map(ExitRow::time_ns).fold(0, u64::saturating_add)
    }

    /// Length of the recording, s; `None` if unknown.
    pub fn elapsed_s(&self) -> Option<f64> {
        self.elapsed_ns.filter(|ns| *ns > 0).map(|ns| ns as f64 / 1e9)
    }

    /// Number of exits: KVM's count of all exits, else the sum over the exit reasons. In a table of
    /// phases, the count of [`ExitTable::exit_phase`].
    pub fn exits(&self) -> u64 {
        if self.rows_are == ExitRows::Phases {
            return self.exit_phase().map_or(0, |row| row.count);
        }
        let sum = |is_counted: fn(&ExitRow) -> bool| {
            let rows = self.rows.iter().filter(|row| is_counted(row)).map(|row| row.count);
            rows.reduce(u64::saturating_add)
        };
        let all_exits = sum(|row| row.counter == Some(ExitCounter::AllExits));
        all_exits.or_else(|| sum(ExitRow::is_reason)).unwrap_or(0)
    }

    /// True if times of exits were measured. KVM's statistics have times of halts alone.
    pub fn is_timed(&self) -> bool {
        self.rows.iter().any(|row| row.counter.is_none() && row.is_timed())
    }

    /// Row of a phase that each exit passes once; without such a phase, the guest's row.
    pub fn exit_phase(&self) -> Option<&ExitRow> {
        let named = EXIT_PHASES.iter().find_map(|name| self.row(name));
        named.or_else(|| self.rows.iter().find(|row| row.is_guest))
    }

    /// True if events of this kind were not recorded.
    pub fn is_missing(&self, events: ExitEvents) -> bool {
        self.missing.iter().any(|missing| missing.events == events)
    }

    pub fn row(&self, reason: &str) -> Option<&ExitRow> {
        self.rows.iter().find(|row| row.reason == reason)
    }
}

/// Maximum number of rows of a table. Architectures have fewer than 400 exit reasons; a text with
/// more rows has addresses in its reasons.
pub const MAX_EXIT_REASONS: usize = 4096;

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

/// Refuses exit tables whose rows are too many, ambiguous, or longer than the recording.
pub fn check_exits<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> Result<()> {
    tables.into_iter().enumerate().try_for_each(|(index, table)| check_table(index + 1, table))
}

fn check_table(number: usize, table: &ExitTable) -> Result<()> {
    if table.rows.len() > MAX_EXIT_REASONS {
        let message = format!("its table {number} has more than {MAX_EXIT_REASONS} reasons");
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
        let (name, source) = (String::new(), "a test".to_owned());
        let (rows, warnings) = (rows.iter().map(row).collect(), vec![]);
        let account = Some(account);
        let table = ExitTable { name, source, rows, warnings, account, ..ExitTable::default() };
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
    fn two_rows_for_one_reason_are_refused() {
        let fault = "its table 1 has two rows for the reason \"IO\"".to_owned();
        assert_eq!(faults(&[("IO", 6), ("IO", 4)], 100), Err(fault));
    }

    #[test]
    fn too_many_reasons_are_refused() {
        let names: Vec<String> = (0..=MAX_EXIT_REASONS).map(|number| number.to_string()).collect();
        let rows: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        assert_eq!(faults(&rows[1..], 0), Ok(()));
        assert_eq!(faults(&rows, 0), Err("its table 1 has more than 4096 reasons".to_owned()));
    }
}
