//! Timed pairs become a [`TimedComparison`]; and the question after each pair whether to go on.

mod blocks;
mod crossings;
mod row;

use super::noise;
use crate::model::{
    Accelerator, FORMAT, Facts, Side, Sides, TimedComparison, TimedEngine, TimedPair, TimedPlan,
    TimedRow, Warning, Workload,
};
use crate::stats::timed::{MIN_CONTROLS, MIN_PAIRS, Next, Pairs, Row, Rules, Trial, log_ratio};
pub use blocks::{in_blocks, is_drawn, of_blocks, turns};
use row::{different_work, of_side, row, times, value};

/// A row without a time in the first Boots of a Side, so many, is not waited for.
const TRIES: usize = 3;

/// The log-ratios of one row.
#[derive(Default)]
struct Ratios {
    pairs: Vec<f64>,
    controls: Vec<f64>,
}

/// Whether the Plan wants another pair after these.
pub fn wants_more(plan: &TimedPlan, pairs: &[TimedPair]) -> bool {
    if why_ended(plan, pairs).is_some() {
        return false;
    }
    // Without its A/A pairs the pilot is no result, however few pairs were asked for.
    if pairs.len() < MIN_PAIRS + MIN_CONTROLS {
        return true;
    }
    let of_change = pairs.iter().filter(|pair| !pair.is_control).count();
    // Also where no row has a spread that a cap could be made of.
    if of_change >= plan.pairs.unwrap_or(plan.most_pairs) as usize {
        return false;
    }
    let ratios = ratios(&plan.headline, pairs);
    matches!(trial(plan).next(&borrowed(&ratios)), Next::GoOn { .. })
}

/// Why more pairs would not help, so that it ended before its end.
pub fn why_ended(plan: &TimedPlan, pairs: &[TimedPair]) -> Option<String> {
    if !pairs.is_empty() && plan.headline.iter().all(|row| never_ran(row, pairs)) {
        return Some("no row that decides can run on both sides".to_owned());
    }
    let is_another = |row: &Workload| different_work(pairs, &row.row).is_some();
    if plan.headline.iter().all(|row| is_another(row) || never_ran(row, pairs)) {
        return Some("no row that decides does the same work on both sides".to_owned());
    }
    let is_one_enough = is_translated(plan) && pairs.iter().any(|pair| !pair.is_control);
    if is_one_enough || pairs.len() >= MIN_PAIRS + MIN_CONTROLS {
        return unfit(plan, pairs);
    }
    undeclared(plan, pairs)
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Pairs that there are.
    pub pairs: usize,
    /// A/A pairs that there are.
    pub controls: usize,
    /// The number of pairs after which it ends at the latest, when that is known.
    pub cap: Option<usize>,
}

/// How far these pairs are on their way to a result of the Plan.
pub fn progress(plan: &TimedPlan, pairs: &[TimedPair]) -> Progress {
    let ratios = ratios(&plan.headline, pairs);
    let controls = pairs.iter().filter(|pair| pair.is_control).count();
    let cap = trial(plan).cap(&borrowed(&ratios));
    Progress { pairs: pairs.len() - controls, controls, cap }
}

/// What is known so far of the rows that decide, change over base.
pub fn estimates(plan: &TimedPlan, pairs: &[TimedPair]) -> Vec<(String, f64)> {
    let ratios = ratios(&plan.headline, pairs);
    let judged = trial(plan).judge(&borrowed(&ratios), &[]).headline;
    let named = plan.headline.iter().zip(&judged).filter(|(_, row)| row.pairs > 0);
    named.map(|(it, row)| (it.row.clone(), row.ratio().estimate)).collect()
}

/// Whether a Side was tried and has not a single time: it is not tried again.
pub fn never_ran(workload: &Workload, pairs: &[TimedPair]) -> bool {
    Side::BOTH.iter().any(|side| {
        let values = || of_side(pairs, *side).map(|boot| value(boot, &workload.row));
        values().count() >= TRIES && values().all(|value| value.is_none())
    })
}

