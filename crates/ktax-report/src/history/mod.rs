//! What rows cost over kernels: one line each, and where the cost steps.

mod details;
mod headline;
mod levels;
mod records;
mod sparkline;
mod steps;
mod table;
mod view;

use records::records;
pub use sparkline::sparkline;
use view::view;

use super::view::{Records, Report, View};
use ktax_model::{History, SavedResult};

impl Report for History {
    fn view(&self) -> View {
        view(self)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn result(&self) -> SavedResult {
        SavedResult::History(Box::new(self.clone()))
    }
}
