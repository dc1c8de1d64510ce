use super::counts::{kinds, paths};
use super::view::{Records, Report, Section, View};
use crate::model::{Comparison, ComparisonMethod, SavedResult};

/// One row of a comparison, with everything that is known of it.
#[derive(Debug, Clone)]
pub struct Explained(Comparison);

impl Explained {
    /// The row of that name; `None` where the comparison has none.
    pub fn of(comparison: &Comparison, row: &str) -> Option<Explained> {
        let mut alone = comparison.clone();
        alone.rows.retain(|one| one.row == row);
        // What follows from several rows together is not this one's.
        match &mut alone.method {
            ComparisonMethod::Counts(counts) => counts.growth.clear(),
            ComparisonMethod::Times(times) => times.crossings.clear(),
            ComparisonMethod::Guests(_) => {}
        }
        (!alone.rows.is_empty()).then_some(Explained(alone))
    }

    /// The comparison with this row alone.
    pub fn comparison(&self) -> &Comparison {
        &self.0
    }
}

impl Report for Explained {
    fn view(&self) -> View {
        let mut view = self.0.view();
        for section in &mut view.sections {
            if let Section::Functions(functions) = section {
                functions.is_whole = true;
            }
        }
        let is_functions = |section: &Section| matches!(section, Section::Functions(_));
        let behind = view.sections.iter().rposition(is_functions).map_or(0, |at| at + 1);
        let rows = &self.0.rows;
        view.sections.splice(behind..behind, paths(rows).chain(rows.iter().filter_map(kinds)));
        view
    }

    fn records(&self) -> Records {
        self.0.records()
    }

    fn result(&self) -> SavedResult {
        self.0.result()
    }
}
