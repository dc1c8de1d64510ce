//! Details of each row of a page: the bridge from base to change, the layouts, all metrics; and the
//! functions that carry the differences: of a row, over all rows, and by costly instruction.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::counts::paths::largest_paths;
use crate::effect::{CountKind, carrying, missing_features};
use crate::pictures::{by_size, row_flame};
use crate::view::{
    BarKind, Bridge, BridgeBar, Cell, Columns, Details, Dots, FunctionLine, Functions, Note,
    Picture, RowDetail, Section, telling_count,
};
use crate::{changes, effect, number, words};
use ktax_host::text::counted;
use ktax_model::{
    AWAITED, Comparison, Effect, FunctionDelta, MAKESPAN, Metric, Msr, Row, Side, Sides, metric,
};

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

/// Details of each row, the largest change first.
pub fn details(comparison: &Comparison) -> Details {
    let rows = by_size(&comparison.rows);
    let with_flames = if is_large(comparison) { BTreeSet::new() } else { rows_with_flames(&rows) };
    let rows = rows.iter().enumerate();
    let rows = rows.map(|(index, row)| row_detail(comparison, row, with_flames.contains(&index)));
    let large = if is_large(comparison) { LARGE_NOTE } else { "" };
    Details { rows: rows.collect(), how: format!("{HOW_TO_READ} {large}").trim_end().into() }
}

fn is_large(comparison: &Comparison) -> bool {
    comparison.rows.len() > LARGE_ROWS
}

/// Indexes of the rows that have a picture of their call paths: those that changed most.
fn rows_with_flames(rows: &[&Row]) -> BTreeSet<usize> {
    let size = |index: &usize| {
        let changed = rows[*index].deciding_effect().filter(|effect| effect.verdict.is_change());
        changed.map(|effect| effect.percent.unwrap_or(f64::INFINITY).abs())
    };
    let mut places: Vec<usize> = (0..rows.len()).filter(|index| size(index).is_some()).collect();
    // Stable: equal rows keep their order.
    places.sort_by(|one, other| size(other).partial_cmp(&size(one)).unwrap_or(Ordering::Equal));
    places.into_iter().take(FLAMES).collect()
}

