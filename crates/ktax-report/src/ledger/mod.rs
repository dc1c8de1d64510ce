//! Several additions to one base, ranked by what they cost.

mod headline;
mod legend;
mod matrix;
mod of_guests;
mod records;
mod tables;

use super::guests::header;
use super::view::{Records, Report, Section, SideLine, View};
use super::words;
use ktax_model::{LedgerMethod, LedgerTable, SavedResult, Verdict, Warning};

impl Report for LedgerTable {
    /// One table of all additions and Workloads, then a table for each Workload.
    fn view(&self) -> View {
        let section = match &self.method {
            LedgerMethod::Counts { .. } => tables::section,
            LedgerMethod::Guests(_) => of_guests::section,
        };
        let already_on = self.already_on.iter().map(|one| format!("{}: {}", one.added, one.text()));
        let not_built = self.not_built.iter().map(|(row, why)| format!("{row}: {why}"));
        let mut sections: Vec<Section> = matrix::matrix(self).into_iter().collect();
        sections.extend(self.rows.iter().map(section));
        sections.push(Section::Items {
            title: "Additions that this kernel has already:".to_owned(),
            items: already_on.collect(),
        });
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
            measured_by: String::new(),
            again: self.again.clone(),
            legend: legend::legend(self, &sections),
            sections,
            warnings: warnings(&self.warnings),
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
