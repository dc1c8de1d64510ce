use super::matrix;
use crate::view::{Legend, Section};
use crate::words;
use ktax_model::{CYCLES, Estimate, LedgerMethod, LedgerTable};

const ALONE: &str = "Each addition is added to the base alone.";

/// What the words mean that stand in these sections.
pub fn legend(ledger: &LedgerTable, sections: &[Section]) -> Legend {
    let of_method = match &ledger.method {
        LedgerMethod::Counts { .. } => counts(matrix::machine(ledger), sections),
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

fn has_cell(section: &Section, is_wanted: fn(&str) -> bool) -> bool {
    let Section::Table { table, .. } = section else { return false };
    table.lines.iter().flat_map(|line| &line.cells).any(|cell| is_wanted(&cell.text))
}

fn counts(machine: Option<&Estimate>, sections: &[Section]) -> Legend {
    let cycles = machine.map(|estimate| cycles(estimate, sections)).unwrap_or_default();
    let is_above = sections.iter().any(|section| has(section, matrix::CYCLES_TITLE));
    let in_row = match is_above {
        true => "the estimated cycles % of this row, also where no count changed".to_owned(),
        false => cycles.clone(),
    };
    Legend::of([
        "delta: instructions per operation in process context beyond those of the base, counted \
         exactly; they are not time.",
        ALONE,
    ])
    .with([
        (matrix::CYCLES_TITLE, format!("{cycles}; - where no count changed")),
        ("cycles %", in_row),
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

/// Whether the text of a cell has a mark.
type IsMarked = fn(&str) -> bool;

/// From which machine the cycles are.
fn cycles(estimate: &Estimate, sections: &[Section]) -> String {
    let Estimate { cpu, machine, .. } = estimate;
    let mut text = format!(
        "{CYCLES} beyond those of the base, in percent of them: estimated for {cpu} (machine \
         {machine}), not measured; no verdict rests on it"
    );
    let marks: [(IsMarked, &str); 3] = [
        (
            |text| text.starts_with(matrix::AT_LEAST),
            "; ≥ where costly instructions that were not timed there come on top",
        ),
        (
            |text| text.starts_with(matrix::AT_MOST),
            "; ≤ where costly instructions that were not timed there are saved",
        ),
        (
            |text| text.ends_with(matrix::LEFT_OUT),
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
