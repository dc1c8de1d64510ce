use super::headline::headline;
use super::records::records;
use super::sections::{legend, sections, title};
use crate::model::{ExitTable, SavedResult, Warning};
use crate::report::view::{Records, Report, View};

/// The exit tables of a recording or of a file.
#[derive(Debug, Clone, Copy)]
pub struct ExitTables<'a>(pub &'a [ExitTable]);

impl Report for ExitTables<'_> {
    fn view(&self) -> View {
        let (title, all) = match self.0 {
            [one] => (title(one), sections("", one)),
            several => {
                let all = several.iter().flat_map(|table| sections(&title(table), table));
                (format!("{} exit tables", several.len()), all.collect())
            }
        };
        let mut warnings: Vec<Warning> = Vec::new();
        for warning in self.0.iter().flat_map(|table| &table.warnings) {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        View {
            title,
            headline: headline(self.0),
            sections: all,
            warnings,
            legend: legend(self.0),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        records(self.0)
    }

    fn result(&self) -> SavedResult {
        SavedResult::Exits(self.0.to_vec())
    }
}