fn row_detail(comparison: &Comparison, row: &Row, has_flame: bool) -> RowDetail {
    let deciding = row.deciding_effect().or_else(|| row.effects().first());
    let mut sections = vec![operation_sentence(row)];
    let is_large = is_large(comparison);
    let functions = if is_large { FUNCTIONS_OF_LARGE } else { FUNCTIONS };
    let bridge = deciding.and_then(|effect| bridge(row, effect, functions));
    sections.extend(bridge.map(|bridge| {
        let title = format!("From base to change: {} per operation", bridge.unit);
        Section::picture(title, Picture::Bridge(bridge), "")
    }));
    let carrying = carrying(row).filter(|_| has_flame);
    sections.extend(carrying.and_then(|effect| row_flame(row, effect)).map(|flame| {
        let title = format!("From where it is called: {}", flame.unit);
        Section::picture(title, Picture::Flame(flame), HOW_TO_READ_FLAME)
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
        verdict: words::verdict_cell(row),
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
    Section::sentences([match row.ops {
        1 => format!("{}. One operation was measured: {}.", row.title, row.operation),
        _ => format!("{}. One operation: {}. {ops} were measured.", row.title, row.operation),
    }])
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
    let dots = Picture::Dots(Dots { layouts, median: effect.layout });
    Section::picture(format!("Layouts: {unit} per operation"), dots, "")
}

/// Returns the value of all Layouts of both sides, if it is one.
fn only_value(effect: &Effect) -> Option<u64> {
    let mut values = effect.samples.base.iter().chain(&effect.samples.change);
    let first = *values.next()?;
    values.all(|value| *value == first).then_some(first)
}

/// Table of all counts that are not 0, also of interrupts and kernel threads.
fn metrics_table(row: &Row) -> Section {
    let is_there = |effect: &&Effect| {
        effect.samples.base.iter().chain(&effect.samples.change).any(|count| *count > 0)
    };
    let effects: Vec<&Effect> = row.effects().iter().filter(is_there).collect();
    let mut columns = Columns::new(&effects);
    columns.words("metric", |effect| {
        let unit = metric(&effect.metric).map_or("", |metric| metric.unit);
        match effect.metric.as_str() {
            name if name.ends_with(unit) => name.to_owned(),
            name => format!("{name}, {unit}"),
        }
    });
    columns.number("base", |effect| number::count(effect.base));
    columns.number("change", |effect| number::count(effect.change));
    columns.number("delta", |effect| number::delta(effect.delta));
    columns.number("delta %", |effect| number::percent(effect.percent));
    columns.number("range %", effect::over_layouts);
    columns.number("MDE %", effect::detectable);
    columns.verdict(|effect| {
        match metric(&effect.metric).is_some_and(Metric::is_costly_or_modelled) {
            true => Cell::from(changes::more_or_less(effect)),
            false => effect.verdict.into(),
        }
    });
    columns.table().titled("All that was counted, per operation")
}

/// Table of what each side's guest saw beside its work, where that differs.
fn seen_by_guest(row: &Row) -> Option<Section> {
    let seen = row.counts()?.observed_values.as_ref().filter(|seen| seen.base != seen.change)?;
    let names: BTreeSet<&String> = seen.base.keys().chain(seen.change.keys()).collect();
    let names: Vec<&String> = names.into_iter().collect();
    let value =
        |side: Side| move |name| seen.get(side).get(name).map(|count| number::whole(*count as f64));
    let mut columns = Columns::new(&names);
    columns.words("in the region", |name| name);
    columns.number("base", value(Side::Base));
    columns.number("change", value(Side::Change));
    Some(columns.table().titled("What the guest saw"))
}

/// Rounding of the counts of a region, per operation: printed values are multiples of a grain.
struct Grain {
    ops: i128,
    decimals: u32,
}

impl Grain {
    /// Whole numbers of one operation, else hundredths; finer where the delta is small.
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
    let carried: i128 = effect.functions.iter().map(|function| carried_count(function, by)).sum();
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
    let beside = |function: &FunctionDelta| by.other().delta(function, row);
    let part = |function: &FunctionDelta| BarPart {
        name: function.function.clone(),
        kind: bar_kind(function, by),
        carries: carried_count(function, by),
        from_to: from_to(function, by, row.ops),
        other: beside(function),
    };
    let deltas = effect
        .functions
        .iter()
        .map(|function| [carried_count(function, by) as f64, beside(function)]);
    let telling = telling_count(&deltas.collect::<Vec<_>>());
    let (shown, others) = effect.functions.split_at(most.min(telling));
    let rest = (!others.is_empty()).then(|| BarPart {
        name: format!("… {}", counted(others.len(), "more function")),
        kind: BarKind::Both,
        carries: others.iter().map(|function| carried_count(function, by)).sum(),
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

/// Table of the functions that carry most over all changed rows together. Operations differ from
/// row to row, so the sums are in percent of each row's base. Where REP iterations decided, those
/// are the base; such functions come last. Empty of one row, whose own section says it.
pub fn overall(rows: &[Row]) -> Section {
    let mut functions: BTreeMap<(CountKind, &str), Vec<RowShare<'_>>> = BTreeMap::new();
    let mut counts: BTreeMap<CountKind, u32> = BTreeMap::new();
    for row in rows {
        let Some(effect) = carrying(row) else { continue };
        let by = CountKind::from_effect(effect);
        // Waits and transfers may change by large factors, which would hide all else.
        let is_work = matches!(by, CountKind::Instructions | CountKind::Rep);
        if !is_work || effect.functions.is_empty() || effect.base == 0.0 {
            continue;
        }
        *counts.entry(by).or_default() += 1;
        // A missing CPU feature says nothing about the kernels; a warning names it.
        if !missing_features(row, effect).is_empty() {
            continue;
        }
        for function in &effect.functions {
            if effect.missing_feature(&function.function).is_none() {
                let part = (row.row.as_str(), by.delta(function, row) / effect.base * 100.0);
                functions.entry((by, &function.function)).or_default().push(part);
            }
        }
    }
    functions.retain(|_, parts| parts.iter().any(|(_, percent)| percent.abs() >= LEAST_PERCENT));
    let count = counts.values().sum::<u32>();
    if count < 2 {
        functions.clear();
    }
    let sum = |parts: &[RowShare<'_>]| parts.iter().map(|(_, percent)| percent).sum::<f64>();
    let mut all: Vec<_> = functions.iter().collect();
    // Stable: functions that carry as much stay in the order of their names.
    let key = |parts: &[RowShare<'_>]| sum(parts).abs();
    all.sort_by(|((by, _), one), ((other_by, _), other)| {
        by.cmp(other_by).then(key(other).total_cmp(&key(one)))
    });
    let largest = all.chunk_by(|((by, _), _), ((other, _), _)| by == other);
    let lines: Vec<_> =
        largest.flat_map(|all| all.iter().take(OVERALL_FUNCTIONS)).copied().collect();
    let most = |parts: &Vec<RowShare<'_>>| -> (String, f64) {
        let largest = parts.iter().max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()));
        largest.map_or_else(Default::default, |(row, percent)| ((*row).to_owned(), *percent))
    };
    let mean = |by: &CountKind, parts: &[RowShare<'_>]| sum(parts) / f64::from(counts[by]);
    let mut columns = Columns::new(&lines);
    columns.number("mean %", |((by, _), parts)| number::percent(Some(mean(by, parts))));
    columns.name("function", |((by, name), _)| format!("{name}{}", by.mark())).wraps();
    columns.number("rows", |(_, parts)| parts.len());
    columns.number("largest %", |(_, parts)| number::percent(Some(most(parts).1))).away(0);
    columns.row("in", |(_, parts)| most(parts).0).away(0);
    let rep = if counts.contains_key(&CountKind::Rep) { OVERALL_REP_MEANING } else { "" };
    columns.table().noted(
        format!("Functions that carry most over {}:", counted(count as usize, "changed row")),
        format!("{OVERALL_MEANING}{rep}."),
    )
}

/// Number of functions of each kind.
const MOST_FUNCTIONS: usize = 8;

/// Notes on the functions in which costly instructions, or counters of the model of a machine,
/// changed: a line for each kind, the largest difference first; empty of a row without any.
pub fn kind_functions(row: &Row) -> Section {
    let is_wanted = |effect: &&Effect| {
        effect.verdict.is_change()
            && metric(&effect.metric).is_some_and(Metric::is_costly_or_modelled)
    };
    let note = |effect: &Effect| Note {
        row: effect.metric.clone(),
        text: functions_text(effect, row.ops),
    };
    let notes = row.effects().iter().filter(is_wanted).map(note);
    Section::notes("Functions that carry these changes, per operation:", notes)
}

fn functions_text(effect: &Effect, ops: u64) -> String {
    let described = |function: &FunctionDelta| {
        let counts = counts_from_to(kind_counts(function)?, ops);
        Some(format!("{} {counts}{}", function.function, registers_text(&function.msrs, ops)))
    };
    shortened(effect.functions.iter().filter_map(described).collect(), MOST_FUNCTIONS)
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

/// ` (register 0xc0000102)`, or those that differ; empty where none is known.
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
