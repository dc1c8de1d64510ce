//! In which functions costly instructions, and counters of the model of a machine, changed.

use std::collections::BTreeMap;

use super::functions::both;
use crate::view::{Note, Section};
use ktax_model::{Effect, FunctionDelta, Metric, Msr, Row, Sides, metric};

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
    shortened(effect.functions.iter().filter_map(one).collect(), MOST)
}

/// The first ones, and how many more there are.
fn shortened(mut all: Vec<String>, most: usize) -> String {
    let more = all.len().saturating_sub(most);
    all.truncate(most);
    all.extend((more > 0).then(|| format!("… {more} more")));
    all.join(", ")
}

/// Of the kind that the Effect is of: a function has no other.
fn counts(function: &FunctionDelta) -> Option<&Sides<u64>> {
    function.costly.values().chain(function.modelled.values()).next()
}

/// So many registers of a function.
const MOST_REGISTERS: usize = 4;

/// ` (register 0xc0000102)`, or those that differ with their counts; nothing where none is known.
fn registers(msrs: &BTreeMap<Msr, Sides<u64>>, ops: u64) -> String {
    if let (1, Some((msr, _))) = (msrs.len(), msrs.first_key_value()) {
        return format!(" (register {msr})");
    }
    let mut differing: Vec<(&Msr, &Sides<u64>)> =
        msrs.iter().filter(|(_, counts)| counts.base != counts.change).collect();
    if differing.is_empty() {
        return String::new();
    }
    differing.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.base.abs_diff(counts.change)));
    let one = |(msr, counts): (&Msr, &Sides<u64>)| format!("{msr} {}", both(counts, ops));
    let all = differing.into_iter().map(one).collect();
    format!(" (registers {})", shortened(all, MOST_REGISTERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_register_is_named_and_those_of_several_that_differ_have_their_counts() {
        let counts = |base, change| Sides { base, change };
        let one = [(Msr(0xc000_0102), counts(0, 20))].into();
        let two = [(Msr(0x1b), counts(5, 10)), (Msr(0x6e0), counts(10, 0))];
        let two = two.into_iter().chain([(Msr(0x1c), counts(7, 7))]).collect();
        let many = (0..9).map(|at| (Msr(at), counts(10, 20))).collect();
        let text = [BTreeMap::new(), one, two, many].map(|msrs| registers(&msrs, 10));
        assert_eq!(text[..2], ["", " (register 0xc0000102)"]);
        assert_eq!(text[2], " (registers 0x6e0 1.00 → 0, 0x1b 0.50 → 1.00)");
        assert!(text[3].ends_with("0x3 1.00 → 2.00, … 5 more)"), "{}", text[3]);
    }
}
