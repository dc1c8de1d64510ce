//! A run directory becomes a [`Comparison`]: what changed, by how much, and in which functions.
//!
//! Nothing here measures or prints. The same directory gives the same Comparison, on any machine.

mod effect;
mod functions;
mod gather;
mod growth;
mod ledger;
mod native;
pub mod noise;
mod parameters;
mod stat;
mod timed;
mod work;

use thiserror::Error;

use crate::model::{
    Comparison, Context, Effect, FORMAT, Growth, METRICS, Outcome, Plan, Row, RowFailure, Side,
    Sides, Signature, Subjects, Verdict, Warning, Workload,
};
use crate::rundir::{RunDir, RunDirError};
pub use ledger::ledger;
pub use native::{derive_columns, is_column, usual_columns};
pub use stat::counters;
pub use timed::{
    Progress, estimates, in_blocks, is_drawn, never_ran, of_blocks, progress, timed, turns,
    wants_more, why_ended,
};

use gather::{Boots, Gathered, Pair};

/// Why a run directory cannot be analysed. A failed Run is no reason: it is a row.
#[derive(Debug, Error)]
pub enum AnalyseError {
    /// The directory cannot be read.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The plan was not carried out to its end.
    #[error("{missing} of {planned} boots are not made yet; resume with `ktax run {dir}`")]
    BootsMissing { missing: usize, planned: usize, dir: String },
    /// A Boot was made, and not all Runs in it.
    #[error("{row} was not run yet in boot {boot}; resume with `ktax run {dir}`")]
    RunMissing { row: String, boot: String, dir: String },
    /// The plan is not one that ktax makes.
    #[error("plan.json {reason}; plan again with `ktax plan`")]
    Plan { reason: String },
    /// The functions do not add up to the Sample.
    #[error(
        "the functions of {row} in boot {boot} add up to {functions} instructions, the sample says \
         {sample}; run `ktax doctor`, then measure again into a new directory"
    )]
    Sum { row: String, boot: String, functions: u64, sample: u64 },
}

type Result<T> = std::result::Result<T, AnalyseError>;

/// Compares the two Sides of a finished run directory.
pub fn analyse(dir: &RunDir) -> Result<Comparison> {
    let plan = dir.plan();
    let boots = Boots::read(dir)?;
    let mut rows = Vec::with_capacity(plan.workloads.len());
    let mut warnings = unknown_parameters(plan, &boots);
    for workload in &plan.workloads {
        let gathered = boots.gather(workload)?;
        if let Gathered::Measured(pairs) = &gathered {
            warnings.extend(notes(workload, pairs));
        }
        rows.push(row(dir, workload, gathered)?);
    }
    Ok(Comparison {
        format: FORMAT,
        title: plan.title.clone(),
        key: plan.key.clone(),
        subjects: subjects(plan),
        layouts: plan.layouts.len(),
        threshold_percent: plan.threshold_percent,
        growth: grown(plan, &rows),
        rows,
        warnings,
    })
}

/// How each Side's headline grows over the rows that were measured.
fn grown(plan: &Plan, rows: &[Row]) -> Vec<Growth> {
    let measured = || plan.workloads.iter().zip(rows);
    let of = |side: Side| {
        let cost = |effect: &Effect| if side == Side::Base { effect.base } else { effect.change };
        let costs: Vec<growth::Cost<'_>> =
            measured().filter_map(|(w, row)| Some((w, cost(row.effects.first()?)))).collect();
        growth::growth(&costs, Some(side))
    };
    Side::BOTH.into_iter().flat_map(of).collect()
}

/// The pair of an Effect's Layout.
fn pair_of<'a>(effect: &Effect, pairs: &'a [Pair<'a>]) -> &'a Pair<'a> {
    // One pair for each Layout, so an index of the one is an index of the other.
    &pairs[effect.layout]
}

/// What the guests saw in the headline's Layout.
fn seen(effects: &[Effect], pairs: &[Pair]) -> Option<Sides<Signature>> {
    let pair = pair_of(effects.first()?, pairs);
    let values = |side| pair.samples.get(side).values.clone();
    let seen = Sides { base: values(Side::Base), change: values(Side::Change) };
    (!seen.base.is_empty() || !seen.change.is_empty()).then_some(seen)
}

