//! Comparisons of counts: pairs the Layouts of both Sides and judges them by the exact rule.

mod functions;
mod paths;
mod runs;

pub use functions::plain;
pub use paths::row_paths;
pub use runs::CountsRuns;

pub(super) use functions::function_deltas;
pub(super) use runs::{boots_missing, run_missing, wrong_plan};

use crate::effect::{EffectValues, RowCost, effect, growth_of_families, signature_differences};
use crate::estimate::estimate;
use crate::warnings;
use crate::warnings::RunWarnings;
use functions::OperationSource;
use ktax_model::{
    AWAITED, AskedCounts, Comparison, ComparisonMethod, CountedOperations, CountsComparison,
    CountsEvidence, CountsPlan, Effect, Evidence, Growth, MAKESPAN, METRICS, Metric, Model, Plan,
    PrintedEnd, Result, Row, Sample, Side, Sides, Signature, TRANSFERS, UserProgram, Verdict,
    Warning, WorkEvidence, Workload, metric,
};
use runs::{Pair, PairedBoots, Scale, WorkloadRuns};

/// Compares the two Sides of a finished run.
pub fn counts(runs: &dyn CountsRuns) -> Result<Comparison> {
    let plan = &runs.plan().method;
    let boots = PairedBoots::read(runs)?;
    let mut rows = Vec::with_capacity(plan.workloads.len());
    let mut warnings = unknown_parameters(plan, &boots);
    warnings.extend(warnings::same_image_of_counts(plan));
    warnings.extend(warnings::unsettled_warnings(boots.boots()));
    warnings.extend(warnings::checksum_warnings(boots.boots()));
    warnings.extend(warnings::lost_boot_warnings(boots.boots()));
    let mut run_warnings = RunWarnings::default();
    for workload in &plan.workloads {
        rows.push(match boots.workload_runs(workload)? {
            WorkloadRuns::Measured(pairs) => {
                run_warnings.add(workload, pairs.iter().flat_map(pair_samples));
                measured_row(runs, workload.clone(), pairs)?
            }
            WorkloadRuns::Failed(failures) => {
                Row { failures, ..row_with(workload, Verdict::Failed, CountsEvidence::default()) }
            }
        });
    }
    warnings.extend(run_warnings.warnings());
    warnings.extend(warnings::fallback_warning(&rows));
    let growth = growth_of_rows(plan, &rows);
    let computed = runs::computed_rows(runs, &boots, &rows)?;
    // The computed cost of an operation is listed before the rows of the two sizes.
    rows.splice(0..0, computed.rows);
    warnings.extend(computed.warnings);
    let machine = plan.key.machine.model.as_ref().and_then(Model::machine);
    if let (Some(machine), Some(calibration)) = (machine, &plan.asked.calibration) {
        estimate(&mut rows, &machine.name, calibration);
    }
    let method = ComparisonMethod::Counts(CountsComparison {
        asked: AskedCounts { guest: plan.asked.guest.without_traced(), ..plan.asked.clone() },
        key: plan.key.clone(),
        kernels: plan.kernels.clone(),
        layouts: plan.layouts.len(),
        seed: runs.plan().seed,
        crc32c: warnings::checksum_drivers(boots.boots()),
        growth,
    });
    let Plan { title, threshold_percent, .. } = runs.plan();
    let (title, threshold_percent) = (title.clone(), *threshold_percent);
    Ok(Comparison { title, threshold_percent, method, rows, warnings })
}

/// Growth of each Side's headline over the measured rows.
fn growth_of_rows(plan: &CountsPlan, rows: &[Row]) -> Vec<Growth> {
    let measured = || plan.workloads.iter().zip(rows);
    let growth_of_side = |side: Side| {
        let costs: Vec<RowCost<'_>> = measured()
            .filter_map(|(workload, row)| Some(row_cost(workload, row.effects().first()?, side)))
            .collect();
        growth_of_families(&costs, Some(side))
    };
    Side::BOTH.into_iter().flat_map(growth_of_side).collect()
}

