//! Functions that carry the differences: of a row, over all rows, and by costly instruction.

use std::collections::BTreeMap;

use crate::carried::{CountKind, carrying, missing_features};
use crate::counts::paths::largest_paths;
use crate::view::{Cell, FunctionLine, Functions, Kind, Line, Note, Section, Table};
use crate::{effect, number};
use ktax_host::text::counted;
use ktax_model::{AWAITED, Effect, FunctionDelta, MAKESPAN, Metric, Msr, Row, Sides, metric};

/// Sections of the functions that carry the difference of each changed row.
pub fn functions(rows: &[Row]) -> impl Iterator<Item = Section> {
    let changed = rows.iter().filter_map(|row| Some((row, carrying(row)?)));
    changed.map(|(row, effect)| Section::Functions(row_functions(row, effect)))
}

fn row_functions(row: &Row, effect: &Effect) -> Functions {
    let carried = CountKind::from_effect(effect);
    let line = |function: &FunctionDelta| {
        let [delta, other] = [carried, carried.other()].map(|count| count.delta(function, row));
        let from_to = from_to(function, carried, row.ops);
        FunctionLine { function: function.function.clone(), delta, from_to, other }
    };
    Functions {
        row: row.row.clone(),
        effect: change_summary(effect),
        size_percent: effect.percent.map_or(f64::INFINITY, f64::abs),
        operation: row.operation.clone(),
        other: carried.other().short(),
        is_whole: false,
        lines: effect.functions.iter().map(line).collect(),
        paths: largest_paths(effect, row.ops),
    }
}

/// Formats the counts that decide, per operation: `25.00 → 168.00`.
pub fn from_to(function: &FunctionDelta, carried: CountKind, ops: u64) -> String {
    counts_from_to(carried.counts(function), ops)
}

/// Formats the counts of both sides, per operation.
fn counts_from_to(counts: &Sides<u64>, ops: u64) -> String {
    let per_op = |count: u64| number::count(number::per_op(count, ops));
    format!("{} → {}", per_op(counts.base), per_op(counts.change))
}

/// Summarises a change: `+404.00 instructions (+1.22 %, the same in every layout)`.
pub fn change_summary(effect: &Effect) -> String {
    let (least, most) = effect.delta_range;
    let layouts = if least == most {
        "the same in every layout".to_owned()
    } else {
        format!("over layouts {} %", effect::over_layouts(effect))
    };
    let (delta, percent) = (number::delta(effect.delta), number::percent(effect.percent));
    let unit = match effect.metric.as_str() {
        MAKESPAN => "instructions of makespan",
        AWAITED => "instructions of kernel threads that it waits for",
        _ => CountKind::from_effect(effect).unit(),
    };
    format!("{delta} {unit} ({percent} %, {layouts})")
}

/// Number of functions that are shown; the rows below have all of theirs.
const OVERALL_FUNCTIONS: usize = 5;

/// Percent of a row's base below which a function reads 0.00 % there.
const LEAST_PERCENT: f64 = 0.005;

/// Row in which a function carries something, and its share in percent of the row's base.
type RowShare<'a> = (&'a str, f64);

const OVERALL_MEANING: &str = "mean %: what the function carries in percent of a row's base, \
                               averaged over all changed rows";
const OVERALL_REP_MEANING: &str =
    "; with (REP), in percent of REP iterations, over the rows that they decided";

const OVERALL_COLUMNS: [(&str, Kind); 5] = [
    ("mean %", Kind::Number),
    ("function", Kind::Name),
    ("rows", Kind::Number),
    ("largest %", Kind::Number),
    ("in", Kind::Row),
];

