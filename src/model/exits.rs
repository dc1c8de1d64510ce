use serde::{Deserialize, Serialize};

use super::Warning;

/// What a vCPU's time went to, by the reason for which it left the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExitTable {
    /// [`super::FORMAT`].
    pub format: u32,
    /// What it says it is of: a path, a VM; empty where nothing is said.
    pub of: String,
    /// Who counted: `e500 timing`, `book3s HV timings`.
    pub source: String,
    /// In the source's order.
    pub rows: Vec<ExitRow>,
    /// Facts to know.
    pub warnings: Vec<Warning>,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// All together, ns.
    pub sum_ns: u64,
    /// The sum of the squares, ns²; nothing where the source has none that can be used.
    pub squares_ns2: Option<u128>,
}

impl ExitTable {
    /// All rows together, ns: where nothing is missing, the time that was looked at.
    pub fn sum_ns(&self) -> u64 {
        self.rows.iter().map(|row| row.sum_ns).fold(0, u64::saturating_add)
    }

    /// The row of a reason.
    pub fn row(&self, reason: &str) -> Option<&ExitRow> {
        self.rows.iter().find(|row| row.reason == reason)
    }
}
