use super::records::records;
use super::view::view;
use crate::view::{Records, Report, View};
use ktax_model::{Bisection, SavedResult};

impl Report for Bisection {
    fn view(&self) -> View {
        view(self)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn result(&self) -> SavedResult {
        SavedResult::Bisection(Box::new(self.clone()))
    }
}