/// Table of the functions that carry most over all changed rows together. Operations differ from
/// row to row, so the sums are in percent of each row's base. Where REP iterations decided, those
/// are the base; such functions come last. `None` of one row, whose own section says it.
pub fn overall(rows: &[Row]) -> Option<Section> {
    let mut functions: BTreeMap<(&str, CountKind), Vec<RowShare<'_>>> = BTreeMap::new();
    let changed = rows.iter().filter_map(|row| Some((row, carrying(row)?)));
    // Waits and transfers may change by large factors, which would hide all else.
    let is_work = |by: CountKind| matches!(by, CountKind::Instructions | CountKind::Rep);
    let changed = changed.filter(|(_, effect)| is_work(CountKind::from_effect(effect)));
    let changed = changed.filter(|(_, effect)| !effect.functions.is_empty() && effect.base != 0.0);
    let mut counts: BTreeMap<CountKind, u32> = BTreeMap::new();
    for (row, effect) in changed {
        let by = CountKind::from_effect(effect);
        *counts.entry(by).or_default() += 1;
        // What a missing CPU feature explains says nothing of the kernels; a warning names it.
        if !missing_features(row, effect).is_empty() {
            continue;
        }
        let is_kernel_difference =
            |delta: &&FunctionDelta| effect.lacking(&delta.function).is_none();
        for function in effect.functions.iter().filter(is_kernel_difference) {
            let delta = by.delta(function, row);
            let part = (row.row.as_str(), delta / effect.base * 100.0);
            functions.entry((&function.function, by)).or_default().push(part);
        }
    }
    functions.retain(|_, parts| parts.iter().any(|(_, percent)| percent.abs() >= LEAST_PERCENT));
    let count = counts.values().sum::<u32>();
    if count < 2 || functions.is_empty() {
        return None;
    }
    let sum = |parts: &[RowShare<'_>]| parts.iter().map(|(_, percent)| percent).sum::<f64>();
    let mut all: Vec<_> = functions.into_iter().collect();
    all.sort_by(|(_, one), (_, other)| sum(other).abs().total_cmp(&sum(one).abs()));
    let largest = |by: CountKind| {
        all.iter().filter(move |((_, kind), _)| *kind == by).take(OVERALL_FUNCTIONS)
    };
    let lines = [CountKind::Instructions, CountKind::Rep].into_iter().flat_map(largest).map(
        |((function, by), parts)| {
            let size = |percent: f64| percent.abs();
            let (row, largest) = parts
                .iter()
                .max_by(|(_, one), (_, other)| size(*one).total_cmp(&size(*other)))
                .expect("a function is there because a row has it");
            let mean = number::percent(Some(sum(parts) / f64::from(counts[by])));
            let name = format!("{function}{}", by.mark());
            let largest = number::percent(Some(*largest));
            Line::new(
                [mean, name, parts.len().to_string(), largest, (*row).to_owned()].map(Cell::from),
            )
        },
    );
    let lines: Vec<Line> = lines.collect();
    Some(Section::Table {
        title: format!(
            "Functions that carry most over {}:",
            counted(count as usize, "changed row")
        ),
        table: Table { gives_way: vec![vec![3, 4]], wraps: 1, ..Table::new(OVERALL_COLUMNS) }
            .with(lines),
        notes: vec![format!(
            "{OVERALL_MEANING}{}.",
            if counts.contains_key(&CountKind::Rep) { OVERALL_REP_MEANING } else { "" }
        )],
    })
}

/// Number of functions of each kind.
const MOST_FUNCTIONS: usize = 8;

/// Notes on the functions in which costly instructions, or counters of the model of a machine,
/// changed: a line for each kind, the largest difference first; `None` of a row without any.
pub fn kind_functions(row: &Row) -> Option<Section> {
    let is_wanted = |effect: &&Effect| {
        effect.verdict.is_change() && metric(&effect.metric).is_some_and(Metric::is_of_kind)
    };
    let note = |effect: &Effect| Note {
        row: effect.metric.clone(),
        text: functions_text(effect, row.ops),
    };
    let notes: Vec<Note> = row.effects().iter().filter(is_wanted).map(note).collect();
    let title = "Functions that carry these changes, per operation:";
    (!notes.is_empty()).then_some(Section::Notes { title: title.to_owned(), notes })
}

fn functions_text(effect: &Effect, ops: u64) -> String {
    let one = |function: &FunctionDelta| {
        let counts = counts_from_to(kind_counts(function)?, ops);
        Some(format!("{} {counts}{}", function.function, registers_text(&function.msrs, ops)))
    };
    shortened(effect.functions.iter().filter_map(one).collect(), MOST_FUNCTIONS)
}

/// Joins the first ones, and says how many more there are.
fn shortened(mut all: Vec<String>, most: usize) -> String {
    let more = all.len().saturating_sub(most);
    all.truncate(most);
    all.extend((more > 0).then(|| format!("… {more} more")));
    all.join(", ")
}

/// Returns the counts of the Effect's kind: a function has no other.
fn kind_counts(function: &FunctionDelta) -> Option<&Sides<u64>> {
    function.costly.values().chain(function.modelled.values()).next()
}

/// Number of registers of a function.
const MOST_REGISTERS: usize = 4;

/// Names the register, ` (register 0xc0000102)`, or those that differ with their counts; empty
/// where none is known.
fn registers_text(msrs: &BTreeMap<Msr, Sides<u64>>, ops: u64) -> String {
    if let (1, Some((msr, _))) = (msrs.len(), msrs.first_key_value()) {
        return format!(" (register {msr})");
    }
    let mut differing: Vec<(&Msr, &Sides<u64>)> =
        msrs.iter().filter(|(_, counts)| counts.base != counts.change).collect();
    if differing.is_empty() {
        return String::new();
    }
    differing.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.base.abs_diff(counts.change)));
    let one = |(msr, counts): (&Msr, &Sides<u64>)| format!("{msr} {}", counts_from_to(counts, ops));
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
        let many = (0..9).map(|number| (Msr(number), counts(10, 20))).collect();
        let text = [BTreeMap::new(), one, two, many].map(|msrs| registers_text(&msrs, 10));
        assert_eq!(text[..2], ["", " (register 0xc0000102)"]);
        assert_eq!(text[2], " (registers 0x6e0 1.00 → 0, 0x1b 0.50 → 1.00)");
        assert!(text[3].ends_with("0x3 1.00 → 2.00, … 5 more)"), "{}", text[3]);
    }
}
