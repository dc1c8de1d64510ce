//! Estimates of the time that a machine takes for a row, by its Calibration.
//!
//! The cost of each thing in a row is an interval. An estimate takes the end of each interval that
//! gives the least, or the most, under the Layout with the least, or the most. So it is as wide as
//! all errors together in the worst case.

use std::collections::BTreeMap;

use ktax_model::{
    Calibration, CalibrationFit, Costly, Effect, Estimate, Evidence, Fitted, LowHigh, Metric,
    Modelled, Row, Side, Sides, Verdict, hull, metric,
};
use ktax_stats::exact::MIN_LAYOUTS;

const REP: &str = "rep-iterations";

/// Adds the Estimate to each row that was counted. A fit needs the counters of the model that it
/// was made with.
pub fn estimate(rows: &mut [Row], machine: &str, calibration: &Calibration) {
    for row in rows {
        let estimate = row_estimate(row, machine, calibration);
        if let Evidence::Counts(counts) = &mut row.evidence {
            counts.estimate = estimate;
        }
    }
}

/// Estimate of a row; `None` with several CPUs, whose cycles nobody adds up, and if the row was not
/// measured.
fn row_estimate(row: &Row, machine: &str, calibration: &Calibration) -> Option<Estimate> {
    let is_measured = !matches!(row.verdict, Verdict::DifferentWork | Verdict::Failed);
    row.counts().filter(|counts| is_measured && counts.waits.is_none())?;
    let terms: Vec<Term<'_>> = terms(row, calibration);
    let layouts = row.effects().first()?.samples.base.len();
    let ops = row.ops.max(1) as f64;
    let per_op =
        |interval: Option<LowHigh>| interval.unwrap_or_default().map(|cycles| cycles / ops);
    let delta = per_op(hull(
        (0..layouts).map(|layout| terms.iter().map(|term| term.delta(layout)).fold([0.0; 2], sum)),
    ));
    let base = calibration.fit.as_ref().map(|fit| {
        let base_cycles = |layout| {
            let cycles = terms.iter().map(|term| term.base(layout)).fold([0.0; 2], sum);
            [cycles[0] * fit.error[0], cycles[1] * fit.error[1]]
        };
        per_op(hull((0..layouts).map(base_cycles)))
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

/// Percent of a base that may be anywhere in its interval.
fn percent(delta: LowHigh, base: LowHigh) -> LowHigh {
    let percents = delta.into_iter().flat_map(|delta| base.map(|base| delta / base * 100.0));
    hull(percents.map(|percent| [percent; 2])).unwrap_or_default()
}

/// Percent by a fit to instructions alone. If a row takes more than was predicted, so does each of
/// its instructions, also those that the change adds. So base and change have the same error.
fn percent_by_instructions(
    terms: &[Term<'_>],
    fit: &CalibrationFit,
    layouts: usize,
) -> Option<LowHigh> {
    let is_instructions = |term: &&Term<'_>| {
        term.effects.iter().any(|effect| effect.metric == Fitted::Instruction.name_of_metric())
    };
    let instructions = terms.iter().find(is_instructions)?;
    let others: Vec<&Term<'_>> = terms.iter().filter(|term| !is_instructions(term)).collect();
    let percent_under = |layout: usize, error: f64| {
        let base = terms.iter().map(|term| term.base(layout)[1]).sum::<f64>() * error;
        let added =
            instructions.count(Side::Change, layout) - instructions.count(Side::Base, layout);
        let by_instructions = fit.cost_with(Fitted::Instruction, error).map(|cost| cost * added);
        let by_instructions = hull(by_instructions.map(|cycles| [cycles; 2])).unwrap_or_default();
        let delta = others.iter().map(|term| term.delta(layout)).fold(by_instructions, sum);
        delta.map(|cycles| cycles / base * 100.0)
    };
    hull((0..layouts).flat_map(|layout| fit.error.map(|error| percent_under(layout, error))))
}

/// Costly instructions and iterations that changed, but whose cost is not known.
fn left_out(row: &Row, terms: &[Term<'_>], calibration: &Calibration) -> BTreeMap<String, f64> {
    // A fit has a cost of branches already.
    let is_fitted = |kind: Costly| {
        calibration.fit.is_some() && matches!(kind, Costly::Indirect | Costly::ReturnThunk)
    };
    let has_cost = |name: &str| {
        let costly = metric(name).and_then(Metric::costly);
        name == REP || costly.is_some_and(|kind| !is_fitted(kind))
    };
    let is_known = |name: &str| {
        terms.iter().flat_map(|term| &term.effects).any(|effect| effect.metric == name)
    };
    // If the start was not measured, the iterations have its cost.
    let is_start = |name: &str| Costly::STRINGS.iter().any(|kind| kind.name() == name);
    let is_known = |name: &str| is_known(name) || is_start(name) && is_known(REP);
    let changed = row.effects().iter().filter(|effect| has_changed(effect));
    let unknown = changed.filter(|effect| has_cost(&effect.metric) && !is_known(&effect.metric));
    unknown.map(|effect| (effect.metric.clone(), effect.delta)).collect()
}

/// Returns true if the Effect changed by its verdict or, if there are too few Layouts for one,
/// under each Layout.
fn has_changed(effect: &Effect) -> bool {
    let Sides { base, change } = &effect.samples;
    let is_under_each = |by: fn(&u64, &u64) -> bool| {
        !base.is_empty() && base.iter().zip(change).all(|(base, change)| by(base, change))
    };
    let is_few = base.len() < MIN_LAYOUTS;
    effect.verdict.is_change() && effect.delta != 0.0
        || is_few && (is_under_each(u64::lt) || is_under_each(u64::gt))
}

/// A thing that a row has: its least and largest number, and its cost.
struct Term<'a> {
    /// Effects of this thing; their raw counts are added up.
    effects: Vec<&'a Effect>,
    /// Set if there may be none of it, because it could not be counted.
    may_be_none: bool,
    /// Cost by itself, with all errors.
    cost: LowHigh,
    /// Cost in a row, together with the rest of it.
    in_row: f64,
}

impl Term<'_> {
    fn count(&self, side: Side, layout: usize) -> f64 {
        let count = |effect: &&Effect| {
            effect.samples.get(side).get(layout).map_or(0.0, |count| *count as f64)
        };
        self.effects.iter().map(count).sum()
    }

    fn delta(&self, layout: usize) -> LowHigh {
        let delta = self.count(Side::Change, layout) - self.count(Side::Base, layout);
        let none = self.may_be_none.then_some(0.0);
        let ends = self.cost.map(|cost| cost * delta).into_iter().chain(none);
        hull(ends.map(|cycles| [cycles; 2])).unwrap_or_default()
    }

    fn base(&self, layout: usize) -> LowHigh {
        let cycles = self.in_row * self.count(Side::Base, layout);
        [if self.may_be_none { 0.0 } else { cycles }, cycles]
    }
}

fn terms<'a>(row: &'a Row, calibration: &Calibration) -> Vec<Term<'a>> {
    // The error of a fit to misses covers whole rows, with their costly instructions. A fit to
    // instructions alone has all misses in its error.
    let with_misses = calibration.fit.as_ref().filter(|fit| fit.needs_model());
    let [least, most] = with_misses.map_or([1.0; 2], |fit| fit.error);
    let known = |name: &str, [low, high]: LowHigh| {
        let effects = vec![row.effect(name)?];
        let cost = [low * least.min(1.0), high * most.max(1.0)];
        Some(Term { effects, may_be_none: false, cost, in_row: (low + high) / 2.0 })
    };
    let operations = calibration.operations.iter();
    let operations = operations.filter_map(|(kind, cost)| known(kind.name(), *cost));
    // The fit already has the misses of iterations beyond the first cache.
    let rep = iteration(row, calibration)
        .and_then(|cost| Some(Term { in_row: cost[0], ..known(REP, cost)? }));
    let fitted = calibration.fit.iter().flat_map(|fit| fitted(row, fit));
    operations.chain(rep).chain(fitted).collect()
}

