//! Cells and records of an Effect, and the functions that explain the Effect.

use std::collections::BTreeSet;

use crate::view::{Fields, Records, Value};
use crate::{changes, number, words};
use ktax_model::{
    CYCLES, Effect, Estimate, FunctionDelta, MAKESPAN, METRICS, Metric, OwnCounts, PathDelta, Row,
    SPIN_WAIT, Side, Sides, TRANSFERS, Verdict, metric,
};
use ktax_stats::tables::{checked_percent_change, share_percent};

/// Returns the range of the delta over the layouts, in percent of the Effect's base.
pub fn over_layouts(effect: &Effect) -> String {
    let percent = |delta: f64| checked_percent_change(effect.base, effect.base + delta);
    number::percent_range(percent(effect.delta_range.0), percent(effect.delta_range.1))
}

/// Formats the MDE, the smallest change that would have been slower or faster, in percent of the
/// base: `any` if every change would have been, `none` if no change would have been.
pub fn detectable(effect: &Effect) -> String {
    match effect.verdict {
        Verdict::DifferentWork | Verdict::Failed => String::new(),
        verdict => detectable_text(effect.base, effect.detectable, verdict),
    }
}

/// Formats an MDE in percent of the base. If the verdict is a change, the MDE is rounded like the
/// delta, so that it does not look larger than the delta. Otherwise the MDE is rounded up.
pub fn detectable_text(base: f64, detectable: Option<f64>, verdict: Verdict) -> String {
    match (detectable, base) {
        (None, _) => "none".to_owned(),
        (Some(0.0), _) => "any".to_owned(),
        (_, 0.0) => String::new(),
        (Some(detectable), base) if verdict.is_change() => {
            number::reached(detectable / base * 100.0)
        }
        (Some(detectable), base) => number::limit(detectable / base * 100.0),
    }
}

/// Returns the MDE in percent of the base; `None` if the row cannot have a verdict.
pub fn detectable_percent(effect: &Effect) -> Option<f64> {
    match (effect.verdict, effect.detectable?, effect.base) {
        (Verdict::TooFewBoots | Verdict::DifferentWork | Verdict::Failed, _, _) => None,
        (_, 0.0, _) => Some(0.0),
        (_, _, 0.0) => None,
        (_, detectable, base) => Some(detectable / base * 100.0),
    }
}

/// Line of [`records`]: a row with one of its Effects, with its estimate, or alone.
type RecordLine<'a> = (&'a Row, Option<&'a Effect>, Option<&'a Estimate>);

/// Returns one line for each row and Metric. All values are per operation and unrounded. A row
/// without Effects has one line. A row with an estimate has another line, with the interval of the
/// delta in cycles.
pub fn records(rows: &[Row], unit: impl Fn(&str) -> String) -> Records {
    let lines: Vec<RecordLine<'_>> = rows.iter().flat_map(record_lines).collect();
    let mut fields = Fields::new(&lines);
    fields.add("workload", |(row, ..)| &row.row);
    fields.add("operation", |(row, ..)| &row.operation);
    fields.add("ops", |(row, ..)| row.ops);
    fields.add("verdict", |(row, ..)| row.verdict.text());
    fields.add("metric", |(_, effect, estimate)| match estimate {
        Some(_) => Value::from("estimate"),
        None => effect.map(|effect| &effect.metric).into(),
    });
    fields.add("unit", |(_, effect, estimate)| {
        let unit = effect.map(|effect| unit(&effect.metric));
        unit.or(estimate.map(|estimate| format!("{CYCLES} on {}", estimate.machine)))
    });
    fields.add("base", |(_, effect, _)| effect.map(|effect| effect.base));
    fields.add("change", |(_, effect, _)| effect.map(|effect| effect.change));
    fields.add("delta", |(_, effect, _)| effect.map(|effect| effect.delta));
    fields.add("percent", |(_, effect, _)| effect.and_then(|effect| effect.percent));
    fields.add("layout", |(_, effect, _)| effect.map(|effect| effect.layout));
    let range = |(_, effect, estimate): RecordLine<'_>| {
        let range = effect.map(|effect| [effect.delta_range.0, effect.delta_range.1]);
        range.or(estimate.map(|estimate| estimate.delta))
    };
    fields.add("delta_min", |line| range(line).map(|[low, _]| low));
    fields.add("delta_max", |line| range(line).map(|[_, high]| high));
    fields.add("spread", |(_, effect, _)| effect.map(|effect| effect.spread));
    fields.add("detectable", |(_, effect, _)| effect.and_then(|effect| effect.detectable));
    fields.add("metric_verdict", |(_, effect, _)| effect.map(verdict_word));
    fields.add("failures", |(row, _, estimate)| estimate.is_none().then(|| row.failed_boots()));
    for side in Side::BOTH {
        let samples = |effect: &'_ Effect| effect.samples.get(side).len();
        let layouts = lines.iter().filter_map(|(_, effect, _)| effect.map(samples)).max();
        for layout in 0..layouts.unwrap_or(0) {
            fields.add(format!("{}_{layout}", side.name()), |(_, effect, _)| {
                effect?.samples.get(side).get(layout).copied()
            });
        }
    }
    fields.records()
}

