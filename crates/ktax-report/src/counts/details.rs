//! Details of each row of a page (the waterfall chart from base to change, the layouts, all
//! metrics), and the functions that carry the differences: of a row, over all rows, and by costly
//! instruction.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use crate::counts::paths::largest_paths;
use crate::effect::{CountKind, carrying, missing_features};
use crate::pictures::{by_size, row_flame};
use crate::view::{
    BarKind, Bridge, BridgeBar, Cell, Columns, Details, Dots, FunctionLine, Note, Picture,
    RowDetail, RowFunctions, Section, significant_count,
};
use crate::{changes, effect, number, words};
use ktax_host::text::counted;
use ktax_model::{
    AWAITED, Comparison, Effect, FunctionDelta, MAKESPAN, Metric, Msr, Row, Side, Sides, metric,
};

const HOW_TO_READ: &str = "A bar is what one function adds to the base or saves; the numbers add \
                           up from base to change. A dashed bar is a function that only one side \
                           executes. Each layout moves code and data in memory. A line joins the \
                           two sides under one layout; the thick line is the layout with the \
                           median delta.";

const HOW_TO_READ_FLAME: &str = "Each function is below its caller. If the compiler inlined a \
                                 function on one side only, the functions that it calls are below \
                                 its caller. The length of a bar is the count with callees: the \
                                 upper bar of the base, the lower bar of the change. The lower bar \
                                 is red where the function's own code executes more with the \
                                 change; the upper bar is blue where it executed more on the base. \
                                 Grey bars differ by no more than the layouts do. The largest \
                                 differences are on the left. Functions below 1 % of the row that \
                                 carry little of the difference are left out. The eight rows that \
                                 changed most have this picture; `ktax report DIR --explain ROW \
                                 --paths svg` draws it for any row.";

/// Number of rows above which a page has fewer details of each row, because the page has to stay
/// small enough to be sent.
const LARGE_ROWS: usize = 60;
const LARGE_NOTE: &str = "This page has more than 60 rows, so each has fewer functions and no \
                          layouts. `ktax report FILE --explain ROW` prints all.";

/// Maximum number of functions with a bar of their own.
const MAX_BARS: usize = 8;
/// Maximum number of functions with a bar of their own, on a page with more than [`LARGE_ROWS`].
const MAX_BARS_OF_LARGE: usize = 3;

/// Maximum number of rows with a flame graph.
const MAX_FLAMES: usize = 8;

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

/// Returns the indexes of the rows with a flame graph: the rows that changed most.
fn rows_with_flames(rows: &[&Row]) -> BTreeSet<usize> {
    let size = |index: &usize| {
        let changed = rows[*index].deciding_effect().filter(|effect| effect.verdict.is_change());
        changed.map(|effect| effect.percent.unwrap_or(f64::INFINITY).abs())
    };
    let mut indexes: Vec<usize> = (0..rows.len()).filter(|index| size(index).is_some()).collect();
    // A stable sort: rows with equal changes keep their order.
    indexes.sort_by(|one, other| size(other).partial_cmp(&size(one)).unwrap_or(Ordering::Equal));
    indexes.into_iter().take(MAX_FLAMES).collect()
}

fn row_detail(comparison: &Comparison, row: &Row, has_flame: bool) -> RowDetail {
    let deciding = row.deciding_effect().or_else(|| row.effects().first());
    let mut sections = vec![operation_sentence(row)];
    let is_large = is_large(comparison);
    let functions = if is_large { MAX_BARS_OF_LARGE } else { MAX_BARS };
    let bridge = deciding.and_then(|effect| bridge(row, effect, functions));
    sections.extend(bridge.map(|bridge| {
        let title = format!("From base to change: {} per operation", bridge.unit);
        Section::picture(title, Picture::Bridge(bridge), "")
    }));
    let carrying = carrying(row).filter(|_| has_flame);
    sections.extend(carrying.and_then(|effect| row_flame(row, effect)).map(|flame| {
        let title = format!("Call paths: {}", flame.unit);
        Section::picture(title, Picture::Flame(flame), HOW_TO_READ_FLAME)
    }));
    sections.extend(call_paths_sentence(row));
    sections.extend(deciding.filter(|_| !is_large).map(|effect| layout_dots(row, effect)));
    sections.push(metrics_table(row));
    sections.extend(seen_by_guest(row));
    let one_row = std::slice::from_ref(row);
    sections.push(changes::different_work(one_row));
    sections.push(changes::failures(one_row, changes::failed_boot, |failed| {
        failed.failure.next_step()
    }));
    let again = || ktax_plan::repeat_command(comparison, one_row);
    RowDetail {
        row: row.row.clone(),
        answer: deciding.map(change_summary).unwrap_or_default(),
        verdict: words::verdict_cell(row),
        sections,
        again: if is_large { Vec::new() } else { again() },
    }
}

