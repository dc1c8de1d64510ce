//! What a machine would take for a row, by its Calibration.
//!
//! What each thing of a row costs lies in an interval. An estimate takes the end of each interval
//! that makes it least, or most, under the Layout where that is least, or most. So it is as wide
//! as all errors together in the worst case.

use std::collections::BTreeMap;
use std::ops::Add;

use crate::model::{
    Calibration, CalibrationFit, Costly, Effect, Estimate, Evidence, Fitted, LowHigh, Modelled,
    Row, Side, Verdict, metric,
};

/// Adds the Estimate to each row that was counted. A fit needs the counters of the model that it
/// was made with.
pub fn estimate(rows: &mut [Row], machine: &str, calibration: &Calibration) {
    for row in rows {
        let estimate = of_row(row, machine, calibration);
        if let Evidence::Counts(counts) = &mut row.evidence {
            counts.estimate = estimate;
        }
    }
}

/// `None` of several CPUs, whose cycles nobody adds up, and where there is no measurement.
fn of_row(row: &Row, machine: &str, calibration: &Calibration) -> Option<Estimate> {
    let is_measured = !matches!(row.verdict, Verdict::DifferentWork | Verdict::Failed);
    row.counts().filter(|counts| is_measured && counts.waits.is_none())?;
    let terms = terms(row, calibration);
    let layouts = row.effects().first()?.samples.base.len();
    let base = calibration.fit.is_some().then(|| over_layouts(layouts, |at| side(&terms, at)));
    let delta =
        over_layouts(layouts, |at| terms.iter().map(|term| term.delta(at)).fold([0.0; 2], sum));
    let ops = row.ops.max(1) as f64;
    let base = base.map(|[low, high]| [low / ops, high / ops]);
    let delta = delta.map(|cycles| cycles / ops);
    let percent = base.map(|[low, high]| delta.map(|it| it / ((low + high) / 2.0) * 100.0));
    // A fit has branches among what it counts.
    let is_fitted = |kind: &Costly| {
        calibration.fit.is_some() && matches!(kind, Costly::Indirect | Costly::ReturnThunk)
    };
    let known = |kind: &Costly| is_fitted(kind) || calibration.operations.contains_key(kind);
    let is_left_out = |effect: &&Effect| effect.delta != 0.0 && effect.verdict.is_change();
    let changed = row.effects().iter().filter(is_left_out);
    let left_out: BTreeMap<Costly, f64> = changed
        .filter_map(|effect| Some((metric(&effect.metric)?.costly?, effect.delta)))
        .filter(|(kind, _)| !known(kind))
        .collect();
    let (machine, cpu) = (machine.to_owned(), calibration.cpu.clone());
    Some(Estimate { machine, cpu, clock: calibration.clock, base, delta, percent, left_out })
}

/// Something that a row has: how much of it there is at least and at most, and what one costs.
struct Term<'a> {
    /// The raw counts of Effects that are of it, added up.
    of: Vec<&'a Effect>,
    /// Whether there may also be none of it: what could not be counted.
    may_be_none: bool,
    cost: LowHigh,
}

impl Term<'_> {
    fn count(&self, side: Side, layout: usize) -> f64 {
        self.of.iter().map(|it| it.samples.get(side).get(layout).map_or(0.0, |it| *it as f64)).sum()
    }

    /// What the change adds to it.
    fn delta(&self, layout: usize) -> LowHigh {
        let delta = self.count(Side::Change, layout) - self.count(Side::Base, layout);
        let none = self.may_be_none.then_some(0.0);
        let all = self.cost.map(|cost| cost * delta).into_iter().chain(none);
        hull(all.map(|cycles| [cycles; 2]))
    }
}

/// The base under a Layout.
fn side(terms: &[Term<'_>], layout: usize) -> LowHigh {
    let one = |term: &Term<'_>| {
        let [low, high] = term.cost.map(|cost| cost * term.count(Side::Base, layout));
        [if term.may_be_none { 0.0 } else { low }, high]
    };
    terms.iter().map(one).fold([0.0; 2], sum)
}

fn terms<'a>(row: &'a Row, calibration: &Calibration) -> Vec<Term<'a>> {
    // What a fit is wrong by is of a row, with its costly instructions.
    let [least, most] = calibration.fit.as_ref().map_or([1.0; 2], |fit| fit.error);
    let operations = calibration.operations.iter().filter_map(move |(kind, [low, high])| {
        let of = vec![row.effect(kind.name())?];
        let cost = [low * least.min(1.0), high * most.max(1.0)];
        Some(Term { of, may_be_none: false, cost })
    });
    let fitted = calibration.fit.iter().flat_map(|fit| fitted(row, fit));
    operations.chain(fitted).collect()
}

fn fitted<'a>(row: &'a Row, fit: &CalibrationFit) -> impl Iterator<Item = Term<'a>> {
    fit.cycles.iter().map(move |(thing, cycles)| {
        let cost = fit.error.map(|ratio| cycles * ratio);
        let counted = thing.metrics().iter().filter_map(|name| row.effect(name));
        let mut of: Vec<&Effect> = counted.collect();
        // A short region says nothing of the last cache: from none to all that it was asked for.
        let may_be_none = *thing == Fitted::CacheMiss && of.is_empty();
        if may_be_none {
            of.extend(row.effect(Modelled::CacheReferences.name()));
        }
        Term { of, may_be_none, cost }
    })
}

fn over_layouts(layouts: usize, of: impl Fn(usize) -> LowHigh) -> LowHigh {
    hull((0..layouts).map(of))
}

fn hull(intervals: impl Iterator<Item = LowHigh>) -> LowHigh {
    let wider = |[low, high]: LowHigh, one: LowHigh| [low.min(one[0]), high.max(one[1])];
    intervals.reduce(wider).unwrap_or_default()
}

fn sum(one: LowHigh, other: LowHigh) -> LowHigh {
    std::array::from_fn(|end| one[end].add(other[end]))
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
