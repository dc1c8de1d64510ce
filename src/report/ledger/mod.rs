//! Several additions to one base, ranked by what they cost.

mod headline;
mod matrix;
mod of_guests;
mod records;
mod tables;

use super::guests::header;
use super::view::{Legend, Records, Report, Section, SideLine, View};
use super::words;
use crate::model::{LedgerMethod, LedgerTable, SavedResult, Verdict, Warning};

impl Report for LedgerTable {
    /// One table of all additions and Workloads, then a table for each Workload.
    fn view(&self) -> View {
        let section = match &self.method {
            LedgerMethod::Counts { .. } => tables::section,
            LedgerMethod::Guests(_) => of_guests::section,
        };
        let not_built = self.not_built.iter().map(|(row, why)| format!("{row}: {why}"));
        let mut sections: Vec<Section> = matrix::matrix(self).into_iter().collect();
        sections.extend(self.rows.iter().map(section));
        sections.push(Section::Items {
            title: "Additions that could not be built:".to_owned(),
            items: not_built.collect(),
        });
        sections.push(Section::Sentences(next_step(self).into_iter().collect()));
        View {
            title: self.title.clone(),
            headline: headline::headline(self).join(" "),
            sides: sides(&self.method),
            side_heads: match &self.method {
                LedgerMethod::Counts { .. } => ["kernel", "boot line"],
                LedgerMethod::Guests(_) => header::HEADS,
            },
            how: match &self.method {
                LedgerMethod::Counts { key, .. } => words::machine(key, self.layouts),
                LedgerMethod::Guests(plan) => header::how(plan),
            },
            again: Vec::new(),
            sections,
            warnings: warnings(&self.warnings),
            legend: legend(&self.method).with(words::detectable(self.layouts)),
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

fn sides(method: &LedgerMethod) -> Vec<SideLine> {
    match method {
        LedgerMethod::Counts { base: (what, beside), .. } => {
            vec![SideLine { side: "base", what: what.clone(), beside: beside.clone() }]
        }
        LedgerMethod::Guests(plan) => header::sides(plan),
    }
}

const ALONE: &str = "Each addition is added to the base alone.";

fn legend(method: &LedgerMethod) -> Legend {
    match method {
        LedgerMethod::Counts { .. } => counts_legend(),
        LedgerMethod::Guests(_) => guests_legend(),
    }
}

fn counts_legend() -> Legend {
    Legend::of([
        "delta: instructions per operation in process context beyond those of the base, counted \
         exactly; they are not time.",
        ALONE,
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
}

fn guests_legend() -> Legend {
    Legend::of([
        "The time is that of all vCPUs, in the guest and out of it. 1 µs is 1 000 instructions of \
         the host's one CPU: the host counts instructions, not time.",
        ALONE,
    ])
    .with([
        (
            "cost %",
            "time beyond that of the base, in percent of it; - where nothing is slower or faster",
        ),
        ("delta %", "the same, whatever the verdict"),
        (
            "exits",
            "how many more than in the base, in the layout with the median delta; then by reason",
        ),
    ])
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
