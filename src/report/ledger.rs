//! Several additions to one base, ranked by what they cost.

use super::view::{
    Cell, Kind, Legend, Line, Records, Report, Section, SideLine, Table, Value, View,
};
use super::{effect, number, verdict, words};
use crate::model::{LedgerEntry, LedgerRow, LedgerTable, Saved, SavedResult, Verdict, Warning};

impl Report for LedgerTable {
    /// A table for each Workload: the additions, the most expensive first, then all together.
    fn view(&self) -> View {
        let (what, beside) = self.base.clone();
        let not_built = self.not_built.iter().map(|(row, why)| format!("{row}: {why}"));
        let failed = |row: &LedgerRow| row.entries.iter().any(|it| it.verdict == Verdict::Failed);
        let next = self
            .rows
            .iter()
            .any(failed)
            .then(|| "`ktax report DIR/ADDED` says why something failed.".to_owned());
        let mut sections: Vec<Section> = self.rows.iter().map(section).collect();
        sections.push(Section::Items {
            title: "Additions that could not be built:".to_owned(),
            items: not_built.collect(),
        });
        sections.push(Section::Sentences(next.into_iter().collect()));
        View {
            title: self.title.clone(),
            sides: vec![SideLine { side: "base", what, beside }],
            side_heads: ["kernel", "boot line"],
            how: words::machine(&self.key, self.layouts),
            sections,
            warnings: warnings(&self.warnings),
            legend: legend(self.layouts),
        }
    }

    /// One line for each Workload and addition, all of them together with the name `together`.
    fn records(&self) -> Records {
        let mut records = Records::of([
            "workload",
            "added",
            "base",
            "delta",
            "percent",
            "detectable",
            "verdict",
            "decided_by",
            "interaction",
            "why",
        ]);
        for row in &self.rows {
            for entry in &row.entries {
                records.push(record(row, entry));
            }
            let together = row.together.iter().map(|entry| record(row, entry));
            together.for_each(|line| {
                records.push(line.into_iter().chain([row.interaction.into()]));
            });
        }
        for (name, why) in &self.not_built {
            let mut line = vec![Value::Nothing, name.into()];
            line.resize(9, Value::Nothing);
            records.push(line.into_iter().chain([format!("not built: {why}").as_str().into()]));
        }
        records
    }

    fn saved(&self) -> Saved {
        SavedResult::Ledger(Box::new(self.clone())).into()
    }
}

fn legend(layouts: usize) -> Legend {
    Legend::of([
        "delta: instructions per operation in process context beyond those of the base, counted \
         exactly; they are not time.",
        "Each addition is added to the base alone.",
    ])
    .with([("delta %", "delta in percent of base".to_owned())])
    .with(words::detectable(layouts))
}

fn record(row: &LedgerRow, entry: &LedgerEntry) -> [Value; 8] {
    let is_measured = entry.verdict != Verdict::Failed;
    let measured = |value: f64| Value::from(is_measured.then_some(value));
    [
        (&row.row).into(),
        (&entry.name).into(),
        row.base.into(),
        measured(entry.delta),
        entry.percent.filter(|_| is_measured).into(),
        entry.detectable.filter(|_| is_measured).into(),
        entry.verdict.text().into(),
        (&entry.decided_by).into(),
    ]
}

fn section(row: &LedgerRow) -> Section {
    let columns = [
        ("added", Kind::Words),
        ("delta", Kind::Number),
        ("delta %", Kind::Number),
        ("MDE %", Kind::Number),
        ("verdict", Kind::Verdict),
    ];
    let lines = row.entries.iter().chain(&row.together).map(|entry| line(entry, row.base));
    let interaction = row.interaction.map(|beyond| {
        let (by, than) = (number::count(beyond.abs()), if beyond < 0.0 { "less" } else { "more" });
        format!(
            "Together they cost {by} instructions {than} than the sum: they are not independent."
        )
    });
    Section::Table {
        title: format!("{}, {} instructions", row.row, number::count(row.base)),
        table: Table::of(columns).with(lines),
        notes: interaction.into_iter().collect(),
    }
}

/// One addition; nothing but the verdict where it was not measured.
fn line(entry: &LedgerEntry, base: f64) -> Line {
    let [delta, percent, detectable] = match entry.verdict {
        Verdict::Failed => <[String; 3]>::default(),
        _ => [
            number::delta(entry.delta),
            number::percent(entry.percent),
            effect::detectable_of(base, entry.detectable, entry.verdict),
        ],
    };
    let verdict: Cell = verdict::decided(entry.verdict, &entry.decided_by);
    Line::of([entry.name.clone(), delta, percent, detectable]).and(verdict)
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
