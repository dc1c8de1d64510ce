//! Reports of saved results of every kind, the explanation of one row, and versions.

use crate::counts::{changed_paths, kind_functions, row_costs};
use crate::exits::{ExitDiff, ExitTables};
use crate::formats::{Page, TextOptions};
use crate::view::{Details, Records, Report, Section, View};
use crate::{counts, guests, times};
use ktax_host::text::{shell_word, short_hashes};
use ktax_model::{Comparison, ComparisonMethod, Identity, RowPaths, Saved, SavedResult, Side};

impl Report for Comparison {
    fn view(&self) -> View {
        match &self.method {
            ComparisonMethod::Counts(method) => counts::view(self, method),
            ComparisonMethod::Times(method) => times::view(self, method),
            ComparisonMethod::Guests(method) => guests::view(self, method),
        }
    }

    fn details(&self) -> Details {
        match &self.method {
            ComparisonMethod::Counts(_) => counts::details(self),
            ComparisonMethod::Times(method) => times::details(self, method),
            ComparisonMethod::Guests(_) => guests::details(&self.rows),
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

/// One row of a comparison with all its details.
#[derive(Debug, Clone)]
pub struct ExplainedRow {
    /// The comparison with this row only.
    comparison: Comparison,
    /// Call paths of the row; `None` without its profiles.
    paths: Option<RowPaths>,
}

const NO_PROFILES: &str = "This file has no profiles. To see all costs of the row, use its run \
                           directory:";

impl ExplainedRow {
    /// Picks the row of that name; `None` if the comparison has no such row.
    pub fn new(comparison: &Comparison, row: &str) -> Option<ExplainedRow> {
        let mut one_row = comparison.clone();
        one_row.rows.retain(|other| other.row == row);
        // Results that are computed from several rows do not describe this row.
        match &mut one_row.method {
            ComparisonMethod::Counts(counts) => counts.growth.clear(),
            ComparisonMethod::Times(times) => times.crossings.clear(),
            ComparisonMethod::Guests(_) => {}
        }
        (!one_row.rows.is_empty()).then_some(ExplainedRow { comparison: one_row, paths: None })
    }

    pub fn with_paths(self, paths: Option<RowPaths>) -> ExplainedRow {
        ExplainedRow { paths, ..self }
    }

    /// Returns the comparison with this row only.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Returns the sections of all costs of the row, or the command that prints them.
    fn cost_sections(&self) -> Vec<Section> {
        let is_counted = self.comparison.rows.iter().any(|row| !row.effects().is_empty())
            && self.comparison.counts().is_some();
        match &self.paths {
            Some(paths) => row_costs(paths),
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

impl Report for ExplainedRow {
    fn view(&self) -> View {
        let mut view = self.comparison.view();
        for section in &mut view.sections {
            if let Section::Functions(functions) = section {
                functions.is_complete = true;
            }
        }
        let is_functions = |section: &Section| matches!(section, Section::Functions(_));
        let functions = view.sections.iter().rposition(is_functions);
        let position = functions.map_or(view.sections.len(), |index| index + 1);
        let rows = &self.comparison.rows;
        let changes = changed_paths(rows).chain(rows.iter().map(kind_functions));
        let sections: Vec<Section> = changes.chain(self.cost_sections()).collect();
        view.sections.splice(position..position, sections);
        view
    }

    fn details(&self) -> Details {
        self.comparison.details()
    }

    fn records(&self) -> Records {
        self.comparison.records()
    }

    fn result(&self) -> SavedResult {
        self.comparison.result()
    }
}

fn with_report<T>(result: &SavedResult, show: impl FnOnce(&dyn Report) -> T) -> T {
    match result {
        SavedResult::Comparison(comparison) => show(&**comparison),
        SavedResult::Bisection(bisection) => show(&**bisection),
        SavedResult::Ledger(table) => show(&**table),
        SavedResult::Stat(table) => show(&**table),
        SavedResult::Native(table) => show(&**table),
        SavedResult::Exits(tables) => show(&ExitTables(tables)),
        SavedResult::Calibration(table) => show(&**table),
        SavedResult::Validation(validation) => show(&**validation),
        SavedResult::History(history) => show(&**history),
        SavedResult::ExitDiff(pair) => show(&ExitDiff(pair)),
    }
}

impl Report for Saved {
    fn name(&self) -> &str {
        &self.name
    }

    fn view(&self) -> View {
        with_report(&self.result, |report| report.view())
    }

    fn details(&self) -> Details {
        with_report(&self.result, |report| report.details())
    }

    fn records(&self) -> Records {
        with_report(&self.result, |report| report.records())
    }

    fn result(&self) -> SavedResult {
        self.result.clone()
    }
}

/// Lists the versions of the guest programs, QEMU and the kernels that a comparison of counts or of
/// guests used. With the same versions a repetition has the same numbers. The text ends in a
/// newline; `None` for other results.
pub fn versions(result: &SavedResult, options: TextOptions) -> Option<String> {
    let SavedResult::Comparison(comparison) = result else { return None };
    let (key, kernels) = match &comparison.method {
        ComparisonMethod::Counts(counts) => {
            let named_kernel = |side: Side| (side.name(), counts.kernels.get(side));
            (&counts.key, Side::BOTH.map(named_kernel).to_vec())
        }
        ComparisonMethod::Guests(guests) => {
            let plan = &guests.plan;
            let named_kernel =
                |side: Side| Some((side.name(), plan.asked.side(side)?.kernel.as_ref()?));
            let sides = Side::BOTH.into_iter().filter_map(named_kernel);
            (&plan.key, [("host", &plan.host_kernel)].into_iter().chain(sides).collect())
        }
        ComparisonMethod::Times(_) => return None,
    };
    let guest = ("guest", short_hashes(&key.guest));
    let rows = [guest, ("QEMU", key.qemu.clone())];
    let kernels = kernels.into_iter().map(|(name, identity)| (name, kernel_version(identity)));
    let cells = rows.into_iter().chain(kernels).map(|(name, version)| [name.to_owned(), version]);
    Some(Page::new(options).columns(&cells.collect::<Vec<_>>()))
}

/// Describes a kernel: its source (with a package's version), release, hash of the image, date.
fn kernel_version(identity: &Identity) -> String {
    let (source, image) = (&identity.source, short_hashes(&identity.sha256));
    let release = identity.release.iter().map(|release| format!("{release}, "));
    let date = identity.package_date.iter().map(|date| format!(", of {date}"));
    let [release, date] = [release.collect::<String>(), date.collect()];
    format!("{source}, {release}image {image}{date}")
}
