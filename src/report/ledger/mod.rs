//! Several additions to one base, ranked by what they cost.

mod headline;
mod matrix;
mod records;
mod tables;

use super::view::{Legend, Records, Report, Section, SideLine, View};
use super::words;
use crate::model::{LedgerTable, SavedResult, Verdict, Warning};

impl Report for LedgerTable {
    /// One table of all additions and Workloads, then a table for each Workload.
    fn view(&self) -> View {
        let (what, beside) = self.base.clone();
        let not_built = self.not_built.iter().map(|(row, why)| format!("{row}: {why}"));
        let mut sections: Vec<Section> = matrix::matrix(self).into_iter().collect();
        sections.extend(self.rows.iter().map(tables::section));
        sections.push(Section::Items {
            title: "Additions that could not be built:".to_owned(),
            items: not_built.collect(),
        });
        sections.push(Section::Sentences(next_step(self).into_iter().collect()));
        View {
            title: self.title.clone(),
            headline: headline::headline(self).join(" "),
            sides: vec![SideLine { side: "base", what, beside }],
            side_heads: ["kernel", "boot line"],
            how: words::machine(&self.key, self.layouts),
            again: Vec::new(),
            sections,
            warnings: warnings(&self.warnings),
            legend: legend(self.layouts),
        }
    }

    fn records(&self) -> Records {
        records::records(self)
    }

    fn result(&self) -> SavedResult {
        SavedResult::Ledger(Box::new(self.clone()))
    }
}

fn next_step(ledger: &LedgerTable) -> Option<String> {
    let mut entries = ledger.rows.iter().flat_map(|row| row.entries.iter().chain(&row.together));
    entries
        .any(|entry| entry.verdict == Verdict::Failed)
        .then(|| "`ktax report DIR/ADDED` says why something failed.".to_owned())
}

fn legend(layouts: usize) -> Legend {
    Legend::of([
        "delta: instructions per operation in process context beyond those of the base, counted \
         exactly; they are not time.",
        "Each addition is added to the base alone.",
    ])
    .with([
        (
            "cost %",
            "instructions and REP iterations beyond those of the base, in percent of both; - where \
             nothing is slower or faster",
        ),
        ("delta %", "delta in percent of the base's instructions"),
        ("REP", "iterations of string instructions per operation beyond those of the base"),
    ])
    .with(words::detectable(layouts))
}

/// Each once, with the additions that it is of.
fn warnings(all: &[(String, Warning)]) -> Vec<Warning> {
    let mut grouped: Vec<(Vec<&str>, &Warning)> = Vec::new();
    for (name, warning) in all {
        match grouped.iter_mut().find(|(_, known)| *known == warning) {
            Some((names, _)) => names.push(name),
            None => grouped.push((vec![name], warning)),
        }
    }
    let of = |(names, warning): (Vec<&str>, &Warning)| Warning {
        fact: format!("{}: {}", names.join(", "), warning.fact),
        next_step: warning.next_step.clone(),
    };
    grouped.into_iter().map(of).collect()
}
