use super::view::{Records, Report, View};
use super::{counts, guests, times};
use ktax_model::{Comparison, ComparisonMethod, SavedResult};

impl Report for Comparison {
    fn view(&self) -> View {
        match &self.method {
            ComparisonMethod::Counts(method) => counts::view(self, method),
            ComparisonMethod::Times(method) => times::view(self, method),
            ComparisonMethod::Guests(method) => guests::view(self, method),
        }
    }

    fn records(&self) -> Records {
        match &self.method {
            ComparisonMethod::Counts(_) => counts::records(self),
            ComparisonMethod::Times(_) => times::records(self),
            ComparisonMethod::Guests(method) => guests::records(self, method),
        }
    }

    fn result(&self) -> SavedResult {
        SavedResult::Comparison(Box::new(self.clone()))
    }
}
