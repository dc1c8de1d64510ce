use super::records::records;
use super::view::view;
use crate::model::Bisection;
use crate::report::view::{Records, Report, View};

impl Report for Bisection {
    fn view(&self) -> View {
        view(self)
    }

    fn records(&self) -> Records {
        records(self)
    }

    fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }
}
