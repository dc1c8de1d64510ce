use super::matrix;
use crate::model::{CYCLES, Estimate, LedgerMethod, LedgerTable};
use crate::report::view::{Legend, Section};
use crate::report::words;

const ALONE: &str = "Each addition is added to the base alone.";

/// What the words mean that stand in these sections.
pub fn legend(ledger: &LedgerTable, sections: &[Section]) -> Legend {
    let of_method = match &ledger.method {
        LedgerMethod::Counts { .. } => counts(matrix::machine(ledger)),
        LedgerMethod::Guests(_) => guests(sections),
    };
    let verdicts = ledger.threshold_percent.and_then(words::verdicts);
    let mut legend =
        of_method.with(words::detectable(ledger.layouts)).with(verdicts).with([words::BY_REP]);
    legend.terms.retain(|(term, _)| sections.iter().any(|section| has(section, term)));
    legend
}

/// Whether a word is the title of a table or the head of a column, or stands in a cell.
fn has(section: &Section, term: &str) -> bool {
    let Section::Table { title, table, .. } = section else { return false };
    let mut cells = table.lines.iter().flat_map(|line| &line.cells);
    title == term
        || table.columns.iter().any(|column| column.head == term)
        || cells.any(|cell| cell.text == term || cell.text.ends_with(&format!(" {term}")))
}

fn counts(machine: Option<&Estimate>) -> Legend {
    let cycles = machine.map(cycles).unwrap_or_default();
    Legend::of([
        "delta: instructions per operation in process context beyond those of the base, counted \
         exactly; they are not time.",
        ALONE,
    ])
    .with([
        (matrix::CYCLES_TITLE, format!("{cycles}; - where no count changed")),
        ("cycles %", cycles),
        (
            matrix::INSTRUCTIONS_TITLE,
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

/// From which machine the cycles are.
fn cycles(estimate: &Estimate) -> String {
    let Estimate { cpu, machine, .. } = estimate;
    format!(
        "{CYCLES} beyond those of the base, in percent of them: estimated for {cpu} (machine \
         {machine}), not measured; no verdict rests on it; * without costly instructions that were \
         not timed there"
    )
}

fn guests(sections: &[Section]) -> Legend {
    const TIME: &str = "time beyond that of the base, in percent of it";
    let delta = match sections.iter().any(|section| has(section, matrix::TIME_TITLE)) {
        true => "the same, whatever the verdict",
        false => TIME,
    };
    Legend::of([
        "The time is that of all vCPUs, in the guest and out of it. 1 µs is 1 000 instructions of \
         the host's one CPU: the host counts instructions, not time.",
        ALONE,
    ])
    .with([
        (matrix::TIME_TITLE, format!("{TIME}; - where nothing is slower or faster")),
        ("delta %", delta.to_owned()),
        (
            "exits",
            "how many more than in the base, in the layout with the median delta; then by reason"
                .to_owned(),
        ),
    ])
}
