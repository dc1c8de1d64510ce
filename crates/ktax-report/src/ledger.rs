//! Several additions to one base, ranked by what they cost, as a report.

mod headline;
mod tables;

use crate::view::{Legend, Records, Report, Section, SideLine, Value, View};
use crate::{guests, verdict, words};
use ktax_model::{
    CYCLES, Estimate, LedgerCost, LedgerEntry, LedgerMethod, LedgerRow, LedgerTable, LowHigh,
    METRICS, SavedResult, TIME, Verdict, Warning,
};

impl Report for LedgerTable {
    /// Shows one table of all additions and Workloads, then a table for each Workload.
    fn view(&self) -> View {
        let section = match &self.method {
            LedgerMethod::Counts { .. } => tables::counts_section,
            LedgerMethod::Guests(_) => tables::guests_section,
        };
        let already_on = self.already_on.iter().map(|one| format!("{}: {}", one.added, one.text()));
        let not_built = self.not_built.iter().map(|(row, why)| format!("{row}: {why}"));
        let mut sections: Vec<Section> = tables::matrix(self).into_iter().collect();
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
                LedgerMethod::Guests(_) => guests::HEADS,
            },
            how: match &self.method {
                LedgerMethod::Counts { key, .. } => words::machine(key, self.layouts),
                LedgerMethod::Guests(plan) => guests::how(plan),
            },
            again: self.again.clone(),
            legend: legend(self, &sections),
            sections,
            warnings: warnings(&self.warnings),
            ..View::default()
        }
    }

    /// Writes one line for each Workload and addition, which is a place of the matrix; all of them
    /// together have the name `together`.
    fn records(&self) -> Records {
        let (columns, values, interaction): (&[&str], EntryValues, InteractionValues) = match &self
            .method
        {
            LedgerMethod::Counts { .. } => (&COLUMNS, counts_record, |row| {
                vec![interaction_value(row, METRICS[0].name), interaction_value(row, verdict::REP)]
            }),
            LedgerMethod::Guests(_) => (&tables::GUESTS_FIELDS, tables::guests_record, |row| {
                vec![interaction_value(row, TIME)]
            }),
        };
        let mut records = Records::new(columns.iter().copied());
        for row in &self.rows {
            for entry in &row.entries {
                records.push(values(row, entry));
            }
            if let Some(together) = &row.together {
                records.push(values(row, together).into_iter().chain(interaction(row)));
            }
        }
        for (name, why) in &self.not_built {
            let mut line = vec![Value::Nothing, name.into()];
            line.resize(columns.len() - 1, Value::Nothing);
            records.push(line.into_iter().chain([format!("not built: {why}").as_str().into()]));
        }
        records
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
        LedgerMethod::Guests(plan) => guests::sides(plan),
    }
}

/// Returns each warning once, with the additions that have it.
fn warnings(all: &[(String, Warning)]) -> Vec<Warning> {
    let mut grouped: Vec<(Vec<&str>, &Warning)> = Vec::new();
    for (name, warning) in all {
        match grouped.iter_mut().find(|(_, known)| *known == warning) {
            Some((names, _)) => names.push(name),
            None => grouped.push((vec![name], warning)),
        }
    }
    let merged = |(names, warning): (Vec<&str>, &Warning)| Warning {
        fact: format!("{}: {}", names.join(", "), warning.fact),
        next_step: warning.next_step.clone(),
    };
    grouped.into_iter().map(merged).collect()
}

const ALONE: &str = "Each addition is added to the base alone.";

/// Legend of the words in these sections.
fn legend(ledger: &LedgerTable, sections: &[Section]) -> Legend {
    let method_legend = match &ledger.method {
        LedgerMethod::Counts { .. } => counts_legend(tables::estimated_machine(ledger), sections),
        LedgerMethod::Guests(_) => guests_legend(sections),
    };
    let verdicts = ledger.threshold_percent.and_then(words::verdicts);
    let mut legend =
        method_legend.with(words::detectable(ledger.layouts)).with(verdicts).with([words::BY_REP]);
    legend.terms.retain(|(term, _)| sections.iter().any(|section| section_has(section, term)));
    legend
}

/// Tells whether a word is the title of a table or the head of a column, or stands in a cell.
fn section_has(section: &Section, term: &str) -> bool {
    let Section::Table { title, table, .. } = section else { return false };
    let mut cells = table.lines.iter().flat_map(|line| &line.cells);
    title == term
        || table.columns.iter().any(|column| column.head == term)
        || cells.any(|cell| cell.text == term || cell.text.ends_with(&format!(" {term}")))
}

fn has_cell(section: &Section, is_wanted: fn(&str) -> bool) -> bool {
    let Section::Table { table, .. } = section else { return false };
    table.lines.iter().flat_map(|line| &line.cells).any(|cell| is_wanted(&cell.text))
}

fn counts_legend(machine: Option<&Estimate>, sections: &[Section]) -> Legend {
    let cycles = machine.map(|estimate| cycles_meaning(estimate, sections)).unwrap_or_default();
    let is_above = sections.iter().any(|section| section_has(section, tables::CYCLES_TITLE));
    let in_row = match is_above {
        true => "the estimated cycles % of this row, also where no count changed".to_owned(),
        false => cycles.clone(),
    };
    Legend::new([
        "delta: instructions per operation in process context beyond those of the base, counted \
         exactly; they are not time.",
        ALONE,
    ])
    .with([
        (tables::CYCLES_TITLE, format!("{cycles}; - where no count changed")),
        ("cycles %", in_row),
        (
            tables::INSTRUCTIONS_TITLE,
            "instructions beyond those of the base, in percent of them, without what REP \
             iterations and costly instructions take; - where no count changed"
                .to_owned(),
        ),
        ("delta %", "delta in percent of the base's instructions".to_owned()),
        (
            "REP",
            "iterations of string instructions per operation beyond those of the base; one is no \
             instruction"
                .to_owned(),
        ),
    ])
}