/// Of all Boots of both Sides.
fn unknown_parameters(plan: &Plan, boots: &Boots) -> Vec<Warning> {
    let of = |side: Side| {
        let ignored = boots.ignored(side);
        let ignored = ignored.iter().map(String::as_str).collect();
        parameters::unknown(side, &plan.subjects.get(side).boot_line, &ignored)
    };
    Side::BOTH.into_iter().flat_map(of).collect()
}

fn subjects(plan: &Plan) -> Sides<Subjects> {
    let of = |side| Subjects {
        subject: plan.subjects.get(side).clone(),
        kernel: plan.kernels.get(side).clone(),
    };
    Sides { base: of(Side::Base), change: of(Side::Change) }
}

fn row(dir: &RunDir, workload: &Workload, gathered: Gathered) -> Result<Row> {
    let pairs = match gathered {
        Gathered::Failed(failures) => {
            return Ok(Row { failures, ..empty(workload, Verdict::Failed) });
        }
        Gathered::Measured(pairs) => pairs,
    };
    let threshold = dir.plan().threshold_percent;
    let mut effects = Vec::with_capacity(METRICS.len());
    for metric in &METRICS {
        effects.extend(effect::effect(metric, &pairs, workload.ops, threshold));
    }
    let different_work = work::differences(&pairs);
    if !different_work.is_empty() {
        // The numbers stay, for whoever looks for the reason, and say nothing about the change.
        effects.iter_mut().for_each(|effect| effect.verdict = Verdict::DifferentWork);
        return Ok(Row { effects, different_work, ..empty(workload, Verdict::DifferentWork) });
    }
    for (effect, metric) in effects.iter_mut().zip(&METRICS) {
        if effect.verdict.is_change() {
            let pair = pair_of(effect, &pairs);
            effect.functions = functions::read(dir, workload, pair, metric)?;
        }
    }
    let (verdict, decided_by) = decide(&effects);
    let seen = seen(&effects, &pairs);
    Ok(Row { effects, decided_by, seen, ..empty(workload, verdict) })
}

/// A row changed if its headline did, or else its REP iterations in process context: clearing and
/// copying memory is work that hardware retires as a single instruction. Other Contexts are shown
/// and decide nothing.
fn decide(effects: &[Effect]) -> (Verdict, String) {
    let in_process = effects.iter().zip(&METRICS).filter(|(_, m)| m.context == Context::Process);
    let changed = in_process.map(|(effect, _)| effect).find(|effect| effect.verdict.is_change());
    match changed.or(effects.first()) {
        Some(effect) => (effect.verdict, effect.metric.clone()),
        None => (Verdict::TooFewBoots, String::new()),
    }
}

fn empty(workload: &Workload, verdict: Verdict) -> Row {
    Row {
        row: workload.row.clone(),
        title: workload.title.clone(),
        operation: workload.operation.clone(),
        ops: workload.ops,
        verdict,
        effects: Vec::new(),
        decided_by: String::new(),
        params: workload.params.clone(),
        seen: None,
        different_work: Vec::new(),
        failures: Vec::<RowFailure>::new(),
    }
}

/// What the plugin could not keep apart: each distinct note once for each Workload.
fn notes(workload: &Workload, pairs: &[Pair]) -> Vec<Warning> {
    let mut seen: Vec<(&str, usize)> = Vec::new();
    for sample in pairs.iter().flat_map(|pair| [&pair.samples.base, &pair.samples.change]) {
        for note in &sample.notes {
            match seen.iter_mut().find(|(text, _)| text == note) {
                Some((_, boots)) => *boots += 1,
                None => seen.push((note, 1)),
            }
        }
    }
    let warning = |(note, boots): (&str, usize)| Warning {
        fact: format!("{}: not kept apart in {boots} boots: {note}", workload.row),
        next_step: "read the row's contexts together; `ktax doctor` checks the plugin".into(),
    };
    seen.into_iter().map(warning).collect()
}

/// The Sample of a Run, or why there is none.
fn sample_or_failure(outcome: Outcome, ops: u64) -> gather::Attempt {
    match outcome {
        Outcome::Measured(sample) if sample.ops == ops => Ok(sample),
        Outcome::Measured(sample) => Err(work::wrong_ops(sample.ops, ops)),
        Outcome::Failed(failure) => Err(failure),
    }
}
