//! What is known of each row: its bridge, its layouts, everything that was counted.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::bridge::bridge;
use super::functions::{functions, headline};
use crate::carried::{Carried, carrying};
use crate::flame::flame;
use crate::view::{Cell, Dots, Kind, Line, Picture, RowDetail, Section, Table};
use crate::{again, changes, effect, number, verdict};
use ktax_model::{Comparison, CountsComparison, Effect, Metric, Row, Side, metric};

const HOW: &str = "A bar is what one function adds to the base or saves: the numbers add up from \
                   base to change. A dashed bar is a function that only one side executes. Each \
                   layout moves code and data in memory: a line joins the two sides under one \
                   layout, and the thick one has the median delta.";

const FLAME: &str = "Each function is below the one that calls it; what a function calls that \
                     the compiler inlined on one side alone is below its caller. Its bars are as \
                     long as what it executes with all that it calls: the upper bar on the base, \
                     the lower one with the change. The lower bar is red where the function's \
                     own code executes more with the change, and the upper bar is blue where it \
                     executed more on the base. Grey bars differ by no more than layouts do. The \
                     largest differences are on the left. A function below 1 % of the row that \
                     carries little of the difference is left out. The eight rows that \
                     changed most have this picture; `ktax report DIR --explain ROW --paths \
                     svg` draws it for any row.";

/// A page with more rows says less of each: it has to stay small enough to be sent.
const LARGE_ROWS: usize = 60;
const LARGE: &str = "This page has more than 60 rows, so each has fewer functions and no layouts. \
                     `ktax report FILE --explain ROW` prints all.";

/// So many functions have a bar of their own.
const FUNCTIONS: usize = 8;
const FUNCTIONS_OF_LARGE: usize = 3;

/// So many rows, those that changed most, have a picture of their call paths.
const FLAMES: usize = 8;

