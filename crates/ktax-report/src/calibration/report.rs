use super::records::records;
use super::view::view;
use crate::view::{Records, Report, View};
use ktax_model::{CalibrationTable, SavedResult};

impl Report for CalibrationTable {
    fn view(&self) -> View {
        view(self)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn result(&self) -> SavedResult {
        SavedResult::Calibration(Box::new(self.clone()))
    }
}
