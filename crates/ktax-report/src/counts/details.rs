//! Details of each row of a page: the bridge from base to change, the layouts, all metrics.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::carried::{CountKind, carrying};
use crate::counts::functions::{change_summary, from_to, functions};
use crate::flame::row_flame;
use crate::view::{
    BarKind, Bridge, BridgeBar, Cell, Dots, Kind, Line, Picture, RowDetail, Section, Table,
    telling_count,
};
use crate::{changes, effect, number, verdict};
use ktax_host::text::counted;
use ktax_model::{Comparison, Effect, FunctionDelta, Metric, Row, Side, Sides, metric};

const HOW_TO_READ: &str = "A bar is what one function adds to the base or saves: the numbers add \
                           up from base to change. A dashed bar is a function that only one side \
                           executes. Each layout moves code and data in memory: a line joins the \
                           two sides under one layout, and the thick one has the median delta.";

const HOW_TO_READ_FLAME: &str = "Each function is below the one that calls it; what a function \
                                 calls that the compiler inlined on one side alone is below its \
                                 caller. Its bars are as long as what it executes with all that \
                                 it calls: the upper bar on the base, the lower one with the \
                                 change. The lower bar is red where the function's own code \
                                 executes more with the change, and the upper bar is blue where \
                                 it executed more on the base. Grey bars differ by no more than \
                                 layouts do. The largest differences are on the left. A function \
                                 below 1 % of the row that carries little of the difference is \
                                 left out. The eight rows that changed most have this picture; \
                                 `ktax report DIR --explain ROW --paths svg` draws it for any row.";

/// Number of rows above which a page says less of each: it has to stay small enough to be sent.
const LARGE_ROWS: usize = 60;
const LARGE_NOTE: &str = "This page has more than 60 rows, so each has fewer functions and no \
                          layouts. `ktax report FILE --explain ROW` prints all.";

/// Number of functions that have a bar of their own.
const FUNCTIONS: usize = 8;
const FUNCTIONS_OF_LARGE: usize = 3;

/// Number of rows, those that changed most, that have a picture of their call paths.
const FLAMES: usize = 8;