const METRICS: [(&str, Kind); 8] = [
    ("metric", Kind::Words),
    ("base", Kind::Number),
    ("change", Kind::Number),
    ("delta", Kind::Number),
    ("delta %", Kind::Number),
    ("range %", Kind::Number),
    ("MDE %", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// One for each of these rows, in their order.
pub fn details(comparison: &Comparison, counts: &CountsComparison, rows: &[&Row]) -> Section {
    let with_flames = if is_large(comparison) { BTreeSet::new() } else { with_flames(rows) };
    let rows = rows.iter().enumerate();
    let rows = rows.map(|(at, row)| detail(comparison, counts, row, with_flames.contains(&at)));
    let rows = rows.collect();
    let how = if is_large(comparison) { format!("{HOW} {LARGE}") } else { HOW.to_owned() };
    Section::Rows { rows, how }
}

fn is_large(comparison: &Comparison) -> bool {
    comparison.rows.len() > LARGE_ROWS
}

/// The places of the rows that have a picture of their call paths: those that changed most.
fn with_flames(rows: &[&Row]) -> BTreeSet<usize> {
    let size = |at: &usize| {
        let changed = rows[*at].deciding().filter(|effect| effect.verdict.is_change());
        changed.map(|effect| effect.percent.unwrap_or(f64::INFINITY).abs())
    };
    let mut places: Vec<usize> = (0..rows.len()).filter(|at| size(at).is_some()).collect();
    // Stable: of equal rows the first.
    places.sort_by(|one, other| size(other).partial_cmp(&size(one)).unwrap_or(Ordering::Equal));
    places.into_iter().take(FLAMES).collect()
}

fn detail(
    comparison: &Comparison,
    counts: &CountsComparison,
    row: &Row,
    has_flame: bool,
) -> RowDetail {
    let deciding = row.deciding().or_else(|| row.effects().first());
    let mut sections = vec![operation(row)];
    let is_large = is_large(comparison);
    let functions = if is_large { FUNCTIONS_OF_LARGE } else { FUNCTIONS };
    let bridge = deciding.and_then(|it| bridge(row, it, functions));
    sections.extend(bridge.map(|bridge| Section::Picture {
        title: format!("From base to change: {} per operation", bridge.unit),
        picture: Picture::Bridge(bridge),
        how: String::new(),
    }));
    let carrying = carrying(row).filter(|_| has_flame);
    sections.extend(carrying.and_then(|it| flame(row, it)).map(|flame| Section::Picture {
        title: format!("From where it is called: {}", flame.unit),
        picture: Picture::Flame(flame),
        how: FLAME.to_owned(),
    }));
    sections.extend(call_paths(row));
    sections.extend(deciding.filter(|_| !is_large).map(|it| dots(row, it)));
    sections.push(metrics(row));
    sections.extend(seen(row));
    let alone = std::slice::from_ref(row);
    sections.push(changes::different_work(alone));
    sections.push(changes::failures(alone, changes::boot, |failed| failed.failure.next_step()));
    let again = || again::of_counts(alone, comparison.threshold_percent, counts);
    RowDetail {
        row: row.row.clone(),
        answer: deciding.map(headline).unwrap_or_default(),
        verdict: verdict::of_row(row),
        sections,
        again: if is_large { Vec::new() } else { again() },
    }
}

/// The call paths that carry most, in words; absent where none carries much.
fn call_paths(row: &Row) -> Option<Section> {
    let said = functions(std::slice::from_ref(row)).find_map(|section| match section {
        Section::Functions(functions) => Some(functions.said_paths()),
        _ => None,
    })?;
    (!said.is_empty()).then(|| Section::Sentences(vec![format!("{said}.")]))
}

fn operation(row: &Row) -> Section {
    let ops = number::whole(row.ops as f64);
    let said = match row.ops {
        1 => format!("{}. One operation was measured: {}.", row.title, row.operation),
        _ => format!("{}. One operation: {}. {ops} were measured.", row.title, row.operation),
    };
    Section::Sentences(vec![said])
}

/// The values by Layout, which the range and the MDE rest on.
fn dots(row: &Row, effect: &Effect) -> Section {
    let per_op = |count: &u64| *count as f64 / row.ops.max(1) as f64;
    let both = effect.samples.base.iter().zip(&effect.samples.change);
    let layouts = both.map(|(base, change)| (per_op(base), per_op(change))).collect();
    let unit = Carried::of(effect).unit();
    if let Some(value) = only_value(effect) {
        let value = number::count(per_op(&value));
        return Section::Sentences(vec![format!("Each layout has {value} {unit} on both sides.")]);
    }
    Section::Picture {
        title: format!("Layouts: {unit} per operation"),
        picture: Picture::Dots(Dots { layouts, median: effect.layout }),
        how: String::new(),
    }
}

/// What all Layouts of both Sides have, where that is the same.
fn only_value(effect: &Effect) -> Option<u64> {
    let mut values = effect.samples.base.iter().chain(&effect.samples.change);
    let first = *values.next()?;
    values.all(|value| *value == first).then_some(first)
}

/// Everything that was counted, also of interrupts and kernel threads, unless there was nothing.
fn metrics(row: &Row) -> Section {
    let is_there =
        |of: &&Effect| of.samples.base.iter().chain(&of.samples.change).any(|it| *it > 0);
    let line = |of: &Effect| {
        let unit = metric(&of.metric).map_or("", |metric| metric.unit);
        let cells = [
            match of.metric.as_str() {
                name if name.ends_with(unit) => name.to_owned(),
                name => format!("{name}, {unit}"),
            },
            number::count(of.base),
            number::count(of.change),
            number::delta(of.delta),
            number::percent(of.percent),
            effect::over_layouts(of),
            effect::detectable(of),
        ];
        let is_of_kind = metric(&of.metric).is_some_and(Metric::is_of_kind);
        let verdict = match is_of_kind {
            true => Cell::from(changes::more_or_less(of)),
            false => Cell::verdict(of.verdict, ""),
        };
        Line::of(cells.map(Cell::from)).and(verdict)
    };
    Section::Table {
        title: "All that was counted, per operation".to_owned(),
        table: Table::of(METRICS).with(row.effects().iter().filter(is_there).map(line)),
        notes: Vec::new(),
    }
}

/// What each Side's guest saw beside its work, where that differs.
fn seen(row: &Row) -> Option<Section> {
    let seen = row.counts()?.seen.as_ref()?;
    let names = seen.base.keys().chain(seen.change.keys()).collect::<BTreeSet<_>>();
    if seen.base == seen.change {
        return None;
    }
    let line = |name: &String| {
        let value = |side: Side| {
            seen.get(side).get(name).map(|count| number::whole(*count as f64)).unwrap_or_default()
        };
        Line::of([name.clone(), value(Side::Base), value(Side::Change)])
    };
    let columns =
        [("in the region", Kind::Words), ("base", Kind::Number), ("change", Kind::Number)];
    Some(Section::Table {
        title: "What the guest saw".to_owned(),
        table: Table::of(columns).with(names.into_iter().map(line)),
        notes: Vec::new(),
    })
}
