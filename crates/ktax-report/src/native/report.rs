use super::records::records;
use super::view::view;
use crate::view::{Records, Report, View};
use ktax_model::{NativeTable, SavedResult};

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
