use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{
    Bisection, CalibrationTable, Comparison, ExitPair, ExitTable, FORMAT, History, LedgerTable,
    NativeTable, StatTable, Validation,
};

/// A result with what a reader needs to know of it, as `plan.json` says it of a Plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// [`FORMAT`].
    pub format: u32,
    /// What tells it from others beside it; empty where there are none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The answer in a sentence, as a report begins with it; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub headline: String,
    /// The run directory that it was read from, which also has profiles.
    #[serde(skip)]
    pub dir: Option<PathBuf>,
    /// The result.
    pub result: SavedResult,
}

/// A result of any kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SavedResult {
    /// `comparison.json`
    Comparison(Box<Comparison>),
    /// `bisection.json`
    Bisection(Box<Bisection>),
    /// `ledger.json`
    Ledger(Box<LedgerTable>),
    /// What `ktax stat --json` prints.
    Stat(Box<StatTable>),
    /// What `ktax workloads run --json` prints.
    Native(Box<NativeTable>),
    /// What `ktax exits record --out` writes.
    Exits(Vec<ExitTable>),
    /// What `ktax exits diff --json` prints.
    ExitDiff(Box<ExitPair>),
    /// What `ktax history --json` prints.
    History(Box<History>),
    /// What `ktax calibrate --json` prints.
    Calibration(Box<CalibrationTable>),
    /// What `ktax validate --json` prints.
    Validation(Box<Validation>),
}

impl From<SavedResult> for Saved {
    /// Without a name and a headline.
    fn from(result: SavedResult) -> Saved {
        Saved { format: FORMAT, name: String::new(), headline: String::new(), dir: None, result }
    }
}
