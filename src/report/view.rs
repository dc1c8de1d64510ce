//! What text and Markdown both show of a Comparison: the cells, the selection, the words.

use crate::model::{
    Comparison, Effect, Failure, FunctionDelta, Growth, Identity, Key, Row, Side, Verdict,
};
use crate::stats::tables::change_percent;

use super::number;

/// The main table's columns.
pub(super) const HEADER: [&str; 8] =
    ["workload", "base", "change", "delta", "%", "over layouts", "would see", "verdict"];

/// Above the Metrics beside the headline.
pub(super) const ALSO_CHANGED: &str =
    "Also changed, per operation (interrupt, kthread: instructions in those contexts):";

/// The Metric of REP iterations in process context.
const REP: &str = "rep-iterations";

/// One row's cells below [`HEADER`], the row's name left out.
pub(super) fn cells(row: &Row) -> [String; 7] {
    let verdict = verdict(row);
    let Some(effect) = row.effects.first() else {
        let mut cells = <[String; 7]>::default();
        cells[6] = verdict;
        return cells;
    };
    [
        number::count(effect.base),
        number::count(effect.change),
        number::delta(effect.delta),
        number::percent(effect.percent),
        over_layouts(effect),
        would_see(effect),
        verdict,
    ]
}

/// The Verdict; `slower (REP)` where REP iterations decided, `faster, REP slower` where
/// instructions did and REP iterations went the other way.
pub(super) fn verdict(row: &Row) -> String {
    let verdict = row.verdict.text();
    let rep = row.effects.iter().find(|effect| is_rep(effect));
    match rep.map(|rep| rep.verdict) {
        _ if row.decided_by == REP => decided(row.verdict, REP),
        Some(rep) if rep.is_change() && row.verdict.is_change() && rep != row.verdict => {
            format!("{verdict}, REP {}", rep.text())
        }
        _ => verdict.to_owned(),
    }
}

/// A Verdict, marked where REP iterations decided.
pub(super) fn decided(verdict: Verdict, by: &str) -> String {
    let mark = if by == REP { " (REP)" } else { "" };
    format!("{}{mark}", verdict.text())
}

/// The least and the most delta over the Layouts in percent of the Effect's base.
pub(super) fn over_layouts(effect: &Effect) -> String {
    let percent = |delta: f64| change_percent(effect.base, effect.base + delta);
    number::percent_range(percent(effect.delta_range.0), percent(effect.delta_range.1))
}

/// `+404.00 instructions (+1.22 %, the same in every layout)`.
pub(super) fn headline(effect: &Effect) -> String {
    let (least, most) = effect.delta_range;
    let layouts = if least == most {
        "the same in every layout".to_owned()
    } else {
        format!("over layouts {} %", over_layouts(effect))
    };
    let (delta, percent) = (number::delta(effect.delta), number::percent(effect.percent));
    let unit = if is_rep(effect) { "REP iterations" } else { "instructions" };
    format!("{delta} {unit} ({percent} %, {layouts})")
}

/// The smallest change that would have got a verdict; `any` where nothing is too small.
fn would_see(effect: &Effect) -> String {
    match (effect.verdict, effect.detectable, effect.base) {
        (Verdict::TooFewBoots | Verdict::DifferentWork | Verdict::Failed, _, _) => String::new(),
        (_, 0.0, _) => "any".to_owned(),
        (_, _, 0.0) => String::new(),
        (_, detectable, base) => number::limit(detectable / base * 100.0),
    }
}

/// Whether the Effect is one of REP iterations.
pub(super) fn is_rep(effect: &Effect) -> bool {
    effect.metric == REP
}

/// The Metrics beside the headline that changed, with their rows.
pub(super) fn also_changed(comparison: &Comparison) -> Vec<(&Row, &Effect)> {
    comparison
        .rows
        .iter()
        .flat_map(|row| row.effects.iter().skip(1).map(move |effect| (row, effect)))
        .filter(|(_, effect)| effect.verdict.is_change())
        .collect()
}

/// The functions shown, and of the others: how many, their instructions, their REP iterations.
pub(super) fn largest(
    effect: &Effect,
    shown: usize,
) -> (&[FunctionDelta], Option<(usize, f64, f64)>) {
    let (shown, others) = effect.functions.split_at(effect.functions.len().min(shown));
    let sum = |of: fn(&FunctionDelta) -> f64| others.iter().map(of).sum::<f64>();
    let rest = (!others.is_empty()).then(|| (others.len(), sum(|f| f.delta), sum(|f| f.rep_delta)));
    (shown, rest)
}

