use super::records::records;
use super::view::view;
use crate::model::{Bisection, SavedResult};
use crate::report::view::{Records, Report, View};

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