/// Cost of an operation on one Side, under the Effect's Layout and under each Layout.
fn row_cost<'a>(workload: &'a Workload, effect: &Effect, side: Side) -> RowCost<'a> {
    let shown = if side == Side::Base { effect.base } else { effect.change };
    let per_op = |count: &u64| *count as f64 / workload.ops as f64;
    let layouts = effect.samples.get(side).iter().map(per_op).collect();
    RowCost { workload, shown, layouts }
}

/// Values that the guests reported and numbers that a user's program printed, in the headline's
/// Layout; `None` without any.
fn printed_values(
    workload: &Workload,
    effects: &[Effect],
    pairs: &[Pair],
) -> Option<Sides<Signature>> {
    let pair = pair_of_effect(effects.first()?, pairs);
    let is_number =
        |name: &str| workload.is_user_program() && !["exit-status", "stdout"].contains(&name);
    let values = |side| {
        let sample = pair.samples.get(side);
        let numbers = sample.signature.iter().filter(|(name, _)| is_number(name));
        let numbers = numbers.map(|(name, number)| (name.clone(), *number));
        numbers.chain(sample.values.clone()).collect::<Signature>()
    };
    let values = Sides { base: values(Side::Base), change: values(Side::Change) };
    (!values.base.is_empty() || !values.change.is_empty()).then_some(values)
}

/// Warnings about boot parameters that the kernels of the Sides do not know.
fn unknown_parameters(plan: &CountsPlan, boots: &PairedBoots) -> Vec<Warning> {
    let warnings_of_side = |side: Side| {
        let ignored = boots.ignored_parameters(side);
        let is_ignored = |parameter: &str| ignored.iter().any(|word| word == parameter);
        warnings::unknown_parameters(side, &plan.asked.subjects.get(side).boot_line, is_ignored)
    };
    Side::BOTH.into_iter().flat_map(warnings_of_side).collect()
}

/// Row of a Workload that was measured under all Layouts.
fn measured_row(
    runs: &dyn CountsRuns,
    mut workload: Workload,
    mut pairs: Vec<Pair<'_>>,
) -> Result<Row> {
    let (ops_source, suite) =
        operation_source(&workload, &runs.plan().method.asked.guest.programs, &pairs);
    scale_to_base(&mut workload, &mut pairs, suite.as_deref());
    let workload = &workload;
    let metrics = row_metrics(&pairs);
    let mut effects = effects(&metrics, workload, &pairs, runs.plan().threshold_percent);
    let program_work = match workload.is_user_program() {
        true => functions::program_work_evidence(
            runs,
            workload,
            &pairs,
            effects.first().map(|effect| effect.layout),
        )?,
        false => None,
    };
    let (verdict, decided_by) = decide(&effects);
    let different_work =
        different_work(&pairs, (ops_source, suite.is_some()), program_work.as_ref(), verdict);
    let shown_pair = effects.first().map_or(0, |effect| effect.layout);
    let operations = counted_operations(&pairs[shown_pair], ops_source, suite.as_deref());
    if !different_work.is_empty() {
        // Readers need the numbers to find the reason, but numbers of different work are no
        // verdict about the change.
        effects.iter_mut().for_each(|effect| effect.verdict = Verdict::DifferentWork);
        let printed = printed_end(&different_work, &pairs[shown_pair]);
        let work = program_work;
        let evidence =
            CountsEvidence { effects, operations, work, printed, ..CountsEvidence::default() };
        let reason = Some(different_work.join("; "));
        return Ok(Row { reason, ..row_with(workload, Verdict::DifferentWork, evidence) });
    }
    for (effect, metric) in effects.iter_mut().zip(metrics) {
        if effect.verdict.is_change() && metric.has_function_counts() {
            let pair = pair_of_effect(effect, &pairs);
            (effect.functions, effect.paths) =
                functions::functions_and_paths(runs, workload, pair, metric)?;
        }
    }
    let seen = printed_values(workload, &effects, &pairs);
    let pair_of_metric = |metric: &str| {
        let effect = effects.iter().find(|effect| effect.metric == metric)?;
        Some(pair_of_effect(effect, &pairs))
    };
    let waits =
        pair_of_metric(MAKESPAN).map(|pair| paths::waits(runs, workload, pair)).transpose()?;
    let model_lines = pair_of_metric(TRANSFERS)
        .map(|pair| functions::cache_lines(runs, workload, pair))
        .transpose()?;
    let evidence = CountsEvidence {
        decided_by,
        effects,
        observed_values: seen,
        operations,
        work: program_work,
        model_lines,
        ..waits.unwrap_or_default()
    };
    Ok(row_with(workload, verdict, evidence))
}

