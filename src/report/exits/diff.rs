use super::headline::headline_of_diff;
use super::reasons::{both, reasons};
use super::sections::title;
use crate::model::{ExitTable, SavedResult, Sides, Warning};
use crate::report::view::{Legend, Records, Report, Section, SideLine, View};
use crate::stats::tables::change_percent;

/// Two exit tables, reason by reason.
#[derive(Debug, Clone, Copy)]
pub struct ExitDiff<'a> {
    /// Before.
    pub base: &'a ExitTable,
    /// After.
    pub change: &'a ExitTable,
}

impl Report for ExitDiff<'_> {
    fn view(&self) -> View {
        let side =
            |side, table: &ExitTable| SideLine { side, what: title(table), beside: String::new() };
        let warnings: Vec<Warning> =
            [self.base, self.change].iter().flat_map(|table| table.warnings.clone()).collect();
        View {
            title: "Exits by reason, largest change in time first".to_owned(),
            headline: headline_of_diff(self.base, self.change),
            sides: vec![side("base", self.base), side("change", self.change)],
            side_heads: ["exits of", ""],
            sections: vec![Section::table(reasons(self.base, self.change))],
            warnings,
            legend: Legend::default().with([
                ("base, change", "the time of all exits for a reason together"),
                ("delta %", "change minus base, in percent of base"),
            ]),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let columns = ["reason", "base_count", "change_count", "base_ns", "change_ns", "percent"];
        let mut records = Records::of(columns);
        for (reason, base, change) in both(self.base, self.change) {
            let percent = change_percent(base.1 as f64, change.1 as f64);
            records.push([
                reason.into(),
                base.0.into(),
                change.0.into(),
                base.1.into(),
                change.1.into(),
                percent.into(),
            ]);
        }
        records
    }

    fn result(&self) -> SavedResult {
        let both = Sides { base: self.base.clone(), change: self.change.clone() };
        SavedResult::ExitDiff(Box::new(both))
    }
}
