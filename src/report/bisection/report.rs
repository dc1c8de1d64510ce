use super::records::records;
use super::view::view;
use crate::model::{Bisection, Saved, SavedResult};
use crate::report::view::{Records, Report, View};

impl Report for Bisection {
    fn view(&self) -> View {
        view(self)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn saved(&self) -> Saved {
        SavedResult::Bisection(Box::new(self.clone())).into()
    }
}
