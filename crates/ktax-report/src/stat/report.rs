use super::records::records;
use super::view::view;
use crate::view::{Records, Report, View};
use ktax_model::{SavedResult, StatTable};

/// A table of counters, with or without all values below it.
#[derive(Debug, Clone, Copy)]
pub struct StatPage<'a> {
    /// The table.
    pub table: &'a StatTable,
    /// Whether all values are shown.
    pub values: bool,
}

impl Report for StatPage<'_> {
    fn view(&self) -> View {
        view(self.table, self.values)
    }

    fn records(&self) -> Records {
        records(self.table)
    }

    fn result(&self) -> SavedResult {
        self.table.result()
    }
}

impl Report for StatTable {
    fn view(&self) -> View {
        view(self, false)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn result(&self) -> SavedResult {
        SavedResult::Stat(Box::new(self.clone()))
    }
}
