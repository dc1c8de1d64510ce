use super::boots::{of_side, value};
use super::row::{different_work, log_ratio_of, row};
use super::{crossings, noise};
use crate::{lost, one_image};
use ktax_model::{
    Accelerator, Comparison, ComparisonMethod, Facts, Plan, Row, RunsOn, Side, Sides, TimedPair,
    TimesComparison, TimesPlan, Warning, Workload,
};
use ktax_stats::timed::{MIN_CONTROLS, MIN_PAIRS, Next, Pairs, Rules, Trial, TrialRow};

/// A row without a time in the first Boots of a Side, so many, is not waited for.
const TRIES: usize = 3;

/// The log-ratios of one row.
#[derive(Default)]
struct Ratios {
    pairs: Vec<f64>,
    controls: Vec<f64>,
}

/// Whether the Plan wants another pair after these.
pub fn wants_more(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> bool {
    if why_ended(plan, pairs).is_some() {
        return false;
    }
    // Without its A/A pairs the pilot is no result, however few pairs were asked for.
    if pairs.len() < MIN_PAIRS + MIN_CONTROLS {
        return true;
    }
    let of_change = pairs.iter().filter(|pair| !pair.is_control).count();
    // Also where no row has a spread that a cap could be made of.
    if of_change >= plan.method.pairs.unwrap_or(plan.method.most_pairs) as usize {
        return false;
    }
    let ratios = ratios(&plan.method.headline, pairs);
    matches!(trial(plan).next(&borrowed(&ratios)), Next::GoOn { .. })
}

/// Why more pairs would not help, so that the run stopped early.
pub fn why_ended(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Option<String> {
    if !pairs.is_empty() && plan.method.headline.iter().all(|row| never_ran(row, pairs)) {
        return Some("no row that decides can run on both sides".to_owned());
    }
    let is_another = |row: &Workload| different_work(pairs, &row.row).is_some();
    if plan.method.headline.iter().all(|row| is_another(row) || never_ran(row, pairs)) {
        return Some("no row that decides does the same work on both sides".to_owned());
    }
    let is_one_enough = is_translated(&plan.method) && pairs.iter().any(|pair| !pair.is_control);
    if is_one_enough || pairs.len() >= MIN_PAIRS + MIN_CONTROLS {
        return unfit(&plan.method, pairs);
    }
    undeclared(&plan.method, pairs)
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
pub fn progress(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Progress {
    let ratios = ratios(&plan.method.headline, pairs);
    let controls = pairs.iter().filter(|pair| pair.is_control).count();
    let cap = trial(plan).cap(&borrowed(&ratios));
    Progress { pairs: pairs.len() - controls, controls, cap }
}

/// What is known so far of the rows that decide, change over base.
pub fn estimates(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Vec<(String, f64)> {
    let ratios = ratios(&plan.method.headline, pairs);
    let judged = trial(plan).judge(&borrowed(&ratios), &[]).headline;
    let named = plan.method.headline.iter().zip(&judged).filter(|(_, row)| row.pairs > 0);
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
pub fn times(plan: &Plan<TimesPlan>, pairs: &[TimedPair]) -> Comparison {
    let (headline, secondary) =
        (ratios(&plan.method.headline, pairs), ratios(&plan.method.secondary, pairs));
    let judged = trial(plan).judge(&borrowed(&headline), &borrowed(&secondary));
    let unfit = unfit(&plan.method, pairs);
    let row = |is_headline: bool| {
        let unfit = unfit.as_deref();
        move |(workload, judged): (&Workload, &TrialRow)| {
            row(workload, judged, is_headline, pairs, unfit)
        }
    };
    let mut rows: Vec<Row> =
        plan.method.headline.iter().zip(&judged.headline).map(row(true)).collect();
    rows.extend(plan.method.secondary.iter().zip(&judged.secondary).map(row(false)));
    let controls = pairs.iter().filter(|pair| pair.is_control).count();
    let method = ComparisonMethod::Times(TimesComparison {
        seed: plan.seed,
        plan: plan.method.clone(),
        pairs: pairs.len() - controls,
        controls,
        unfit,
        looks: trial(plan).looks(&borrowed(&headline)),
        crossings: crossings::crossings(&plan.method, &rows),
        facts: Sides { base: facts(pairs, Side::Base), change: facts(pairs, Side::Change) },
    });
    let (title, threshold_percent) = (plan.title.clone(), plan.threshold_percent);
    let warnings = warnings(&plan.method, pairs);
    Comparison { title, threshold_percent, method, rows, warnings }
}

/// Of a Side's first Boot; what changes later is a warning.
fn facts(pairs: &[TimedPair], side: Side) -> Facts {
    of_side(pairs, side).next().map(|boot| boot.facts.clone()).unwrap_or_default()
}

fn is_translated(plan: &TimesPlan) -> bool {
    plan.runs_on == RunsOn::Guests && plan.machine.accelerator == Accelerator::Tcg
}

/// Why no row can have an answer.
fn unfit(plan: &TimesPlan, pairs: &[TimedPair]) -> Option<String> {
    if is_translated(plan) {
        let text = "QEMU's translator ran the guests, and its times mean nothing; write \
                    accelerator = \"kvm\"";
        return Some(text.to_owned());
    }
    undeclared(plan, pairs).or_else(|| noise::cannot_measure(pairs))
}

fn undeclared(plan: &TimesPlan, pairs: &[TimedPair]) -> Option<String> {
    let differences = noise::undeclared(plan, pairs);
    let all: Vec<String> = differences.iter().map(ToString::to_string).collect();
    (!all.is_empty() && !plan.allow_differences).then(|| {
        format!(
            "base and change differ in more than was declared: {}; make them alike, or continue \
             with --allow-differences",
            all.join("; ")
        )
    })
}

fn warnings(plan: &TimesPlan, pairs: &[TimedPair]) -> Vec<Warning> {
    let mut warnings: Vec<Warning> = one_image::of_times(plan).into_iter().collect();
    warnings.extend(noise::warnings(plan, pairs));
    warnings.extend(lost::of_pairs(pairs));
    let differences = noise::undeclared(plan, pairs);
    warnings.extend(differences.iter().map(|difference| Warning {
        fact: format!("not declared, and different: {difference}"),
        next_step: "make the sides alike, or declare it".into(),
    }));
    warnings
}

fn trial(plan: &Plan<TimesPlan>) -> Trial {
    let rules = Rules {
        threshold: plan.threshold_percent / 100.0,
        most_pairs: plan.method.most_pairs as usize,
        pairs: plan.method.pairs.map(|pairs| pairs as usize),
        ..Rules::default()
    };
    Trial::new(rules, plan.method.headline.len())
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
            let kept = if pair.is_control { &mut ratios.controls } else { &mut ratios.pairs };
            kept.extend(log_ratio_of(pair, &workload.row));
        }
        ratios
    };
    workloads.iter().map(of_row).collect()
}
