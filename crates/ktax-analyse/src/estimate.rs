//! What a machine would take for a row, by its Calibration.
//!
//! What each thing of a row costs lies in an interval. An estimate takes the end of each interval
//! that makes it least, or most, under the Layout where that is least, or most. So it is as wide
//! as all errors together in the worst case.

use std::collections::BTreeMap;

use ktax_model::{
    Calibration, CalibrationFit, Costly, Effect, Estimate, Evidence, Fitted, LowHigh, Modelled,
    Row, Side, Sides, Verdict, hull, metric,
};
use ktax_stats::exact::MIN_LAYOUTS;

const REP: &str = "rep-iterations";

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
    let terms: Vec<Term<'_>> = terms(row, calibration);
    let layouts = row.effects().first()?.samples.base.len();
    let ops = row.ops.max(1) as f64;
    let per_op = |all: Option<LowHigh>| all.unwrap_or_default().map(|cycles| cycles / ops);
    let delta = per_op(hull(
        (0..layouts).map(|at| terms.iter().map(|term| term.delta(at)).fold([0.0; 2], sum)),
    ));
    let base = calibration.fit.as_ref().map(|fit| {
        let one = |at| {
            let cycles = terms.iter().map(|term| term.base(at)).fold([0.0; 2], sum);
            [cycles[0] * fit.error[0], cycles[1] * fit.error[1]]
        };
        per_op(hull((0..layouts).map(one)))
    });
    Some(Estimate {
        machine: machine.to_owned(),
        cpu: calibration.cpu.clone(),
        base,
        delta,
        percent: base.filter(|base| base[0] > 0.0).map(|base| match &calibration.fit {
            Some(fit) if !fit.needs_model() => {
                percent_by_instructions(&terms, fit, layouts).unwrap_or_default()
            }
            _ => percent(delta, base),
        }),
        left_out: left_out(row, &terms, calibration),
    })
}

/// Of a base that may be anywhere in its interval.
fn percent(delta: LowHigh, base: LowHigh) -> LowHigh {
    let all = delta.into_iter().flat_map(|delta| base.map(|base| delta / base * 100.0));
    hull(all.map(|percent| [percent; 2])).unwrap_or_default()
}

/// Of a fit to instructions alone: where a row takes more than was predicted, so does each of its
/// instructions, those that the change adds too. So both ends of the error are of base and change
/// at once.
fn percent_by_instructions(
    terms: &[Term<'_>],
    fit: &CalibrationFit,
    layouts: usize,
) -> Option<LowHigh> {
    let is_instructions = |term: &&Term<'_>| {
        term.of.iter().any(|effect| effect.metric == Fitted::Instruction.name_of_metric())
    };
    let instructions = terms.iter().find(is_instructions)?;
    let others: Vec<&Term<'_>> = terms.iter().filter(|term| !is_instructions(term)).collect();
    let under = |at: usize, error: f64| {
        let base = terms.iter().map(|term| term.base(at)[1]).sum::<f64>() * error;
        let added = instructions.count(Side::Change, at) - instructions.count(Side::Base, at);
        let by_instructions = fit.cost_with(Fitted::Instruction, error).map(|cost| cost * added);
        let by_instructions = hull(by_instructions.map(|cycles| [cycles; 2])).unwrap_or_default();
        let delta = others.iter().map(|term| term.delta(at)).fold(by_instructions, sum);
        delta.map(|cycles| cycles / base * 100.0)
    };
    hull((0..layouts).flat_map(|at| fit.error.map(|error| under(at, error))))
}