/// What the functions beyond the largest are called.
pub(super) fn more(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("… {count} more function{plural}")
}

/// `+300.00`, `0 → 300.00`, `REP +16.00` of one function, per operation: what the Effect counts,
/// from what to what, and the other count where it changed too.
pub(super) fn carried(effect: &Effect, function: &FunctionDelta, ops: u64) -> [String; 3] {
    let per_op = |count: u64| number::count(count as f64 / ops.max(1) as f64);
    let counts = if is_rep(effect) { &function.rep_iterations } else { &function.instructions };
    let from_to = format!("{} → {}", per_op(counts.base), per_op(counts.change));
    let [delta, other] = both(effect, function.delta, function.rep_delta);
    [delta, from_to, other]
}

/// `+300.00` and `REP +16.00`; of an Effect of REP iterations `+16.00` and `instructions +300.00`.
pub(super) fn both(effect: &Effect, instructions: f64, rep: f64) -> [String; 2] {
    let (delta, name, other) = match is_rep(effect) {
        true => (rep, "instructions", instructions),
        false => (instructions, "REP", rep),
    };
    let other = match other {
        0.0 => String::new(),
        other => format!("{name} {}", number::delta(other)),
    };
    [number::delta(delta), other]
}

/// The failures, each with all rows that it took: a Boot that failed is said once.
pub(super) fn failures(comparison: &Comparison) -> Vec<(&str, &Failure, Vec<&str>)> {
    let mut grouped: Vec<(&str, &Failure, Vec<&str>)> = Vec::new();
    for row in &comparison.rows {
        for failed in &row.failures {
            let same = |(boot, failure, _): &&mut (&str, &Failure, Vec<&str>)| {
                *boot == failed.boot && **failure == failed.failure
            };
            match grouped.iter_mut().find(same) {
                Some((_, _, rows)) => rows.push(&row.row),
                None => grouped.push((&failed.boot, &failed.failure, vec![&row.row])),
            }
        }
    }
    grouped
}

/// A side's Kernel; with its revision, or a piece of its hash, where the two have one name and are
/// not the same.
pub(super) fn kernel(comparison: &Comparison, side: Side) -> String {
    let identity = |side| -> &Identity { &comparison.subjects.get(side).kernel };
    let (base, change, own) = (identity(Side::Base), identity(Side::Change), identity(side));
    if base.name() == change.name() && base.sha256 != change.sha256 {
        match comparison.subjects.get(side).subject.revision() {
            Some(revision) => format!("{} (git {revision})", own.name()),
            None => format!("{} (sha256 {})", own.name(), &own.sha256[..own.sha256.len().min(12)]),
        }
    } else {
        own.name().to_owned()
    }
}

/// `exact · QEMU 7.2.22 · pc-q35-7.2 · max · 512 MiB · 5 layouts`.
pub(super) fn key(comparison: &Comparison) -> String {
    machine(&comparison.key, comparison.layouts)
}

/// What counts compare with, and under how many Layouts they were made.
pub(super) fn machine(key: &Key, layouts: usize) -> String {
    let plural = if layouts == 1 { "" } else { "s" };
    format!(
        "{} · QEMU {} · {} · {} · {} MiB · {layouts} layout{plural}",
        key.engine, key.qemu, key.machine, key.cpu, key.memory_mib
    )
}

/// `fork-pages, base: O(pages); beyond that of 0 pages the cost grows with pages^1.02 (0.99…1.05)`.
pub(super) fn growth(growth: &Growth) -> String {
    let Growth { family, parameter, order, exponent, interval, from, points, .. } = growth;
    let side = growth.side.map_or(String::new(), |side| format!(", {}", side.name()));
    let (low, high) = interval;
    format!(
        "{family}{side}: {order}. Beyond that of 0 {parameter} the cost grows with \
         {parameter}^{exponent:.2} ({low:.2}…{high:.2}), fitted to the {points} \
         rows from {from} on."
    )
}

/// What the numbers are.
pub(super) fn legend(comparison: &Comparison) -> String {
    let threshold = match comparison.threshold_percent {
        0.0 => String::new(),
        percent => format!(" Below {percent} % there is no verdict."),
    };
    let rep =
        match comparison.rows.iter().any(|row| row.decided_by == REP && row.verdict.is_change()) {
            true => " (REP): instructions show no change, the repeats of string instructions do.",
            false => "",
        };
    format!(
        "Instructions per operation in process context, counted exactly; they are not time. base, \
         change and delta are of the layout with the median delta. In percent: % is delta, over \
         layouts the range of the deltas, would see the smallest change that would have got a \
         verdict.{threshold}{rep}"
    )
}
