use super::records::records;
use super::view::view;
use crate::model::{CalibrationTable, SavedResult};
use crate::report::view::{Records, Report, View};

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
