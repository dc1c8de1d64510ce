use crate::model::{Bisection, Comparison, ExitTable, LedgerTable, NativeTable, Sides, StatTable};
use crate::report::exits::{ExitDiff, ExitTables};
use crate::report::view::{Records, Report, View};

/// A result of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Saved {
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
    ExitDiff(Box<Sides<ExitTable>>),
}

impl Saved {
    fn with<T>(&self, of: impl FnOnce(&dyn Report) -> T) -> T {
        match self {
            Saved::Comparison(comparison) => of(&**comparison),
            Saved::Bisection(bisection) => of(&**bisection),
            Saved::Ledger(table) => of(&**table),
            Saved::Stat(table) => of(&**table),
            Saved::Native(table) => of(&**table),
            Saved::Exits(tables) => of(&ExitTables(tables)),
            Saved::ExitDiff(both) => of(&ExitDiff { base: &both.base, change: &both.change }),
        }
    }
}

impl Report for Saved {
    fn view(&self) -> View {
        self.with(|report| report.view())
    }

    fn records(&self) -> Records {
        self.with(|report| report.records())
    }

    fn json(&self) -> serde_json::Result<String> {
        self.with(|report| report.json())
    }
}
