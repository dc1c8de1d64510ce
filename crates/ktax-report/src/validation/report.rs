use super::records::records;
use super::view::view;
use crate::view::{Records, Report, View};
use ktax_model::{SavedResult, Validation};

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