/// Differences between the work of the Sides: in the work signatures, and in a program's observed
/// work.
fn different_work(
    pairs: &[Pair<'_>],
    (ops_source, is_suite): (OperationSource, bool),
    program_work: Option<&WorkEvidence>,
    verdict: Verdict,
) -> Vec<String> {
    // If the number of operations that the program prints may differ, so may its output.
    let is_compared = |name: &str, pair: &Pair| match (ops_source, name) {
        (OperationSource::Printed, UserProgram::OPS) => false,
        (OperationSource::Printed, "stdout") => {
            !is_suite && pair.scales.base.from == pair.scales.change.from
        }
        _ => true,
    };
    let compared = |pair: &Pair| {
        pair_signatures(pair).map(|signature| -> Signature {
            let entries = signature.iter().filter(|(name, _)| is_compared(name, pair));
            entries.map(|(name, count)| (name.clone(), *count)).collect()
        })
    };
    let signatures: Vec<[Signature; 2]> = pairs.iter().map(compared).collect();
    let mut reasons = signature_differences(signatures.iter().map(|[base, change]| [base, change]));
    let is_different =
        |work: &&WorkEvidence| functions::is_different_work(work, verdict, ops_source);
    if let Some(work) = program_work.filter(is_different) {
        reasons.extend(functions::work_reasons(work, &pairs[0].measured));
    }
    reasons
}

/// Ends of both outputs; `None` unless the outputs differ.
fn printed_end(different_work: &[String], pair: &Pair<'_>) -> Option<Sides<PrintedEnd>> {
    let has_other_output = different_work.iter().any(|reason| reason.starts_with("stdout "));
    let end_of_output = |side| pair.measured.get(side).printed.clone().unwrap_or_default();
    has_other_output.then(|| Sides::from_fn(end_of_output))
}

fn pair_samples<'a>(pair: &'a Pair<'_>) -> [&'a Sample; 2] {
    pair.samples.both()
}

fn pair_signatures<'a>(pair: &'a Pair<'_>) -> [&'a Signature; 2] {
    [&pair.samples.base.signature, &pair.samples.change.signature]
}

fn row_with(workload: &Workload, verdict: Verdict, evidence: CountsEvidence) -> Row {
    Row::new(workload, verdict, Evidence::Counts(evidence))
}

/// Pair of the Effect's Layout.
fn pair_of_effect<'a>(effect: &Effect, pairs: &'a [Pair<'a>]) -> &'a Pair<'a> {
    // Each Layout has one pair, so the indices of Layouts and pairs are equal.
    &pairs[effect.layout]
}

