use super::counts::{costs, kinds, paths};
use super::view::{Records, Report, Section, View};
use ktax_host::text::shell_word;
use ktax_model::{Comparison, ComparisonMethod, RowPaths, SavedResult};

/// One row of a comparison, with everything that is known of it.
#[derive(Debug, Clone)]
pub struct Explained {
    comparison: Comparison,
    /// Where the row goes; `None` where its profiles are not at hand.
    paths: Option<RowPaths>,
}

const NO_PROFILES: &str = "This file has no profiles. To see where the row goes, changed or not, \
                           explain it from its run directory:";

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
        (!alone.rows.is_empty()).then_some(Explained { comparison: alone, paths: None })
    }

    /// The same with what its profiles say.
    pub fn with_paths(self, paths: Option<RowPaths>) -> Explained {
        Explained { paths, ..self }
    }

    /// The comparison with this row alone.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }
}

impl Explained {
    /// Where the row goes, or where that is found.
    fn costs(&self) -> Vec<Section> {
        let is_counted = self.comparison.rows.iter().any(|row| !row.effects().is_empty())
            && self.comparison.counts().is_some();
        match &self.paths {
            Some(paths) => costs(paths),
            None if is_counted => {
                let rows = self.comparison.rows.iter();
                let rows =
                    rows.map(|row| format!("ktax report DIR --explain {}", shell_word(&row.row)));
                let command =
                    |command| Section::Command { sentence: NO_PROFILES.to_owned(), command };
                rows.map(command).collect()
            }
            None => Vec::new(),
        }
    }
}

impl Report for Explained {
    fn view(&self) -> View {
        let mut view = self.comparison.view();
        for section in &mut view.sections {
            if let Section::Functions(functions) = section {
                functions.is_whole = true;
            }
        }
        let is_functions = |section: &Section| matches!(section, Section::Functions(_));
        let behind = view.sections.iter().rposition(is_functions);
        let behind = behind.map_or(view.sections.len(), |at| at + 1);
        let rows = &self.comparison.rows;
        let changed = paths(rows).chain(rows.iter().filter_map(kinds));
        let all: Vec<Section> = changed.chain(self.costs()).collect();
        view.sections.splice(behind..behind, all);
        view
    }

    fn records(&self) -> Records {
        self.comparison.records()
    }

    fn result(&self) -> SavedResult {
        self.comparison.result()
    }
}
