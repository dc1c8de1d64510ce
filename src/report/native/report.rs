use super::records::records;
use super::view::view;
use crate::model::{NativeTable, SavedResult};
use crate::report::view::{Records, Report, View};

/// A native table, with or without what the kernel counted.
#[derive(Debug, Clone, Copy)]
pub struct NativePage<'a> {
    /// The table.
    pub table: &'a NativeTable,
    /// Whether the counters are shown too.
    pub counters: bool,
}

impl Report for NativePage<'_> {
    fn view(&self) -> View {
        view(self.table, self.counters)
    }

    fn records(&self) -> Records {
        records(self.table)
    }

    fn result(&self) -> SavedResult {
        self.table.result()
    }
}

impl Report for NativeTable {
    fn view(&self) -> View {
        view(self, false)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn result(&self) -> SavedResult {
        SavedResult::Native(Box::new(self.clone()))
    }
}
