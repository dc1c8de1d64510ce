use super::bars::bars;
use super::headline::headline_of_diff;
use super::reasons::{both, reasons};
use super::scale::Scale;
use super::sections::{title, warnings};
use crate::number;
use crate::view::{Legend, Records, Report, Section, SideLine, View};
use ktax_model::{ExitPair, ExitTable, SavedResult};
use ktax_stats::tables::change_percent;

/// Two exit tables, reason by reason.
#[derive(Debug, Clone, Copy)]
pub struct ExitDiff<'a>(pub &'a ExitPair);

impl ExitDiff<'_> {
    fn scale(&self) -> Scale {
        Scale::of(&self.0.base, &self.0.change, self.0.totals)
    }
}

fn title_of(base: &ExitTable, change: &ExitTable) -> String {
    let is_timed = base.is_timed() && change.is_timed();
    let by = if is_timed { "time" } else { "count" };
    format!("Exits by reason, largest change in {by} first")
}

/// What the numbers are, and how to get the others.
fn scaled(pair: &ExitPair, scale: Scale) -> String {
    match scale {
        Scale::Seconds([base, change]) => format!(
            "Times and counts are normalised: they are for each second of the recording. The base \
             has {} s, and the change has {} s. If both did the same work, compare totals with \
             --totals.",
            number::measured(base),
            number::measured(change)
        ),
        Scale::Totals if pair.totals => {
            "Times and counts are totals, as if both recordings did the same work.".to_owned()
        }
        Scale::Totals => "Times and counts are totals, because a table does not say how long was \
                          recorded. They only compare if both did the same work."
            .to_owned(),
    }
}

impl Report for ExitDiff<'_> {
    fn view(&self) -> View {
        let (ExitPair { base, change, .. }, scale) = (self.0, self.scale());
        let side = |side, table: &ExitTable| {
            let beside = table.elapsed_s().map(|it| format!("{} s", number::measured(it)));
            SideLine { side, what: title(table), beside: beside.unwrap_or_default() }
        };
        let sides = vec![side("base", base), side("change", change)];
        let has_lengths = sides.iter().any(|side| !side.beside.is_empty());
        View {
            title: title_of(base, change),
            headline: headline_of_diff(base, change, scale),
            sides,
            side_heads: ["exits of", if has_lengths { "recorded" } else { "" }],
            sections: vec![
                bars([("base".to_owned(), base), ("change".to_owned(), change)]),
                Section::Table {
                    title: String::new(),
                    table: reasons(base, change, scale),
                    notes: vec![scaled(self.0, scale)],
                },
            ],
            warnings: warnings([base, change]),
            legend: Legend::default().with([
                ("time delta %", "change minus base, in percent of base, of a reason's whole time"),
                ("count delta %", "the same of how often it was"),
            ]),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let columns = [
            "reason",
            "base_count",
            "change_count",
            "base_ns",
            "change_ns",
            "base_elapsed_ns",
            "change_elapsed_ns",
            "percent",
        ];
        let ExitPair { base, change, .. } = self.0;
        let (scale, lengths) = (self.scale(), [base.elapsed_ns, change.elapsed_ns]);
        let mut records = Records::of(columns);
        for (reason, base, change) in both(base, change, scale) {
            let percent = base.1.zip(change.1).and_then(|(base, change)| {
                let [base, change] = scale.apply([base as f64, change as f64]);
                change_percent(base, change)
            });
            records.push([
                reason.into(),
                base.0.into(),
                change.0.into(),
                base.1.into(),
                change.1.into(),
                lengths[0].into(),
                lengths[1].into(),
                percent.into(),
            ]);
        }
        records
    }

    fn result(&self) -> SavedResult {
        SavedResult::ExitDiff(Box::new(self.0.clone()))
    }
}
