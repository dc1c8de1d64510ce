//! In which functions costly instructions, and counters of the model of a machine, changed.

use std::collections::BTreeMap;

use super::functions::both;
use crate::model::{Effect, FunctionDelta, Metric, Msr, Row, Sides, metric};
use crate::report::view::{Note, Section};

/// So many functions of each.
const MOST: usize = 8;

/// A line for each that changed, the largest difference first; nothing of a row without any.
pub fn kinds(row: &Row) -> Option<Section> {
    let is_wanted = |effect: &&Effect| {
        effect.verdict.is_change() && metric(&effect.metric).is_some_and(Metric::is_of_kind)
    };
    let note = |effect: &Effect| Note { row: effect.metric.clone(), text: text(effect, row.ops) };
    let notes: Vec<Note> = row.effects().iter().filter(is_wanted).map(note).collect();
    let title = "Functions that carry these changes, per operation:";
    (!notes.is_empty()).then_some(Section::Notes { title: title.to_owned(), notes })
}

fn text(effect: &Effect, ops: u64) -> String {
    let one = |function: &FunctionDelta| {
        let counts = both(counts(function)?, ops);
        Some(format!("{} {counts}{}", function.function, registers(&function.msrs, ops)))
    };
    let all: Vec<String> = effect.functions.iter().filter_map(one).collect();
    let more = match all.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(", … {more} more"),
    };
    format!("{}{more}", all[..all.len().min(MOST)].join(", "))
}

/// Of the kind that the Effect is of: a function has no other.
fn counts(function: &FunctionDelta) -> Option<&Sides<u64>> {
    function.costly.values().chain(function.modelled.values()).next()
}

/// ` (0xc0000102)`, or of several registers each with its counts; nothing where none is known.
fn registers(msrs: &BTreeMap<Msr, Sides<u64>>, ops: u64) -> String {
    let each = |(msr, counts)| match msrs.len() {
        1 => format!("{msr}"),
        _ => format!("{msr} {}", both(counts, ops)),
    };
    match msrs.is_empty() {
        true => String::new(),
        false => format!(" ({})", msrs.iter().map(each).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_register_is_named_and_several_have_their_counts() {
        let counts = |base, change| Sides { base, change };
        let one = [(Msr(0xc000_0102), counts(0, 20))].into();
        let two = [(Msr(0x1b), counts(10, 0)), (Msr(0x6e0), counts(5, 10))].into();
        let text = [BTreeMap::new(), one, two].map(|msrs| registers(&msrs, 10));
        assert_eq!(text, ["", " (0xc0000102)", " (0x1b 1.00 → 0, 0x6e0 0.50 → 1.00)"]);
    }
}