/// Compares the two Sides; what is on disk may be less than the Plan wanted.
pub fn timed(plan: &TimedPlan, pairs: &[TimedPair]) -> TimedComparison {
    let (headline, secondary) = (ratios(&plan.headline, pairs), ratios(&plan.secondary, pairs));
    let judged = trial(plan).judge(&borrowed(&headline), &borrowed(&secondary));
    let unfit = unfit(plan, pairs);
    let row = |is_headline: bool| {
        let unfit = unfit.as_deref();
        move |(workload, judged): (&Workload, &Row)| {
            row(workload, judged, is_headline, pairs, unfit)
        }
    };
    let mut rows: Vec<TimedRow> =
        plan.headline.iter().zip(&judged.headline).map(row(true)).collect();
    rows.extend(plan.secondary.iter().zip(&judged.secondary).map(row(false)));
    let controls = pairs.iter().filter(|pair| pair.is_control).count();
    TimedComparison {
        format: FORMAT,
        plan: plan.clone(),
        pairs: pairs.len() - controls,
        controls,
        unfit,
        crossings: crossings::crossings(plan, &rows),
        rows,
        facts: Sides { base: facts(pairs, Side::Base), change: facts(pairs, Side::Change) },
        warnings: warnings(plan, pairs),
    }
}

/// Of a Side's first Boot; what changes later is a warning.
fn facts(pairs: &[TimedPair], side: Side) -> Facts {
    of_side(pairs, side).next().map(|boot| boot.facts.clone()).unwrap_or_default()
}

fn is_translated(plan: &TimedPlan) -> bool {
    plan.engine == TimedEngine::Kvm && plan.machine.accelerator == Accelerator::Tcg
}

/// Why no row can have an answer.
fn unfit(plan: &TimedPlan, pairs: &[TimedPair]) -> Option<String> {
    if is_translated(plan) {
        let text = "QEMU's translator ran the guests, and its times mean nothing; write \
                    accelerator = \"kvm\"";
        return Some(text.to_owned());
    }
    undeclared(plan, pairs).or_else(|| noise::cannot_measure(pairs))
}

fn undeclared(plan: &TimedPlan, pairs: &[TimedPair]) -> Option<String> {
    let differences = noise::undeclared(plan, pairs);
    let all: Vec<String> = differences.iter().map(ToString::to_string).collect();
    (!all.is_empty() && !plan.allow_differences).then(|| {
        format!(
            "base and change differ in more than was declared: {}; make them alike, or go on with \
             --allow-differences",
            all.join("; ")
        )
    })
}

fn warnings(plan: &TimedPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let mut warnings = noise::warnings(plan, pairs);
    let differences = noise::undeclared(plan, pairs);
    warnings.extend(differences.iter().map(|difference| Warning {
        fact: format!("not declared, and different: {difference}"),
        next_step: "make the sides alike, or declare it".into(),
    }));
    warnings
}

fn trial(plan: &TimedPlan) -> Trial {
    let rules = Rules {
        threshold: plan.threshold_percent / 100.0,
        most_pairs: plan.most_pairs as usize,
        pairs: plan.pairs.map(|pairs| pairs as usize),
        ..Rules::default()
    };
    Trial::new(rules, plan.headline.len())
}

fn borrowed(ratios: &[Ratios]) -> Vec<Pairs<'_>> {
    ratios.iter().map(|row| Pairs { pairs: &row.pairs, controls: &row.controls }).collect()
}

/// Of each row; a row whose Sides do different work has none, so that nothing waits for it.
fn ratios(workloads: &[Workload], pairs: &[TimedPair]) -> Vec<Ratios> {
    let of_row = |workload: &Workload| {
        let mut ratios = Ratios::default();
        if different_work(pairs, &workload.row).is_some() {
            return ratios;
        }
        for pair in pairs {
            let loops = |side| times(pair.boots.get(side), &workload.row).unwrap_or_default();
            let kept = if pair.is_control { &mut ratios.controls } else { &mut ratios.pairs };
            kept.extend(log_ratio(loops(Side::Base), loops(Side::Change)));
        }
        ratios
    };
    workloads.iter().map(of_row).collect()
}