/// Cost of an iteration in this row: of the string instructions that the change makes more or fewer
/// of, else of those in the row, else of any.
fn iteration(row: &Row, calibration: &Calibration) -> Option<LowHigh> {
    let deltas = Costly::STRINGS.iter().filter_map(|kind| row.effect(kind.name()));
    let most = deltas.map(|effect| effect.delta.abs()).fold(0.0, f64::max);
    // A few starts of another string instruction are noise of the layouts.
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

/// Least share of the starts of the string instruction that changed most; less is noise.
const LEAST_OF_STARTS: f64 = 0.1;

fn fitted<'a>(row: &'a Row, fit: &CalibrationFit) -> impl Iterator<Item = Term<'a>> {
    fit.cycles.iter().map(move |(thing, cycles)| {
        let cost = fit.cost(*thing);
        let counted = thing.metrics().iter().filter_map(|name| row.effect(name));
        let mut effects: Vec<&Effect> = counted.collect();
        // A region that is too short says nothing about the last cache: any number of references
        // may miss.
        let may_be_none = *thing == Fitted::CacheMiss && effects.is_empty();
        if may_be_none {
            effects.extend(row.effect(Modelled::CacheReferences.name()));
        }
        Term { effects, may_be_none, cost, in_row: *cycles }
    })
}

