use std::collections::BTreeMap;

use crate::carried::{Carried, carrying, missing_features};
use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_host::text::counted;
use ktax_model::{FunctionDelta, Row};

/// So many functions are shown; the rows below have all of theirs.
const SHOWN: usize = 5;

/// What carries less in every row, in percent of its base, is 0.00 % there.
const LEAST_PERCENT: f64 = 0.005;

/// A function in a changed row: the row, and what it carries there in percent of the row's base.
type Part<'a> = (&'a str, f64);

const MEANING: &str = "mean %: what the function carries in percent of a row's base, averaged over \
                       all changed rows";
const OF_REP: &str = "; with (REP), in percent of REP iterations, over the rows that they decided";

const COLUMNS: [(&str, Kind); 5] = [
    ("mean %", Kind::Number),
    ("function", Kind::Name),
    ("rows", Kind::Number),
    ("largest %", Kind::Number),
    ("in", Kind::Row),
];

/// The functions that carry most over all changed rows together. Operations differ from row to row,
/// so what is added up is in percent of each row's base. Where REP iterations decided, those are
/// the base; such functions come last. A row alone says it itself.
pub fn overall(rows: &[Row]) -> Option<Section> {
    let mut functions: BTreeMap<(&str, Carried), Vec<Part<'_>>> = BTreeMap::new();
    let changed = rows.iter().filter_map(|row| Some((row, carrying(row)?)));
    // What CPUs waited, or passed to each other, may be many times what it was.
    let is_work = |by: Carried| matches!(by, Carried::Instructions | Carried::Rep);
    let changed = changed.filter(|(_, effect)| is_work(Carried::of(effect)));
    let changed = changed.filter(|(_, effect)| !effect.functions.is_empty() && effect.base != 0.0);
    let mut counts: BTreeMap<Carried, u32> = BTreeMap::new();
    for (row, effect) in changed {
        let by = Carried::of(effect);
        *counts.entry(by).or_default() += 1;
        // What only this CPU makes them differ by says nothing of the kernels; a warning names it.
        if !missing_features(row, effect).is_empty() {
            continue;
        }
        let of_kernels = |delta: &&FunctionDelta| effect.lacking(&delta.function).is_none();
        for function in effect.functions.iter().filter(of_kernels) {
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
    let sum = |parts: &[Part<'_>]| parts.iter().map(|(_, percent)| percent).sum::<f64>();
    let mut all: Vec<_> = functions.into_iter().collect();
    all.sort_by(|(_, one), (_, other)| sum(other).abs().total_cmp(&sum(one).abs()));
    let of_kind = |by: Carried| all.iter().filter(move |((_, of), _)| *of == by).take(SHOWN);
    let lines = [Carried::Instructions, Carried::Rep].into_iter().flat_map(of_kind).map(
        |((function, by), parts)| {
            let size = |percent: f64| percent.abs();
            let (row, largest) = parts
                .iter()
                .max_by(|(_, one), (_, other)| size(*one).total_cmp(&size(*other)))
                .expect("a function is there because a row has it");
            let mean = number::percent(Some(sum(parts) / f64::from(counts[by])));
            let name = format!("{function}{}", by.mark());
            let largest = number::percent(Some(*largest));
            Line::of(
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
        table: Table { gives_way: vec![vec![3, 4]], wraps: 1, ..Table::of(COLUMNS) }.with(lines),
        notes: vec![format!(
            "{MEANING}{}.",
            if counts.contains_key(&Carried::Rep) { OF_REP } else { "" }
        )],
    })
}