/// Predicate over the text of a cell.
type IsMarked = fn(&str) -> bool;

/// Meaning of the cycles, with the machine and the marks that occur.
fn cycles_meaning(estimate: &Estimate, sections: &[Section]) -> String {
    let Estimate { cpu, machine, .. } = estimate;
    let mut text = format!(
        "{CYCLES} beyond those of the base, in percent of them: estimated for {cpu} (machine \
         {machine}), not measured; no verdict rests on it"
    );
    let marks: [(IsMarked, &str); 3] = [
        (
            |text| text.starts_with(tables::AT_LEAST),
            "; ≥ where costly instructions that were not timed there come on top",
        ),
        (
            |text| text.starts_with(tables::AT_MOST),
            "; ≤ where costly instructions that were not timed there are saved",
        ),
        (
            |text| text.ends_with(tables::LEFT_OUT),
            "; * where some come on top and others are saved",
        ),
    ];
    for (is_marked, meaning) in marks {
        if sections.iter().any(|section| has_cell(section, is_marked)) {
            text += meaning;
        }
    }
    text
}

fn guests_legend(sections: &[Section]) -> Legend {
    const TIME: &str = "time beyond that of the base, in percent of it";
    let delta = match sections.iter().any(|section| section_has(section, tables::TIME_TITLE)) {
        true => "the same, whatever the verdict",
        false => TIME,
    };
    Legend::new([
        "The time is that of all vCPUs, in the guest and out of it. 1 µs is 1 000 instructions of \
         the host's one CPU: the host counts instructions, not time.",
        ALONE,
    ])
    .with([
        (tables::TIME_TITLE, format!("{TIME}; - where nothing is slower or faster")),
        ("delta %", delta.to_owned()),
        (
            "exits",
            "how many more than in the base, in the layout with the median delta; then by reason"
                .to_owned(),
        ),
    ])
}

const COLUMNS: [&str; 22] = [
    "workload",
    "added",
    "base",
    "delta",
    "percent",
    "detectable",
    "verdict",
    "decided_by",
    "rep_base",
    "rep_delta",
    "rep_percent",
    "rep_verdict",
    "costly",
    "machine",
    "cycles_min",
    "cycles_max",
    "cycles_percent_min",
    "cycles_percent_max",
    "not_timed",
    "interaction",
    "rep_interaction",
    "why",
];

/// Values of one addition to one row.
type EntryValues = fn(&LedgerRow, &LedgerEntry) -> Vec<Value>;
/// Values of the interactions of a row.
type InteractionValues = fn(&LedgerRow) -> Vec<Value>;

fn counts_record(row: &LedgerRow, entry: &LedgerEntry) -> Vec<Value> {
    let costs = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed);
    let [instructions, rep] =
        [METRICS[0].name, verdict::REP].map(|name| costs.and_then(|costs| costs.metric(name)));
    let estimate = costs.and_then(|costs| costs.estimate.as_ref());
    let end = |ends: Option<LowHigh>, index: usize| Value::from(ends.map(|ends| ends[index]));
    let (cycles, percent) =
        (estimate.map(|estimate| estimate.delta), estimate.and_then(|estimate| estimate.percent));
    let costly = costs
        .map(|costs| deltas_text(costs.costly.iter().map(|(kind, delta)| (kind.name(), *delta))));
    let not_timed = estimate.map(|estimate| {
        deltas_text(estimate.left_out.iter().map(|(kind, delta)| (kind.as_str(), *delta)))
    });
    vec![
        (&row.row).into(),
        (&entry.name).into(),
        cost_value(instructions, |cost| Some(cost.base)),
        cost_value(instructions, |cost| Some(cost.delta)),
        cost_value(instructions, |cost| cost.percent),
        cost_value(instructions, |cost| cost.detectable),
        entry.verdict.text().into(),
        (&entry.decided_by).into(),
        cost_value(rep, |cost| Some(cost.base)),
        cost_value(rep, |cost| Some(cost.delta)),
        cost_value(rep, |cost| cost.percent),
        rep.map(|rep| rep.verdict.text()).into(),
        costly.as_deref().into(),
        estimate.map(|estimate| estimate.machine.as_str()).into(),
        end(cycles, 0),
        end(cycles, 1),
        end(percent, 0),
        end(percent, 1),
        not_timed.as_deref().into(),
    ]
}

/// Lists deltas: `cr3-write:+2 verw:+1`.
fn deltas_text<'a>(each: impl Iterator<Item = (&'a str, f64)>) -> String {
    each.map(|(kind, delta)| format!("{kind}:{delta:+}")).collect::<Vec<_>>().join(" ")
}

/// Returns one value of a cost, if there is that cost.
fn cost_value(which: Option<&LedgerCost>, value: fn(&LedgerCost) -> Option<f64>) -> Value {
    Value::from(which.and_then(value))
}

/// Value of an interaction beyond the sum, if that is more than noise.
fn interaction_value(row: &LedgerRow, metric: &str) -> Value {
    let changes = row.interactions.iter().filter(|one| one.beyond.verdict.is_change());
    let mut changes = changes.filter(|one| one.metric == metric);
    changes.next().map(|one| one.beyond.delta).into()
}
