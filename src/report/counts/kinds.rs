//! In which functions costly instructions, and counters of the model of a machine, changed.

use super::functions::both;
use crate::model::{Effect, FunctionDelta, Metric, Row, Sides, metric};
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
        Some(format!("{} {}", function.function, both(counts(function)?, ops)))
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