/// Costly instructions and iterations that changed, and that no cost is known of.
fn left_out(row: &Row, terms: &[Term<'_>], calibration: &Calibration) -> BTreeMap<String, f64> {
    // A fit has branches among what it counts.
    let is_fitted = |kind: Costly| {
        calibration.fit.is_some() && matches!(kind, Costly::Indirect | Costly::ReturnThunk)
    };
    let has_cost = |name: &str| {
        let costly = metric(name).and_then(|metric| metric.costly);
        name == REP || costly.is_some_and(|it| !is_fitted(it))
    };
    let is_known = |name: &str| terms.iter().flat_map(|it| &it.of).any(|it| it.metric == name);
    // Without a measured start, the iterations have its cost.
    let is_start = |name: &str| Costly::STRINGS.iter().any(|kind| kind.name() == name);
    let is_known = |name: &str| is_known(name) || is_start(name) && is_known(REP);
    let changed = row.effects().iter().filter(|it| has_changed(it));
    let unknown = changed.filter(|it| has_cost(&it.metric) && !is_known(&it.metric));
    unknown.map(|effect| (effect.metric.clone(), effect.delta)).collect()
}

/// By its verdict, or under each Layout where there are too few for one.
fn has_changed(effect: &Effect) -> bool {
    let Sides { base, change } = &effect.samples;
    let is_under_each = |by: fn(&u64, &u64) -> bool| {
        !base.is_empty() && base.iter().zip(change).all(|(base, change)| by(base, change))
    };
    let is_few = base.len() < MIN_LAYOUTS;
    effect.verdict.is_change() && effect.delta != 0.0
        || is_few && (is_under_each(u64::lt) || is_under_each(u64::gt))
}

/// Something that a row has: how much of it there is at least and at most, and what one costs.
struct Term<'a> {
    /// The raw counts of Effects that are of it, added up.
    of: Vec<&'a Effect>,
    /// Whether there may also be none of it: what could not be counted.
    may_be_none: bool,
    /// By itself, with all that is not known of it.
    cost: LowHigh,
    /// In a row, with the rest of it.
    in_row: f64,
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
        hull(all.map(|cycles| [cycles; 2])).unwrap_or_default()
    }

    fn base(&self, layout: usize) -> LowHigh {
        let cycles = self.in_row * self.count(Side::Base, layout);
        [if self.may_be_none { 0.0 } else { cycles }, cycles]
    }
}

fn terms<'a>(row: &'a Row, calibration: &Calibration) -> Vec<Term<'a>> {
    // What a fit to misses is wrong by is of a row, with its costly instructions. One to
    // instructions alone has all misses among what it is wrong by.
    let with_misses = calibration.fit.as_ref().filter(|fit| fit.needs_model());
    let [least, most] = with_misses.map_or([1.0; 2], |fit| fit.error);
    let known = |name: &str, [low, high]: LowHigh| {
        let of = vec![row.effect(name)?];
        let cost = [low * least.min(1.0), high * most.max(1.0)];
        Some(Term { of, may_be_none: false, cost, in_row: (low + high) / 2.0 })
    };
    let operations = calibration.operations.iter();
    let operations = operations.filter_map(|(kind, cost)| known(kind.name(), *cost));
    // A fit has what iterations miss beyond the first cache.
    let rep = iteration(row, calibration)
        .and_then(|cost| Some(Term { in_row: cost[0], ..known(REP, cost)? }));
    let fitted = calibration.fit.iter().flat_map(|fit| fitted(row, fit));
    operations.chain(rep).chain(fitted).collect()
}

/// What an iteration costs in this row: of the string instructions of which the change makes more
/// or fewer, else of those that the row has, else of any.
fn iteration(row: &Row, calibration: &Calibration) -> Option<LowHigh> {
    let deltas = Costly::STRINGS.iter().filter_map(|kind| row.effect(kind.name()));
    let most = deltas.map(|effect| effect.delta.abs()).fold(0.0, f64::max);
    // A few starts of another one are what layouts do.
    let has_changed =
        |effect: &Effect| effect.delta != 0.0 && effect.delta.abs() >= most * LEAST_OF_STARTS;
    let is_there = |effect: &Effect| effect.base + effect.change > 0.0;
    let started = |is_one: &dyn Fn(&Effect) -> bool| {
        let kinds = Costly::STRINGS.iter();
        let kinds = kinds.filter(|kind| row.effect(kind.name()).is_some_and(is_one));
        hull(kinds.filter_map(|kind| calibration.iterations.get(kind).copied()))
    };
    let any = || hull(calibration.iterations.values().copied());
    let changed = started(&has_changed).or_else(|| started(&is_there));
    changed.or_else(any).or(calibration.rep_iteration)
}

/// The share of the starts of the string instruction that changed most.
const LEAST_OF_STARTS: f64 = 0.1;

fn fitted<'a>(row: &'a Row, fit: &CalibrationFit) -> impl Iterator<Item = Term<'a>> {
    fit.cycles.iter().map(move |(thing, cycles)| {
        let cost = fit.cost(*thing);
        let counted = thing.metrics().iter().filter_map(|name| row.effect(name));
        let mut of: Vec<&Effect> = counted.collect();
        // A short region says nothing of the last cache: from none to all that it was asked for.
        let may_be_none = *thing == Fitted::CacheMiss && of.is_empty();
        if may_be_none {
            of.extend(row.effect(Modelled::CacheReferences.name()));
        }
        Term { of, may_be_none, cost, in_row: *cycles }
    })
}

fn sum(one: LowHigh, other: LowHigh) -> LowHigh {
    std::array::from_fn(|end| one[end] + other[end])
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