const METRIC_COLUMNS: [(&str, Kind); 8] = [
    ("metric", Kind::Words),
    ("base", Kind::Number),
    ("change", Kind::Number),
    ("delta", Kind::Number),
    ("delta %", Kind::Number),
    ("range %", Kind::Number),
    ("MDE %", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// Details of these rows, in their order.
pub fn details(comparison: &Comparison, rows: &[&Row]) -> Section {
    let with_flames = if is_large(comparison) { BTreeSet::new() } else { rows_with_flames(rows) };
    let rows = rows.iter().enumerate();
    let rows = rows.map(|(index, row)| row_detail(comparison, row, with_flames.contains(&index)));
    let rows = rows.collect();
    let how = if is_large(comparison) {
        format!("{HOW_TO_READ} {LARGE_NOTE}")
    } else {
        HOW_TO_READ.to_owned()
    };
    Section::Rows { rows, how }
}

fn is_large(comparison: &Comparison) -> bool {
    comparison.rows.len() > LARGE_ROWS
}

/// Indexes of the rows that have a picture of their call paths: those that changed most.
fn rows_with_flames(rows: &[&Row]) -> BTreeSet<usize> {
    let size = |index: &usize| {
        let changed = rows[*index].deciding().filter(|effect| effect.verdict.is_change());
        changed.map(|effect| effect.percent.unwrap_or(f64::INFINITY).abs())
    };
    let mut places: Vec<usize> = (0..rows.len()).filter(|index| size(index).is_some()).collect();
    // Stable: equal rows keep their order.
    places.sort_by(|one, other| size(other).partial_cmp(&size(one)).unwrap_or(Ordering::Equal));
    places.into_iter().take(FLAMES).collect()
}

fn row_detail(comparison: &Comparison, row: &Row, has_flame: bool) -> RowDetail {
    let deciding = row.deciding().or_else(|| row.effects().first());
    let mut sections = vec![operation_sentence(row)];
    let is_large = is_large(comparison);
    let functions = if is_large { FUNCTIONS_OF_LARGE } else { FUNCTIONS };
    let bridge = deciding.and_then(|effect| bridge(row, effect, functions));
    sections.extend(bridge.map(|bridge| Section::Picture {
        title: format!("From base to change: {} per operation", bridge.unit),
        picture: Picture::Bridge(bridge),
        how: String::new(),
    }));
    let carrying = carrying(row).filter(|_| has_flame);
    sections.extend(carrying.and_then(|effect| row_flame(row, effect)).map(|flame| {
        Section::Picture {
            title: format!("From where it is called: {}", flame.unit),
            picture: Picture::Flame(flame),
            how: HOW_TO_READ_FLAME.to_owned(),
        }
    }));
    sections.extend(call_paths_sentence(row));
    sections.extend(deciding.filter(|_| !is_large).map(|effect| layout_dots(row, effect)));
    sections.push(metrics_table(row));
    sections.extend(seen_by_guest(row));
    let alone = std::slice::from_ref(row);
    sections.push(changes::different_work(alone));
    sections
        .push(changes::failures(alone, changes::failed_boot, |failed| failed.failure.next_step()));
    let again = || ktax_plan::again(comparison, alone);
    RowDetail {
        row: row.row.clone(),
        answer: deciding.map(change_summary).unwrap_or_default(),
        verdict: verdict::cell(row),
        sections,
        again: if is_large { Vec::new() } else { again() },
    }
}

/// Section with the call paths that carry most, in words; `None` where none carries much.
fn call_paths_sentence(row: &Row) -> Option<Section> {
    let sentence = functions(std::slice::from_ref(row)).find_map(|section| match section {
        Section::Functions(functions) => Some(functions.paths_sentence()),
        _ => None,
    })?;
    (!sentence.is_empty()).then(|| Section::Sentences(vec![format!("{sentence}.")]))
}

fn operation_sentence(row: &Row) -> Section {
    let ops = number::whole(row.ops as f64);
    let sentence = match row.ops {
        1 => format!("{}. One operation was measured: {}.", row.title, row.operation),
        _ => format!("{}. One operation: {}. {ops} were measured.", row.title, row.operation),
    };
    Section::Sentences(vec![sentence])
}

/// Picture of the values by Layout, which the range and the MDE rest on.
fn layout_dots(row: &Row, effect: &Effect) -> Section {
    let per_op = |count: &u64| number::per_op(*count, row.ops);
    let both = effect.samples.base.iter().zip(&effect.samples.change);
    let layouts = both.map(|(base, change)| (per_op(base), per_op(change))).collect();
    let unit = CountKind::from_effect(effect).unit();
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

/// Returns the value of all Layouts of both sides, if it is one.
fn only_value(effect: &Effect) -> Option<u64> {
    let mut values = effect.samples.base.iter().chain(&effect.samples.change);
    let first = *values.next()?;
    values.all(|value| *value == first).then_some(first)
}

/// Table of everything that was counted, also of interrupts and kernel threads, unless there was
/// nothing.
fn metrics_table(row: &Row) -> Section {
    let is_there = |effect: &&Effect| {
        effect.samples.base.iter().chain(&effect.samples.change).any(|count| *count > 0)
    };
    let line = |effect: &Effect| {
        let unit = metric(&effect.metric).map_or("", |metric| metric.unit);
        let cells = [
            match effect.metric.as_str() {
                name if name.ends_with(unit) => name.to_owned(),
                name => format!("{name}, {unit}"),
            },
            number::count(effect.base),
            number::count(effect.change),
            number::delta(effect.delta),
            number::percent(effect.percent),
            effect::over_layouts(effect),
            effect::detectable(effect),
        ];
        let is_of_kind = metric(&effect.metric).is_some_and(Metric::is_of_kind);
        let verdict = match is_of_kind {
            true => Cell::from(changes::more_or_less(effect)),
            false => Cell::verdict(effect.verdict, ""),
        };
        Line::new(cells.map(Cell::from)).and(verdict)
    };
    Section::Table {
        title: "All that was counted, per operation".to_owned(),
        table: Table::new(METRIC_COLUMNS).with(row.effects().iter().filter(is_there).map(line)),
        notes: Vec::new(),
    }
}

/// Table of what each side's guest saw beside its work, where that differs.
fn seen_by_guest(row: &Row) -> Option<Section> {
    let seen = row.counts()?.seen.as_ref()?;
    let names = seen.base.keys().chain(seen.change.keys()).collect::<BTreeSet<_>>();
    if seen.base == seen.change {
        return None;
    }
    let line = |name: &String| {
        let value = |side: Side| {
            seen.get(side).get(name).map(|count| number::whole(*count as f64)).unwrap_or_default()
        };
        Line::new([name.clone(), value(Side::Base), value(Side::Change)])
    };
    let columns =
        [("in the region", Kind::Words), ("base", Kind::Number), ("change", Kind::Number)];
    Some(Section::Table {
        title: "What the guest saw".to_owned(),
        table: Table::new(columns).with(names.into_iter().map(line)),
        notes: Vec::new(),
    })
}

/// Rounding of the counts of a region, per operation: printed values are multiples of a grain.
struct Grain {
    ops: i128,
    decimals: u32,
}

impl Grain {
    /// Rounds to whole numbers of one operation, otherwise to hundredths; finer where the delta is
    /// small.
    fn new(ops: u64, delta: f64) -> Grain {
        let decimals = match (ops, delta.abs()) {
            (0 | 1, _) => 0,
            (_, delta) if delta < 0.1 => 4,
            _ => 2,
        };
        Grain { ops: i128::from(ops.max(1)), decimals }
    }

    /// Returns the multiple nearest to a count of a whole region.
    fn round(&self, count: i128) -> i128 {
        (count * 10_i128.pow(self.decimals) * 2 + self.ops).div_euclid(self.ops * 2)
    }

    fn per_op(&self, count: i128) -> f64 {
        count as f64 / self.ops as f64
    }

    fn shown(&self, multiple: i128, is_delta: bool) -> String {
        if is_delta && multiple == 0 {
            return "0".to_owned();
        }
        let value = multiple as f64 / 10_f64.powi(self.decimals as i32);
        number::with_decimals(value, self.decimals as usize, is_delta)
    }
}

/// Bridge of the deciding Effect: at most `most` functions, the largest first, and all others as
/// one. `None` where no functions are known.
///
/// A bar's number is the difference of two rounded sums, so that the numbers add up whatever the
/// rounding does to one of them.
fn bridge(row: &Row, effect: &Effect, most: usize) -> Option<Bridge> {
    let by = CountKind::from_effect(effect);
    let Sides { base, change } = effect.counts()?;
    let [base, change] = [base, change].map(i128::from);
    let carried: i128 = effect.functions.iter().map(|one| carried_count(one, by)).sum();
    if effect.functions.is_empty() || base + carried != change {
        return None;
    }
    let grain = Grain::new(row.ops, effect.delta);
    let mut bars = vec![side_bar("base", base, base, &grain)];
    let mut reached = base;
    for part in bar_parts(effect, by, row, most) {
        let (from, to) = (reached, reached + part.carries);
        reached = to;
        bars.push(BridgeBar {
            name: part.name,
            kind: part.kind,
            span: (grain.per_op(from - base), grain.per_op(to - base)),
            shown: grain.shown(grain.round(to) - grain.round(from), true),
            from_to: part.from_to,
            other: if part.other == 0.0 { String::new() } else { number::delta(part.other) },
        });
    }
    bars.push(side_bar("change", change, base, &grain));
    Some(Bridge { unit: by.unit(), other: by.other().short(), bars })
}

fn side_bar(name: &str, count: i128, base: i128, grain: &Grain) -> BridgeBar {
    BridgeBar {
        name: name.to_owned(),
        kind: BarKind::Side,
        span: (0.0, grain.per_op(count - base)),
        shown: grain.shown(grain.round(count), false),
        from_to: String::new(),
        other: String::new(),
    }
}

/// Bar before it has its place.
struct BarPart {
    name: String,
    kind: BarKind,
    /// Count of the region, change minus base.
    carries: i128,
    from_to: String,
    other: f64,
}

/// Returns the largest functions, and all others as one.
fn bar_parts(effect: &Effect, by: CountKind, row: &Row, most: usize) -> Vec<BarPart> {
    let beside = |one: &FunctionDelta| by.other().delta(one, row);
    let part = |one: &FunctionDelta| BarPart {
        name: one.function.clone(),
        kind: bar_kind(one, by),
        carries: carried_count(one, by),
        from_to: from_to(one, by, row.ops),
        other: beside(one),
    };
    let deltas = effect.functions.iter().map(|one| [carried_count(one, by) as f64, beside(one)]);
    let telling = telling_count(&deltas.collect::<Vec<_>>());
    let (shown, others) = effect.functions.split_at(most.min(telling));
    let rest = (!others.is_empty()).then(|| BarPart {
        name: format!("… {}", counted(others.len(), "more function")),
        kind: BarKind::Both,
        carries: others.iter().map(|one| carried_count(one, by)).sum(),
        from_to: String::new(),
        other: others.iter().map(beside).sum(),
    });
    shown.iter().map(part).chain(rest).collect()
}

fn carried_count(function: &FunctionDelta, by: CountKind) -> i128 {
    let counts = by.counts(function);
    i128::from(counts.change) - i128::from(counts.base)
}

/// Tells whether both sides execute a function, or which one.
fn bar_kind(function: &FunctionDelta, by: CountKind) -> BarKind {
    match (by.counts(function).base, by.counts(function).change) {
        (0, 1..) => BarKind::New,
        (1.., 0) => BarKind::Gone,
        _ => BarKind::Both,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    proptest! {
        /// Whatever the counts and the number of operations.
        #[test]
        fn printed_bars_add_up(
            ops in 1..100_000_u64, base in 0..1_i128 << 50,
            steps in prop::collection::vec(-1_i128 << 40..1_i128 << 40, 0..20)
        ) {
            let grain = Grain { ops: i128::from(ops), decimals: 2 };
            let (mut reached, mut sum) = (base, grain.round(base));
            for step in steps {
                sum += grain.round(reached + step) - grain.round(reached);
                reached += step;
            }
            prop_assert_eq!(sum, grain.round(reached));
        }
    }

    #[test]
    fn counts_are_rounded_to_the_nearest() {
        let grain = Grain { ops: 3, decimals: 2 };
        assert_eq!(
            [0, 1, 2, 3, -1, -2].map(|count| grain.round(count)),
            [0, 33, 67, 100, -33, -67]
        );
        assert_eq!(grain.shown(-123_456, true), "-1 234.56");
        assert_eq!(grain.shown(123_456, false), "1 234.56");
        assert_eq!(grain.shown(0, true), "0");
    }
}
