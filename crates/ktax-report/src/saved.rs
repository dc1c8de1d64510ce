//! Results of any kind, to be printed again.

use super::exits::{ExitDiff, ExitTables};
use super::named::Named;
use super::view::{Records, Report, View};
use ktax_model::{Saved, SavedResult};

fn with<T>(saved: &Saved, of: impl FnOnce(Named<'_>) -> T) -> T {
    let name = &saved.name;
    match &saved.result {
        SavedResult::Comparison(comparison) => of(Named { name, report: &**comparison }),
        SavedResult::Bisection(bisection) => of(Named { name, report: &**bisection }),
        SavedResult::Ledger(table) => of(Named { name, report: &**table }),
        SavedResult::Stat(table) => of(Named { name, report: &**table }),
        SavedResult::Native(table) => of(Named { name, report: &**table }),
        SavedResult::Exits(tables) => of(Named { name, report: &ExitTables(tables) }),
        SavedResult::Calibration(table) => of(Named { name, report: &**table }),
        SavedResult::Validation(validation) => of(Named { name, report: &**validation }),
        SavedResult::History(history) => of(Named { name, report: &**history }),
        SavedResult::ExitDiff(pair) => of(Named { name, report: &ExitDiff(pair) }),
    }
}

impl Report for Saved {
    fn view(&self) -> View {
        with(self, |report| report.view())
    }

    fn records(&self) -> Records {
        with(self, |report| report.records())
    }

    fn result(&self) -> SavedResult {
        self.result.clone()
    }

    fn saved(&self) -> Saved {
        with(self, |report| report.saved())
    }
}