/// Section with a sentence about the call paths that carry most; `None` without such paths.
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

/// Picture of the values by Layout, from which the range and the MDE are computed. A sentence, if
/// all values are equal.
fn layout_dots(row: &Row, effect: &Effect) -> Section {
    let per_op = |count: &u64| number::per_op(*count, row.ops);
    let samples = effect.samples.base.iter().zip(&effect.samples.change);
    let layouts = samples.map(|(base, change)| (per_op(base), per_op(change))).collect();
    let unit = CountKind::from_effect(effect).unit();
    if let Some(value) = common_value(effect) {
        let value = number::count(per_op(&value));
        return Section::Sentences(vec![format!("Each layout has {value} {unit} on both sides.")]);
    }
    let dots = Picture::Dots(Dots { layouts, median: effect.layout });
    Section::picture(format!("Layouts: {unit} per operation"), dots, "")
}

/// Returns the value that all Layouts of both sides have; `None` if values differ.
fn common_value(effect: &Effect) -> Option<u64> {
    let mut values = effect.samples.base.iter().chain(&effect.samples.change);
    let first = *values.next()?;
    values.all(|value| *value == first).then_some(first)
}

/// Table of all counts that are not 0, including those of interrupts and kernel threads.
fn metrics_table(row: &Row) -> Section {
    let is_counted = |effect: &&Effect| {
        effect.samples.base.iter().chain(&effect.samples.change).any(|count| *count > 0)
    };
    let effects: Vec<&Effect> = row.effects().iter().filter(is_counted).collect();
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
    columns.table().with_title("All counts, per operation")
}

/// Table of the values that the guests of both sides counted, such as page faults; `None` if the
/// sides do not differ.
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
    Some(columns.table().with_title("Counted by the guest"))
}

/// Rounding of counts of a region: printed values per operation are multiples of a grain, which is
/// 1, 0.01 or 0.0001.
struct Grain {
    ops: i128,
    decimals: u32,
}

impl Grain {
    /// Returns a grain of 1 for one operation, 0.0001 for a small delta, else 0.01.
    fn new(ops: u64, delta: f64) -> Grain {
        let decimals = match (ops, delta.abs()) {
            (0 | 1, _) => 0,
            (_, delta) if delta < 0.1 => 4,
            _ => 2,
        };
        Grain { ops: i128::from(ops.max(1)), decimals }
    }

