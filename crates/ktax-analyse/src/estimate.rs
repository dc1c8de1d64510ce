//! Estimates of the time that a machine takes for a row, by its Calibration.
//!
//! The cost of each term of a row is an interval. The low end of an estimate adds the low ends of
//! all terms, under the Layout with the smallest sum; the high end adds the high ends. So an
//! estimate is as wide as all errors in the worst case.

use std::collections::BTreeMap;

use ktax_model::{
    Calibration, CalibrationFit, Costly, Effect, Estimate, Evidence, Fitted, LowHigh, Metric,
    Modelled, Row, Side, Sides, Verdict, hull, metric,
};
use ktax_stats::exact::MIN_LAYOUTS;

const REP: &str = "rep-iterations";

/// Adds an Estimate to each counted row. The rows need the counters of the model with which the fit
/// was made.
pub fn estimate(rows: &mut [Row], machine: &str, calibration: &Calibration) {
    for row in rows {
        let estimate = row_estimate(row, machine, calibration);
        if let Evidence::Counts(counts) = &mut row.evidence {
            counts.estimate = estimate;
        }
    }
}

/// Estimate of a row; `None` if the row was not measured or has several CPUs, for which there is no
/// sum of cycles.
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
        left_out: unknown_deltas(row, &terms, calibration),
    })
}

/// Delta in percent of the base; the base may be anywhere in its interval.
fn percent(delta: LowHigh, base: LowHigh) -> LowHigh {
    let percents = delta.into_iter().flat_map(|delta| base.map(|base| delta / base * 100.0));
    hull(percents.map(|percent| [percent; 2])).unwrap_or_default()
}

/// Delta in percent of the base, by a fit to instructions alone. If a row takes more cycles than
/// predicted, so does each of its instructions, also those that the change adds, so base and change
/// have the same error.
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
    let percent_of_layout = |layout: usize, error: f64| {
        let base = terms.iter().map(|term| term.base(layout)[1]).sum::<f64>() * error;
        let added =
            instructions.count(Side::Change, layout) - instructions.count(Side::Base, layout);
        let by_instructions = fit.cost_with(Fitted::Instruction, error).map(|cost| cost * added);
        let by_instructions = hull(by_instructions.map(|cycles| [cycles; 2])).unwrap_or_default();
        let delta = others.iter().map(|term| term.delta(layout)).fold(by_instructions, sum);
        delta.map(|cycles| cycles / base * 100.0)
    };
    hull((0..layouts).flat_map(|layout| fit.error.map(|error| percent_of_layout(layout, error))))
}

/// Deltas of costly instructions and REP iterations whose cost is not known.
fn unknown_deltas(
    row: &Row,
    terms: &[Term<'_>],
    calibration: &Calibration,
) -> BTreeMap<String, f64> {
    // The fit to branch misses includes the cost of these.
    let is_fitted = |kind: Costly| {
        calibration.fit.is_some() && matches!(kind, Costly::Indirect | Costly::ReturnThunk)
    };
    let has_cost = |name: &str| {
        let costly = metric(name).and_then(Metric::costly);
        name == REP || costly.is_some_and(|kind| !is_fitted(kind))
    };
    let has_term = |name: &str| {
        terms.iter().flat_map(|term| &term.effects).any(|effect| effect.metric == name)
    };
    // If the start of a string instruction was not timed, its cost is in that of the iterations.
    let is_start = |name: &str| Costly::STRINGS.iter().any(|kind| kind.name() == name);
    let is_known = |name: &str| has_term(name) || is_start(name) && has_term(REP);
    let changed = row.effects().iter().filter(|effect| has_changed(effect));
    let unknown = changed.filter(|effect| has_cost(&effect.metric) && !is_known(&effect.metric));
    unknown.map(|effect| (effect.metric.clone(), effect.delta)).collect()
}

/// Returns true if the Effect changed by its verdict or, with too few Layouts for a verdict, in the
/// same direction under each Layout.
fn has_changed(effect: &Effect) -> bool {
    let Sides { base, change } = &effect.samples;
    let holds_for_all = |compare: fn(&u64, &u64) -> bool| {
        !base.is_empty() && base.iter().zip(change).all(|(base, change)| compare(base, change))
    };
    let has_few_layouts = base.len() < MIN_LAYOUTS;
    effect.verdict.is_change() && effect.delta != 0.0
        || has_few_layouts && (holds_for_all(u64::lt) || holds_for_all(u64::gt))
}

/// A term of a row's estimate: counts and the cost of one.
struct Term<'a> {
    /// Effects whose raw counts are added up.
    effects: Vec<&'a Effect>,
    /// Set if the count is only an upper bound, so that it may be 0.
    may_be_zero: bool,
    /// Interval of the cost, with all errors, for deltas.
    cost: LowHigh,
    /// Cost for the sum of a row's base. The sum is multiplied by the error of the fit.
    cost_in_row: f64,
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
        let zero = self.may_be_zero.then_some(0.0);
        let ends = self.cost.map(|cost| cost * delta).into_iter().chain(zero);
        hull(ends.map(|cycles| [cycles; 2])).unwrap_or_default()
    }

    fn base(&self, layout: usize) -> LowHigh {
        let cycles = self.cost_in_row * self.count(Side::Base, layout);
        [if self.may_be_zero { 0.0 } else { cycles }, cycles]
    }
}