/// Effects of all Metrics that have values on both Sides.
fn effects(
    metrics: &[&Metric],
    workload: &Workload,
    pairs: &[Pair<'_>],
    threshold_percent: f64,
) -> Vec<Effect> {
    let metric_effect = |metric: &&Metric| {
        let values = EffectValues {
            metric: metric.name,
            samples: Sides::from_fn(|side| raw_counts(metric, pairs, side)),
            layouts: pairs.iter().map(|pair| pair.layout).collect(),
            ops: workload.ops,
        };
        let total_work = |pair: usize| metric.threshold_base(&pairs[pair].samples.base) as f64;
        effect(values, |pair| threshold_percent / 100.0 * total_work(pair))
    };
    metrics.iter().filter_map(metric_effect).collect()
}

fn raw_counts(metric: &Metric, pairs: &[Pair<'_>], side: Side) -> Vec<u64> {
    pairs.iter().map(|pair| metric.raw_count(pair.samples.get(side))).collect()
}

/// Metrics of a row, the headline first; with several CPUs the headline is the makespan. Costly
/// instructions and awaited work are left out if all Samples have a count of 0.
fn row_metrics(pairs: &[Pair<'_>]) -> Vec<&'static Metric> {
    let samples = || pairs.iter().flat_map(|pair| pair.samples.both());
    let is_shown = |metric: &&Metric| {
        let is_rare = metric.costly().is_some() || metric.name == AWAITED;
        !is_rare || samples().any(|sample| metric.raw_count(sample) > 0)
    };
    let first = &pairs[0].samples.base;
    let metrics = METRICS.iter().filter(|metric| metric.is_measured_in(first)).filter(is_shown);
    let (makespan, others): (Vec<_>, Vec<_>) = metrics.partition(|metric| metric.name == MAKESPAN);
    [makespan, others].concat()
}

/// Verdict of a row, and the name of the Metric that decides it: the first of these that changed,
/// or the headline if none did.
///
/// 1. The headline.
/// 2. With several CPUs, executed instructions.
/// 3. REP iterations in process context: hardware retires clearing and copying of memory as a
///    single instruction.
/// 4. Work of kernel threads while the process waited for these threads.
/// 5. Time in which CPUs waited for each other.
///
/// Metrics of other Contexts are shown but do not decide.
fn decide(effects: &[Effect]) -> (Verdict, String) {
    let is_deciding = |effect: &&Effect| {
        effect.verdict.is_change() && metric(&effect.metric).is_some_and(Metric::is_deciding)
    };
    match effects.iter().find(is_deciding).or(effects.first()) {
        Some(effect) => (effect.verdict, effect.metric.clone()),
        None => (Verdict::TooFewBoots, String::new()),
    }
}

/// Description of an operation of a suite, which prints the number of its operations.
const SUITE_OPERATION: &str = "one of the operations that it prints";

/// Source of the row's number of operations, and the suite if the output of every Run is that of
/// the same suite.
fn operation_source(
    workload: &Workload,
    programs: &[UserProgram],
    pairs: &[Pair],
) -> (OperationSource, Option<String>) {
    if workload.params.contains_key(Workload::PRINTS_OPS) {
        return (OperationSource::Printed, None);
    }
    if programs.iter().any(|program| program.row() == workload.row && program.ops.is_some()) {
        return (OperationSource::Given, None);
    }
    let samples = || pairs.iter().flat_map(|pair| pair.samples.both());
    let suite = |sample: &Sample| sample.suite_operations().map(|(suite, _)| suite.to_owned());
    let first = samples().next().and_then(suite).filter(|_| workload.is_user_program());
    match first.filter(|first| samples().all(|sample| suite(sample).as_ref() == Some(first))) {
        Some(suite) => (OperationSource::Printed, Some(suite)),
        None => (OperationSource::Unknown, None),
    }
}

/// Scales all counts to the base's number of operations in the first Layout, and makes this the
/// row's number of operations.
fn scale_to_base(workload: &mut Workload, pairs: &mut [Pair], suite: Option<&str>) {
    let ops = |sample: &Sample| match (suite, sample.suite_operations()) {
        (Some(_), Some((_, operations))) => operations,
        _ => sample.ops,
    };
    let Some(target) = pairs.first().map(|pair| ops(&pair.samples.base)) else { return };
    workload.ops = target;
    if suite.is_some() {
        SUITE_OPERATION.clone_into(&mut workload.operation);
    }
    for pair in pairs {
        pair.scales =
            Sides::from_fn(|side| Scale { from: ops(pair.samples.get(side)), to: target });
        pair.measured = pair.samples.clone();
        pair.samples =
            Sides::from_fn(|side: Side| pair.scales.get(side).sample(pair.measured.get(side)));
    }
}

/// Operations of a pair, if the program printed their number.
fn counted_operations(
    pair: &Pair,
    ops_source: OperationSource,
    suite: Option<&str>,
) -> Option<CountedOperations> {
    (ops_source == OperationSource::Printed).then(|| CountedOperations {
        count: Sides::from_fn(|side| pair.scales.get(side).from),
        suite: suite.map(str::to_owned),
    })
}