fn record_lines(row: &Row) -> impl Iterator<Item = RecordLine<'_>> {
    let row_alone = row.effects().is_empty().then_some((row, None, None));
    let effects = row.effects().iter().map(move |effect| (row, Some(effect), None));
    let estimate = row.counts().and_then(|counts| counts.estimate.as_ref());
    let estimate = estimate.map(|estimate| (row, None, Some(estimate)));
    row_alone.into_iter().chain(effects).chain(estimate)
}

/// Word for an Effect's verdict; `more` or `less` if its Metric decides nothing.
fn verdict_word(effect: &Effect) -> &'static str {
    match metric(&effect.metric).is_some_and(Metric::is_costly_or_modelled) {
        true => changes::more_or_less(effect),
        false => effect.verdict.text(),
    }
}

/// Kind of count by which functions contribute to an Effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountKind {
    /// Instructions that a function executes.
    Instructions,
    /// Repeats of string instructions.
    Rep,
    /// Instructions for which CPUs wait in a function.
    Wait,
    /// Cache lines that a function gets from another CPU, by the model of coherence.
    Transfers,
}

impl CountKind {
    pub fn from_effect(effect: &Effect) -> CountKind {
        CountKind::from_metric(&effect.metric)
    }

    pub fn from_metric(metric: &str) -> CountKind {
        match metric {
            words::REP => CountKind::Rep,
            SPIN_WAIT => CountKind::Wait,
            TRANSFERS => CountKind::Transfers,
            _ => CountKind::Instructions,
        }
    }

    /// Returns a function's count in the Region, for each side.
    pub fn counts(self, function: &FunctionDelta) -> &Sides<u64> {
        match self {
            CountKind::Instructions => &function.instructions,
            CountKind::Rep => &function.rep_iterations,
            CountKind::Wait => &function.wait,
            CountKind::Transfers => &function.transfers,
        }
    }

    /// Returns a path's count including callees; `None` for a kind that paths do not have.
    pub fn path_counts(self, path: &PathDelta) -> Option<&Sides<u64>> {
        match self {
            CountKind::Instructions => Some(&path.instructions),
            CountKind::Rep => Some(&path.rep_iterations),
            CountKind::Wait => Some(&path.wait),
            CountKind::Transfers => None,
        }
    }

    /// Returns a path's count without callees. Paths have no transfers; for that kind the count is
    /// instructions.
    pub fn own_counts(self, own: &OwnCounts) -> &Sides<u64> {
        match self {
            CountKind::Rep => &own.rep_iterations,
            CountKind::Wait => &own.wait,
            CountKind::Instructions | CountKind::Transfers => &own.instructions,
        }
    }

    /// Returns a function's count per operation, change minus base.
    pub fn delta(self, function: &FunctionDelta, row: &Row) -> f64 {
        let Sides { base, change } = self.counts(function);
        (*change as f64 - *base as f64) / row.ops.max(1) as f64
    }

    /// Returns the kind that is shown beside this one.
    pub fn other(self) -> CountKind {
        match self {
            CountKind::Instructions => CountKind::Rep,
            _ => CountKind::Instructions,
        }
    }

