use super::bars::bars;
use super::headline::headline;
use super::records::records;
use super::sections::{legend, remarks, sections, title, warnings};
use crate::view::{Records, Report, View};
use ktax_host::text::counted;
use ktax_model::{ExitTable, SavedResult};

/// The exit tables of a recording or of a file.
#[derive(Debug, Clone, Copy)]
pub struct ExitTables<'a>(pub &'a [ExitTable]);

impl Report for ExitTables<'_> {
    fn view(&self) -> View {
        let drawn = bars(self.0.iter().map(|table| (title(table), table)));
        let (title, mut all) = match self.0 {
            [one] => (title(one), sections("", one)),
            several => {
                let all = several.iter().flat_map(|table| sections(&title(table), table));
                (counted(several.len(), "exit table"), all.collect::<Vec<_>>())
            }
        };
        all.insert(0, drawn);
        all.push(remarks(self.0));
        View {
            title,
            headline: headline(self.0),
            sections: all,
            warnings: warnings(self.0),
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