    /// Returns the multiple of the grain that is nearest to a count of the region.
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

/// Waterfall chart of the deciding Effect: a bar for each of the largest functions, at most
/// `limit`, and one bar for all others. `None` if the functions are not known or do not add up.
///
/// The number of a bar is the difference of two rounded sums, so that the printed numbers add up.
fn bridge(row: &Row, effect: &Effect, limit: usize) -> Option<Bridge> {
    let by = CountKind::from_effect(effect);
    let Sides { base, change } = effect.counts()?;
    let [base, change] = [base, change].map(i128::from);
    let carried: i128 = effect.functions.iter().map(|function| carried_count(function, by)).sum();
    if effect.functions.is_empty() || base + carried != change {
        return None;
    }
    let grain = Grain::new(row.ops, effect.delta);
    let mut bars = vec![side_bar("base", base, base, &grain)];
    let mut sum = base;
    for part in bar_parts(effect, by, row, limit) {
        let (from, to) = (sum, sum + part.count_delta);
        sum = to;
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

/// Bar of a [`Bridge`] without its position.
struct BarPart {
    name: String,
    kind: BarKind,
    /// Count of the region, change minus base.
    count_delta: i128,
    from_to: String,
    other: f64,
}

/// Returns the largest functions, at most `limit`, and one part for all others.
fn bar_parts(effect: &Effect, by: CountKind, row: &Row, limit: usize) -> Vec<BarPart> {
    let other_delta = |function: &FunctionDelta| by.other().delta(function, row);
    let part = |function: &FunctionDelta| BarPart {
        name: function.function.clone(),
        kind: bar_kind(function, by),
        count_delta: carried_count(function, by),
        from_to: from_to(function, by, row.ops),
        other: other_delta(function),
    };
    let deltas = effect
        .functions
        .iter()
        .map(|function| [carried_count(function, by) as f64, other_delta(function)]);
    let count = limit.min(significant_count(&deltas.collect::<Vec<_>>()));
    let (shown, others) = effect.functions.split_at(count);
    let rest = (!others.is_empty()).then(|| BarPart {
        name: format!("… {}", counted(others.len(), "more function")),
        kind: BarKind::Both,
        count_delta: others.iter().map(|function| carried_count(function, by)).sum(),
        from_to: String::new(),
        other: others.iter().map(other_delta).sum(),
    });
    shown.iter().map(part).chain(rest).collect()
}

fn carried_count(function: &FunctionDelta, by: CountKind) -> i128 {
    let counts = by.counts(function);
    i128::from(counts.change) - i128::from(counts.base)
}

/// Returns which sides execute a function.
fn bar_kind(function: &FunctionDelta, by: CountKind) -> BarKind {
    match (by.counts(function).base, by.counts(function).change) {
        (0, 1..) => BarKind::New,
        (1.., 0) => BarKind::Gone,
        _ => BarKind::Both,
    }
}

/// Returns a section for each row that changed: the functions that carry its delta.
pub fn functions(rows: &[Row]) -> impl Iterator<Item = Section> {
    let changed = rows.iter().filter_map(|row| Some((row, carrying(row)?)));
    changed.map(|(row, effect)| Section::Functions(row_functions(row, effect)))
}

fn row_functions(row: &Row, effect: &Effect) -> RowFunctions {
    let carried = CountKind::from_effect(effect);
    let line = |function: &FunctionDelta| {
        let [delta, other] = [carried, carried.other()].map(|count| count.delta(function, row));
        let from_to = from_to(function, carried, row.ops);
        FunctionLine { function: function.function.clone(), delta, from_to, other }
    };
    RowFunctions {
        row: row.row.clone(),
        effect: change_summary(effect),
        size_percent: effect.percent.map_or(f64::INFINITY, f64::abs),
        operation: row.operation.clone(),
        other: carried.other().short(),
        is_complete: false,
        lines: effect.functions.iter().map(line).collect(),
        paths: largest_paths(effect, row.ops),
    }
}

/// Formats a function's counts of both sides, per operation: `25.00 → 168.00`.
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

/// Maximum number of functions of each kind over all rows. The sections of the rows have all
/// functions.
const MAX_OVERALL_FUNCTIONS: usize = 5;

/// Percent of a row's base below which a function is printed as 0.00 %.
const MIN_PRINTED_PERCENT: f64 = 0.005;

/// Name of a row, and the share of a function in percent of the row's base.
type RowShare<'a> = (&'a str, f64);

const OVERALL_MEANING: &str = "mean %: the function's delta in percent of a row's base, averaged \
                               over all changed rows";
const OVERALL_REP_MEANING: &str =
    "; with (REP), in percent of REP iterations, over the rows that these decided";

/// Table of the functions that carry most over all changed rows. Operations differ from row to row,
/// so the deltas are in percent of each row's base. Rows that REP iterations decided are summed up
/// separately, in percent of REP iterations, and their functions come last. Empty with fewer than
/// two changed rows, because a row's own section has its functions.
pub fn overall(rows: &[Row]) -> Section {
    let mut functions: BTreeMap<(CountKind, &str), Vec<RowShare<'_>>> = BTreeMap::new();
    let mut counts: BTreeMap<CountKind, u32> = BTreeMap::new();
    for row in rows {
        let Some(effect) = carrying(row) else { continue };
        let by = CountKind::from_effect(effect);
        // Waits and transfers may change by large factors, which would hide all other rows.
        let is_work = matches!(by, CountKind::Instructions | CountKind::Rep);
        if !is_work || effect.functions.is_empty() || effect.base == 0.0 {
            continue;
        }
        *counts.entry(by).or_default() += 1;
        // A missing CPU feature is a property of the machine; a warning names the feature.
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
    functions
        .retain(|_, parts| parts.iter().any(|(_, percent)| percent.abs() >= MIN_PRINTED_PERCENT));
    let count = counts.values().sum::<u32>();
    if count < 2 {
        functions.clear();
    }
    let sum = |parts: &[RowShare<'_>]| parts.iter().map(|(_, percent)| percent).sum::<f64>();
    let mut all: Vec<_> = functions.iter().collect();
    // A stable sort: functions with equal sums stay in the order of their names.
    let key = |parts: &[RowShare<'_>]| sum(parts).abs();
    all.sort_by(|((by, _), one), ((other_by, _), other)| {
        by.cmp(other_by).then(key(other).total_cmp(&key(one)))
    });
    let largest = all.chunk_by(|((by, _), _), ((other, _), _)| by == other);
    let lines: Vec<_> =
        largest.flat_map(|all| all.iter().take(MAX_OVERALL_FUNCTIONS)).copied().collect();
    let largest_share = |parts: &Vec<RowShare<'_>>| -> (String, f64) {
        let largest = parts.iter().max_by(|(_, one), (_, other)| one.abs().total_cmp(&other.abs()));
        largest.map_or_else(Default::default, |(row, percent)| ((*row).to_owned(), *percent))
    };
    let mean = |by: &CountKind, parts: &[RowShare<'_>]| sum(parts) / f64::from(counts[by]);
    let mut columns = Columns::new(&lines);
    columns.number("mean %", |((by, _), parts)| number::percent(Some(mean(by, parts))));
    columns.name("function", |((by, name), _)| format!("{name}{}", by.suffix())).wrap_last();
    columns.number("rows", |(_, parts)| parts.len());
    columns
        .number("largest %", |(_, parts)| number::percent(Some(largest_share(parts).1)))
        .drop_order(0);
    columns.row("in", |(_, parts)| largest_share(parts).0).drop_order(0);
    let rep = if counts.contains_key(&CountKind::Rep) { OVERALL_REP_MEANING } else { "" };
    columns.table().with_note(
        format!("Functions that carry most over {}:", counted(count as usize, "changed row")),
        format!("{OVERALL_MEANING}{rep}."),
    )
}

/// Maximum number of functions that are shown for a Metric.
const MAX_FUNCTIONS: usize = 8;

/// Notes on the functions in which costly instructions, or counters of a machine model, changed: a
/// line for each Metric, the largest difference first; empty if none changed.
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
    let function_text = |function: &FunctionDelta| {
        let counts = counts_from_to(kind_counts(function)?, ops);
        Some(format!("{} {counts}{}", function.function, registers_text(&function.msrs, ops)))
    };
    join_first(effect.functions.iter().filter_map(function_text).collect(), MAX_FUNCTIONS)
}

/// Joins the first `limit` texts and adds the number of the others: `a, b, … 3 more`.
fn join_first(mut all: Vec<String>, limit: usize) -> String {
    let more = all.len().saturating_sub(limit);
    all.truncate(limit);
    all.extend((more > 0).then(|| format!("… {more} more")));
    all.join(", ")
}

/// Returns the counts of a function in the Effect of one costly instruction or one model counter;
/// such a function has counts of no other kind.
fn kind_counts(function: &FunctionDelta) -> Option<&Sides<u64>> {
    function.costly.values().chain(function.modelled.values()).next()
}

/// Maximum number of registers that are shown for a function.
const MAX_REGISTERS: usize = 4;

/// Lists the MSRs that a function accesses: ` (register 0xc0000102)`, or of several those that
/// differ; empty if none is known.
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
    let register_text =
        |(msr, counts): (&Msr, &Sides<u64>)| format!("{msr} {}", counts_from_to(counts, ops));
    let texts = differing.into_iter().map(register_text).collect();
    format!(" (registers {})", join_first(texts, MAX_REGISTERS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Printed bars add up for all counts and numbers of operations.
        #[test]
        fn printed_bars_add_up(
            ops in 1..100_000_u64, base in 0..1_i128 << 50,
            steps in prop::collection::vec(-1_i128 << 40..1_i128 << 40, 0..20)
        ) {
            let grain = Grain { ops: i128::from(ops), decimals: 2 };
            let (mut exact, mut printed) = (base, grain.round(base));
            for step in steps {
                printed += grain.round(exact + step) - grain.round(exact);
                exact += step;
            }
            prop_assert_eq!(printed, grain.round(exact));
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
    fn a_single_register_is_named_and_of_several_the_differing_ones_have_counts() {
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
