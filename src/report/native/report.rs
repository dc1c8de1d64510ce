use super::records::records;
use super::view::view;
use crate::model::{NativeTable, SavedResult};
use crate::report::view::{Records, Report, View};

impl Report for NativeTable {
    fn view(&self) -> View {
        view(self)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn result(&self) -> SavedResult {
        SavedResult::Native(Box::new(self.clone()))
    }
}
