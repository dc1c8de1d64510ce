//! Saved results of every kind as reports; one row of a comparison explained; versions.

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

/// Row of a comparison with everything that is known of it.
#[derive(Debug, Clone)]
pub struct Explained {
    comparison: Comparison,
    /// Call paths of the row; `None` where its profiles are not at hand.
    paths: Option<RowPaths>,
}

const NO_PROFILES: &str = "This file has no profiles. To see where the row goes, changed or not, \
                           explain it from its run directory:";

impl Explained {
    /// Picks the row of that name; `None` where the comparison has none.
    pub fn new(comparison: &Comparison, row: &str) -> Option<Explained> {
        let mut alone = comparison.clone();
        alone.rows.retain(|other| other.row == row);
        // Results over several rows together do not belong to one of them.
        match &mut alone.method {
            ComparisonMethod::Counts(counts) => counts.growth.clear(),
            ComparisonMethod::Times(times) => times.crossings.clear(),
            ComparisonMethod::Guests(_) => {}
        }
        (!alone.rows.is_empty()).then_some(Explained { comparison: alone, paths: None })
    }

    pub fn with_paths(self, paths: Option<RowPaths>) -> Explained {
        Explained { paths, ..self }
    }

    /// Returns the comparison with this row alone.
    pub fn comparison(&self) -> &Comparison {
        &self.comparison
    }

    /// Sections of where the row goes, or of how that is found.
    fn costs(&self) -> Vec<Section> {
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
        let behind = behind.map_or(view.sections.len(), |index| index + 1);
        let rows = &self.comparison.rows;
        let changed = changed_paths(rows).chain(rows.iter().map(kind_functions));
        let all: Vec<Section> = changed.chain(self.costs()).collect();
        view.sections.splice(behind..behind, all);
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

/// Lists the guest programs, QEMU and the kernels that a comparison of exact counts or of guests
/// was made with, which have to be the same for its numbers to come out again. Ends in a newline;
/// `None` of other results.
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
    let cells = rows.into_iter().chain(kernels).map(|(name, what)| [name.to_owned(), what]);
    Some(Page::new(options).columns(&cells.collect::<Vec<_>>()))
}

/// A package's version stands in its source; the image is known by its hash alone.
fn kernel_version(identity: &Identity) -> String {
    let (source, image) = (&identity.source, short_hashes(&identity.sha256));
    let release = identity.release.iter().map(|release| format!("{release}, "));
    let date = identity.package_date.iter().map(|date| format!(", of {date}"));
    let [release, date] = [release.collect::<String>(), date.collect()];
    format!("{source}, {release}image {image}{date}")
}