    /// Names the kind in a sentence.
    pub fn unit(self) -> &'static str {
        match self {
            CountKind::Instructions => "instructions",
            CountKind::Rep => "REP iterations",
            CountKind::Wait => "instructions of spin-wait",
            CountKind::Transfers => "model transfers",
        }
    }

    /// Names the kind in the head of a column.
    pub fn head(self) -> &'static str {
        match self {
            CountKind::Instructions => "insn",
            other => other.short(),
        }
    }

    /// Names the kind where there is little room.
    pub fn short(self) -> &'static str {
        match self {
            CountKind::Instructions => "instructions",
            CountKind::Rep => "REP",
            CountKind::Wait => "spin-wait",
            CountKind::Transfers => "transfers",
        }
    }

    /// Returns the suffix of a function's name: ` (REP)`; empty for instructions.
    pub fn suffix(self) -> String {
        match self {
            CountKind::Instructions => String::new(),
            other => format!(" ({})", other.short()),
        }
    }
}

/// Returns the Effect whose functions explain the row's verdict. A makespan has no functions, so
/// its functions are those of executed instructions or of spin-wait, whichever changed more.
pub fn carrying(row: &Row) -> Option<&Effect> {
    let deciding = row.deciding_effect()?;
    if deciding.metric != MAKESPAN {
        return Some(deciding);
    }
    let is_of_cpus = |effect: &&Effect| [METRICS[0].name, SPIN_WAIT].contains(&&*effect.metric);
    let changed = row.effects().iter().filter(|effect| !effect.functions.is_empty());
    let changed = changed.filter(|effect| deciding.verdict.is_change() && is_of_cpus(effect));
    changed.max_by(|one, other| one.delta.abs().total_cmp(&other.delta.abs()))
}

/// Share of the Effect, in percent, from which a function explains a part of the Effect.
const MIN_SHARE_PERCENT: f64 = 1.0;

/// Names the function that carries most of the deciding Effect, and its share: `security_task_alloc
/// 35 %`; `lack of FSRM` if only a missing CPU feature explains the Effect.
pub fn carried_most(row: &Row) -> Option<String> {
    let effect = carrying(row)?;
    let first = effect.functions.first()?;
    let features = missing_features(row, effect);
    match features.is_empty() {
        true => Some(format!("{} {:.0} %", first.function, effect_share(row, effect, first))),
        false => Some(format!("lack of {}", Vec::from_iter(features).join(", "))),
    }
}

/// Returns the CPU features whose lack explains the whole Effect; empty if other code carries a
/// part of the Effect.
pub fn missing_features(row: &Row, effect: &Effect) -> BTreeSet<&'static str> {
    let explains = |function: &FunctionDelta| {
        effect.missing_feature(&function.function).is_none()
            && effect_share(row, effect, function).abs() >= MIN_SHARE_PERCENT
    };
    match effect.functions.iter().any(explains) {
        true => BTreeSet::new(),
        false => effect.fallbacks().map(|way| way.feature).collect(),
    }
}

/// Returns the share of an Effect's delta that a function carries, in percent.
fn effect_share(row: &Row, effect: &Effect, function: &FunctionDelta) -> f64 {
    share_percent(CountKind::from_effect(effect).delta(function, row), effect.delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn read(cell: &str) -> f64 {
        cell.replace(' ', "").replace("<0.01", "0").parse().unwrap()
    }

    proptest! {
        /// As printed, the MDE is not above the delta of a changed row, and not below the delta of
        /// an unchanged row.
        #[test]
        fn printed_deltas_and_mdes_agree_with_the_verdict(
            base in 1.0..1e6f64, delta in 0.0..0.03f64, by in 0.0..0.01f64
        ) {
            let (near, far) = (base * delta, base * delta * (1.0 + by));
            let shown = number::percent(checked_percent_change(base, base + far));
            let mde = detectable_text(base, Some(near.max(1e-9)), Verdict::Slower);
            prop_assert!(read(&mde) <= read(&shown), "{shown} slower, MDE {mde}");
            let shown = number::percent(checked_percent_change(base, base + near));
            let mde = detectable_text(base, Some(far.max(1e-9)), Verdict::NoDetectedChange);
            prop_assert!(read(&mde) >= read(&shown), "{shown} not detected, MDE {mde}");
        }
    }

    #[test]
    fn mde_of_zero_is_any_and_a_missing_mde_is_none() {
        assert_eq!(detectable_text(100.0, Some(0.0), Verdict::NoDetectedChange), "any");
        assert_eq!(detectable_text(100.0, None, Verdict::NoDetectedChange), "none");
        assert_eq!(detectable_text(0.0, Some(3.0), Verdict::NoDetectedChange), "");
    }
}
