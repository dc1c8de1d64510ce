use super::matrix;
use crate::model::{LedgerMethod, LedgerTable};
use crate::report::view::{Legend, Section};
use crate::report::words;

const ALONE: &str = "Each addition is added to the base alone.";

/// What the words mean that stand in these sections.
pub fn legend(ledger: &LedgerTable, sections: &[Section]) -> Legend {
    let of_method = match &ledger.method {
        LedgerMethod::Counts { .. } => counts(),
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

fn counts() -> Legend {
    Legend::of([
        "delta: instructions per operation in process context beyond those of the base, counted \
         exactly; they are not time.",
        ALONE,
    ])
    .with([
        (
            matrix::TITLE,
            "instructions and REP iterations beyond those of the base, in percent of both; - where \
             nothing is slower or faster",
        ),
        ("delta %", "delta in percent of the base's instructions"),
        ("REP", "iterations of string instructions per operation beyond those of the base"),
    ])
}

fn guests(sections: &[Section]) -> Legend {
    const TIME: &str = "time beyond that of the base, in percent of it";
    let delta = match sections.iter().any(|section| has(section, matrix::TITLE)) {
        true => "the same, whatever the verdict",
        false => TIME,
    };
    Legend::of([
        "The time is that of all vCPUs, in the guest and out of it. 1 µs is 1 000 instructions of \
         the host's one CPU: the host counts instructions, not time.",
        ALONE,
    ])
    .with([
        (matrix::TITLE, format!("{TIME}; - where nothing is slower or faster")),
        ("delta %", delta.to_owned()),
        (
            "exits",
            "how many more than in the base, in the layout with the median delta; then by reason"
                .to_owned(),
        ),
    ])
}