/// Terms of a row whose costs are known.
fn terms<'a>(row: &'a Row, calibration: &Calibration) -> Vec<Term<'a>> {
    // The error of a fit to misses is that of whole rows, so it applies to costly instructions,
    // too. The error of a fit to instructions alone is mostly that of misses.
    let fit_to_misses = calibration.fit.as_ref().filter(|fit| fit.needs_model());
    let [low_error, high_error] = fit_to_misses.map_or([1.0; 2], |fit| fit.error);
    let timed_term = |name: &str, [low, high]: LowHigh| {
        let effects = vec![row.effect(name)?];
        let cost = [low * low_error.min(1.0), high * high_error.max(1.0)];
        Some(Term { effects, may_be_zero: false, cost, cost_in_row: (low + high) / 2.0 })
    };
    let operations = calibration.operations.iter();
    let operations = operations.filter_map(|(kind, cost)| timed_term(kind.name(), *cost));
    // The fit includes the misses of iterations, so the base has the cost of iterations without
    // misses.
    let rep = iteration_cost(row, calibration)
        .and_then(|cost| Some(Term { cost_in_row: cost[0], ..timed_term(REP, cost)? }));
    let fitted = calibration.fit.iter().flat_map(|fit| fitted_terms(row, fit));
    operations.chain(rep).chain(fitted).collect()
}

/// Cost of a REP iteration in this row: that of the string instructions whose count changed, else
/// of those in the row, else of any string instruction.
fn iteration_cost(row: &Row, calibration: &Calibration) -> Option<LowHigh> {
    let deltas = Costly::STRINGS.iter().filter_map(|kind| row.effect(kind.name()));
    let max_delta = deltas.map(|effect| effect.delta.abs()).fold(0.0, f64::max);
    let is_large =
        |effect: &Effect| effect.delta != 0.0 && effect.delta.abs() >= max_delta * MIN_DELTA_SHARE;
    let is_in_row = |effect: &Effect| effect.base + effect.change > 0.0;
    let cost_of_kinds = |is_selected: &dyn Fn(&Effect) -> bool| {
        let kinds = Costly::STRINGS.iter();
        let kinds = kinds.filter(|kind| row.effect(kind.name()).is_some_and(is_selected));
        hull(kinds.filter_map(|kind| calibration.iterations.get(kind).copied()))
    };
    let cost_of_any = || hull(calibration.iterations.values().copied());
    let cost = cost_of_kinds(&is_large).or_else(|| cost_of_kinds(&is_in_row));
    cost.or_else(cost_of_any).or(calibration.rep_iteration)
}

/// Smallest delta of a string instruction, as a share of the largest such delta; smaller deltas are
/// noise of the Layouts.
const MIN_DELTA_SHARE: f64 = 0.1;

/// Terms whose costs were fitted.
fn fitted_terms<'a>(row: &'a Row, fit: &CalibrationFit) -> impl Iterator<Item = Term<'a>> {
    fit.cycles.iter().map(move |(term, cycles)| {
        let cost = fit.cost(*term);
        let counted = term.metrics().iter().filter_map(|name| row.effect(name));
        let mut effects: Vec<&Effect> = counted.collect();
        // A region may be too short for a count of the last cache's misses: then any number of the
        // references may miss.
        let may_be_zero = *term == Fitted::CacheMiss && effects.is_empty();
        if may_be_zero {
            effects.extend(row.effect(Modelled::CacheReferences.name()));
        }
        Term { effects, may_be_zero, cost, cost_in_row: *cycles }
    })
}

/// Adds two intervals.
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
    fn an_estimate_without_a_fit_is_the_interval_of_costly_instructions() {
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
    fn an_interval_covers_every_layout() {
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
    fn the_error_of_a_fit_applies_to_all_terms_of_a_row() {
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
    fn uncounted_misses_are_from_none_to_all_references() {
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
    fn a_cost_that_is_not_determined_has_the_bounds_of_the_fit() {
        let mut fit = fit(&[(Fitted::Instruction, 1.0), (Fitted::PageWalk, 0.0)]);
        fit.as_mut().unwrap().bounds.insert(Fitted::PageWalk, [0.0, 40.0]);
        let effects =
            vec![effect("instructions", &[1000], &[1000]), effect("model-page-walks", &[0], &[10])];
        assert_eq!(estimate_of(effects, fit).delta, [0.0, 80.0]);
    }

    #[test]
    fn iterations_without_a_known_cost_are_left_out() {
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
    fn with_few_layouts_unknown_costs_that_changed_under_each_are_left_out() {
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
    fn costly_branches_are_part_of_a_fit_with_branch_misses() {
        let effects =
            || vec![effect("instructions", &[1000], &[1000]), effect("return-thunk", &[10], &[30])];
        assert_eq!(
            estimate_of(effects(), None).left_out,
            [("return-thunk".to_owned(), 2.0)].into()
        );
        assert!(estimate_of(effects(), fit(&[(Fitted::BranchMiss, 15.0)])).left_out.is_empty());
    }

    #[test]
    fn different_work_and_several_cpus_have_no_estimate() {
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

    /// Clearing a byte is much cheaper than copying a word, so the changed instruction decides.
    #[test]
    fn an_iteration_costs_as_much_as_that_of_the_changed_string_instruction() {
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

    /// If all instructions take twice as long as predicted, those that the change adds do, too.
    #[test]
    fn a_fit_to_instructions_alone_has_one_error_on_both_sides() {
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