fn sum(left: LowHigh, right: LowHigh) -> LowHigh {
    std::array::from_fn(|end| left[end] + right[end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ktax_model::CountsEvidence;

    fn effect(metric: &str, base: &[u64], change: &[u64]) -> Effect {
        let samples = Sides { base: base.to_vec(), change: change.to_vec() };
        let per_op = |counts: &[u64]| counts[0] as f64 / 10.0;
        let (base, change) = (per_op(base), per_op(change));
        let verdict = if base == change { Verdict::NoDetectedChange } else { Verdict::Slower };
        Effect {
            metric: metric.to_owned(),
            base,
            change,
            delta: change - base,
            percent: None,
            layout: 0,
            delta_range: (0.0, 0.0),
            spread: 0.0,
            detectable: None,
            samples,
            verdict,
            functions: Vec::new(),
            paths: Vec::new(),
        }
    }

    fn row(effects: Vec<Effect>) -> Row {
        Row {
            row: "getppid".to_owned(),
            title: String::new(),
            operation: String::new(),
            ops: 10,
            params: BTreeMap::new(),
            headline: true,
            verdict: Verdict::Slower,
            reason: None,
            failures: Vec::new(),
            evidence: Evidence::Counts(CountsEvidence { effects, ..CountsEvidence::default() }),
        }
    }

    fn calibration(fit: Option<CalibrationFit>) -> Calibration {
        Calibration {
            cpu: "AMD EPYC".to_owned(),
            cycles_per_ns: 2.5,
            operations: [(Costly::Cr3Write, [100.0, 120.0]), (Costly::Locked, [4.0, 5.0])].into(),
            fit,
            ..Calibration::default()
        }
    }

    fn estimate_of(effects: Vec<Effect>, fit: Option<CalibrationFit>) -> Estimate {
        let mut rows = [row(effects)];
        estimate(&mut rows, "here.toml", &calibration(fit));
        rows[0].counts().unwrap().estimate.clone().unwrap()
    }

    fn fit(cycles: &[(Fitted, f64)]) -> Option<CalibrationFit> {
        let bounds = cycles.iter().map(|(thing, cycles)| (*thing, [*cycles, *cycles])).collect();
        let cycles = cycles.iter().copied().collect();
        Some(CalibrationFit { rows: 40, groups: 5, error: [0.5, 2.0], cycles, bounds })
    }

    #[test]
    fn costly_instructions_alone_have_the_ends_of_their_intervals() {
        let found = estimate_of(
            vec![
                effect("instructions", &[1000, 1000], &[1080, 1080]),
                effect("cr3-write", &[0, 0], &[20, 20]),
                // Ten fewer, each of which saves at most 5.
                effect("locked", &[30, 30], &[20, 20]),
                effect("verw", &[0, 0], &[10, 10]),
            ],
            None,
        );
        assert_eq!(found.delta, [2.0 * 100.0 - 5.0, 2.0 * 120.0 - 4.0]);
        assert_eq!((found.base, found.percent), (None, None));
        assert_eq!(found.left_out, [("verw".to_owned(), 1.0)].into());
        assert_eq!((found.machine.as_str(), found.cpu.as_str()), ("here.toml", "AMD EPYC"));
    }

    #[test]
    fn an_interval_has_every_layout() {
        let found = estimate_of(
            vec![
                effect("instructions", &[1000, 1000], &[1000, 1000]),
                effect("locked", &[0, 10], &[10, 40]),
            ],
            None,
        );
        assert_eq!(found.delta, [4.0, 15.0]);
    }

    #[test]
    fn a_fit_is_wrong_by_a_ratio_of_all_that_a_row_has() {
        let effects = || {
            vec![
                effect("instructions", &[1000], &[1100]),
                effect("cr3-write", &[0], &[20]),
                effect("model-page-walks", &[10], &[0]),
            ]
        };
        let found =
            estimate_of(effects(), fit(&[(Fitted::Instruction, 0.4), (Fitted::PageWalk, 30.0)]));
        assert_eq!(found.base, Some([70.0 * 0.5, 70.0 * 2.0]));
        let least = 4.0 * 0.5 + 200.0 * 0.5 - 30.0 * 2.0;
        let most = 4.0 * 2.0 + 240.0 * 2.0 - 30.0 * 0.5;
        assert_eq!(found.delta, [least, most]);
        assert_eq!(found.percent, Some([least / 140.0 * 100.0, most / 35.0 * 100.0]));
    }

    #[test]
    fn misses_that_could_not_be_counted_may_be_none_or_all() {
        let effects = vec![
            effect("instructions", &[1000], &[1000]),
            effect("model-cache-references", &[10], &[30]),
        ];
        let found = estimate_of(effects, fit(&[(Fitted::CacheMiss, 100.0)]));
        assert_eq!(found.delta, [0.0, 2.0 * 200.0]);
        // A base of 0 has no percentage.
        assert_eq!((found.base, found.percent), (Some([0.0, 200.0]), None));
    }

    #[test]
    fn what_the_rows_do_not_tell_apart_may_cost_all_or_nothing() {
        let mut fit = fit(&[(Fitted::Instruction, 1.0), (Fitted::PageWalk, 0.0)]);
        fit.as_mut().unwrap().bounds.insert(Fitted::PageWalk, [0.0, 40.0]);
        let effects =
            vec![effect("instructions", &[1000], &[1000]), effect("model-page-walks", &[0], &[10])];
        assert_eq!(estimate_of(effects, fit).delta, [0.0, 80.0]);
    }

    #[test]
    fn iterations_have_a_cost_or_are_left_out() {
        let effects = || {
            vec![effect("instructions", &[1000], &[1000]), effect("rep-iterations", &[0], &[5120])]
        };
        let found = estimate_of(effects(), None);
        assert_eq!(found.left_out, [("rep-iterations".to_owned(), 512.0)].into());
        let known = Calibration { rep_iteration: Some([0.0625, 0.5]), ..calibration(None) };
        let mut rows = [row(effects())];
        estimate(&mut rows, "here.toml", &known);
        let found = rows[0].counts().unwrap().estimate.clone().unwrap();
        assert_eq!((found.delta, found.left_out.len()), ([32.0, 256.0], 0));
    }

    #[test]
    fn with_too_few_layouts_for_a_verdict_what_changed_under_each_is_left_out() {
        let left_out_with = |base: &[u64], change: &[u64]| {
            let verdict = Verdict::NoDetectedChange;
            let effects = vec![
                effect("instructions", &vec![1000; base.len()], &vec![1000; base.len()]),
                Effect { verdict, ..effect("verw", base, change) },
            ];
            estimate_of(effects, None).left_out
        };
        assert_eq!(left_out_with(&[0, 0], &[20, 30]), [("verw".to_owned(), 2.0)].into());
        assert!(left_out_with(&[0, 30], &[20, 20]).is_empty());
        // With enough layouts the verdict decides.
        assert!(left_out_with(&[0; 5], &[20; 5]).is_empty());
    }

    #[test]
    fn what_a_fit_knows_by_its_branches_is_not_left_out() {
        let effects =
            || vec![effect("instructions", &[1000], &[1000]), effect("return-thunk", &[10], &[30])];
        assert_eq!(
            estimate_of(effects(), None).left_out,
            [("return-thunk".to_owned(), 2.0)].into()
        );
        assert!(estimate_of(effects(), fit(&[(Fitted::BranchMiss, 15.0)])).left_out.is_empty());
    }

    #[test]
    fn what_did_other_work_and_several_cpus_have_none() {
        let mut other = row(vec![effect("instructions", &[1], &[2])]);
        other.verdict = Verdict::DifferentWork;
        let mut several = row(vec![effect("makespan", &[1], &[2])]);
        if let Evidence::Counts(counts) = &mut several.evidence {
            counts.waits = Some(Sides::default());
        }
        let mut rows = [other, several];
        estimate(&mut rows, "here.toml", &calibration(None));
        assert!(rows.iter().all(|row| row.counts().unwrap().estimate.is_none()));
    }

    /// Clearing is much cheaper by the byte than copying by words: what changed is what iterates.
    #[test]
    fn an_iteration_costs_what_the_string_instruction_costs_that_changed() {
        let delta_with = |stosb: [u64; 2], movs: [u64; 2]| {
            let known = [(Costly::RepStosb, [0.02, 0.08]), (Costly::RepMovs, [0.5, 1.0])];
            let known = Calibration { iterations: known.into(), ..calibration(None) };
            let mut rows = [row(vec![
                effect("instructions", &[1000], &[1000]),
                effect("rep-iterations", &[100], &[40_100]),
                effect("rep-stosb", &stosb[..1], &stosb[1..]),
                effect("rep-movs", &movs[..1], &movs[1..]),
            ])];
            estimate(&mut rows, "here.toml", &known);
            let found = rows[0].counts().unwrap().estimate.clone().unwrap();
            assert!(found.left_out.is_empty(), "{found:?}");
            found.delta
        };
        assert_eq!(delta_with([0, 10], [50, 50]), [80.0, 320.0]);
        assert_eq!(delta_with([10, 10], [50, 60]), [2000.0, 4000.0]);
        // A layout moves one start in a hundred.
        assert_eq!(delta_with([0, 1000], [50, 60]), [80.0, 320.0]);
        // More starts of both kinds, of unknown lengths: the whole range of both costs.
        assert_eq!(delta_with([10, 20], [50, 60]), [80.0, 4000.0]);
        assert_eq!(delta_with([10, 10], [0, 0]), [80.0, 320.0]);
    }

    /// If all instructions take twice as long as predicted, so do those that the change adds.
    #[test]
    fn a_fit_to_instructions_alone_is_wrong_by_one_ratio_on_both_sides() {
        let effects = || {
            vec![
                effect("instructions", &[1000, 1000], &[1100, 1100]),
                effect("cr3-write", &[0, 0], &[20, 20]),
            ]
        };
        let plain = fit(&[(Fitted::Instruction, 0.8)]);
        let found = estimate_of(effects()[..1].to_vec(), plain.clone());
        assert_eq!(found.base, Some([40.0, 160.0]));
        let [low, high] = found.percent.unwrap();
        assert!((low - 10.0).abs() < 1e-9 && (high - 10.0).abs() < 1e-9, "{low} {high}");
        // A load of CR3 was timed: it costs the same in a row that takes longer.
        let [low, high] = estimate_of(effects(), plain).percent.unwrap();
        assert!((low - (10.0 + 200.0 / 1.6)).abs() < 1e-9, "{low}");
        assert!((high - (10.0 + 240.0 / 0.4)).abs() < 1e-9, "{high}");
    }
}
