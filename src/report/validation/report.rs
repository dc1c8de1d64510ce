use super::records::records;
use super::view::view;
use crate::model::{SavedResult, Validation};
use crate::report::view::{Records, Report, View};

impl Report for Validation {
    fn view(&self) -> View {
        view(self)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn result(&self) -> SavedResult {
        SavedResult::Validation(Box::new(self.clone()))
    }
}
