use super::effects::{decide, effects, metrics_of, pair_of};
use super::functions;
use super::gather::{Boots, Gathered, Pair};
use super::notes::Notes;
use super::operations;
use super::program_work::{self, Operations};
use super::sizes;
use super::source::CountsRuns;
use super::waits;
use crate::error::Result;
use crate::{checksums, estimate, fallbacks, growth, lost, one_image, parameters, settled, work};
use ktax_model::{
    Comparison, ComparisonMethod, CountsComparison, CountsEvidence, CountsPlan, Effect, Evidence,
    Growth, MAKESPAN, Model, Plan, PrintedEnd, Row, Sample, Side, Sides, Signature, Subjects,
    TRANSFERS, UserProgram, Verdict, Warning, WorkEvidence, Workload,
};

/// Compares the two Sides of a Plan that was carried out.
pub fn counts(runs: &dyn CountsRuns) -> Result<Comparison> {
    let plan = &runs.plan().method;
    let boots = Boots::read(runs)?;
    let mut rows = Vec::with_capacity(plan.workloads.len());
    let mut warnings = unknown_parameters(plan, &boots);
    warnings.extend(one_image::of_counts(plan));
    warnings.extend(settled::of_boots(boots.made()));
    warnings.extend(checksums::warnings(boots.made()));
    warnings.extend(lost::warnings(boots.made()));
    let mut notes = Notes::default();
    for workload in &plan.workloads {
        rows.push(match boots.gather(workload)? {
            Gathered::Measured(pairs) => {
                notes.add(workload, pairs.iter().flat_map(samples));
                measured_row(runs, workload.clone(), pairs)?
            }
            Gathered::Failed(failures) => {
                Row { failures, ..of(workload, Verdict::Failed, CountsEvidence::default()) }
            }
        });
    }
    warnings.extend(notes.warnings());
    warnings.extend(fallbacks::warning(&rows));
    let growth = grown(plan, &rows);
    let computed = sizes::computed_rows(runs, &boots, &rows)?;
    // What an operation costs comes before what that is computed from.
    rows.splice(0..0, computed.rows);
    warnings.extend(computed.warnings);
    let machine = plan.key.model.as_ref().and_then(Model::machine);
    if let (Some(machine), Some(calibration)) = (machine, &plan.calibration) {
        estimate(&mut rows, &machine.name, calibration);
    }
    let method = ComparisonMethod::Counts(CountsComparison {
        key: plan.key.clone(),
        subjects: subjects(plan),
        layouts: plan.layouts.len(),
        seed: runs.plan().seed,
        disk: plan.disk.clone(),
        crc32c: checksums::drivers(boots.made()),
        programs: plan.programs.iter().map(UserProgram::without_traced).collect(),
        hooks: plan.hooks.clone(),
        workloads_from: plan.workloads_from.clone(),
        growth,
    });
    let Plan { title, threshold_percent, .. } = runs.plan();
    let (title, threshold_percent) = (title.clone(), *threshold_percent);
    Ok(Comparison { title, threshold_percent, method, rows, warnings })
}

/// How each Side's headline grows over the rows that were measured.
fn grown(plan: &CountsPlan, rows: &[Row]) -> Vec<Growth> {
    let measured = || plan.workloads.iter().zip(rows);
    let of = |side: Side| {
        let costs: Vec<growth::Cost<'_>> = measured()
            .filter_map(|(workload, row)| Some(cost(workload, row.effects().first()?, side)))
            .collect();
        growth::growth(&costs, Some(side))
    };
    Side::BOTH.into_iter().flat_map(of).collect()
}

/// What an operation costs a Side: in the Effect's Layout, and under each.
fn cost<'a>(workload: &'a Workload, effect: &Effect, side: Side) -> growth::Cost<'a> {
    let shown = if side == Side::Base { effect.base } else { effect.change };
    let per_op = |count: &u64| *count as f64 / workload.ops as f64;
    let layouts = effect.samples.get(side).iter().map(per_op).collect();
    growth::Cost { workload, shown, layouts }
}

/// What the guests saw in the headline's Layout, and the numbers that a program of the user's
/// printed.
fn seen(workload: &Workload, effects: &[Effect], pairs: &[Pair]) -> Option<Sides<Signature>> {
    let pair = pair_of(effects.first()?, pairs);
    let is_number = |name: &str| workload.is_users() && !["exit-status", "stdout"].contains(&name);
    let values = |side| {
        let sample = pair.samples.get(side);
        let numbers = sample.signature.iter().filter(|(name, _)| is_number(name));
        let numbers = numbers.map(|(name, number)| (name.clone(), *number));
        numbers.chain(sample.values.clone()).collect::<Signature>()
    };
    let seen = Sides { base: values(Side::Base), change: values(Side::Change) };
    (!seen.base.is_empty() || !seen.change.is_empty()).then_some(seen)
}

/// Of all Boots of both Sides.
fn unknown_parameters(plan: &CountsPlan, boots: &Boots) -> Vec<Warning> {
    let of = |side: Side| {
        let ignored = boots.ignored(side);
        let is_ignored = |said: &str| ignored.iter().any(|word| word == said);
        parameters::unknown_parameters(side, &plan.subjects.get(side).boot_line, is_ignored)
    };
    Side::BOTH.into_iter().flat_map(of).collect()
}

fn subjects(plan: &CountsPlan) -> Sides<Subjects> {
    let of = |side| Subjects {
        subject: plan.subjects.get(side).clone(),
        kernel: plan.kernels.get(side).clone(),
    };
    Sides { base: of(Side::Base), change: of(Side::Change) }
}

fn measured_row(
    runs: &dyn CountsRuns,
    mut workload: Workload,
    mut pairs: Vec<Pair<'_>>,
) -> Result<Row> {
    let (known, suite) = operations::known(&workload, &runs.plan().method.programs, &pairs);
    operations::settle(&mut workload, &mut pairs, suite.as_deref());
    let workload = &workload;
    let metrics = metrics_of(&pairs);
    let mut effects = effects(&metrics, workload, &pairs, runs.plan().threshold_percent);
    let program_work = match workload.is_users() {
        true => program_work::read(runs, workload, &pairs, effects.first().map(|it| it.layout))?,
        false => None,
    };
    let (verdict, decided_by) = decide(&effects);
    let different_work =
        different_work(&pairs, (known, suite.is_some()), program_work.as_ref(), verdict);
    let shown_pair = effects.first().map_or(0, |effect| effect.layout);
    let operations = operations::counted(&pairs[shown_pair], known, suite.as_deref());
    if !different_work.is_empty() {
        // The numbers stay, for whoever looks for the reason, and say nothing about the change.
        effects.iter_mut().for_each(|effect| effect.verdict = Verdict::DifferentWork);
        let printed = printed(&different_work, &pairs[shown_pair]);
        let work = program_work;
        let evidence =
            CountsEvidence { effects, operations, work, printed, ..CountsEvidence::default() };
        let reason = Some(different_work.join("; "));
        return Ok(Row { reason, ..of(workload, Verdict::DifferentWork, evidence) });
    }
    for (effect, metric) in effects.iter_mut().zip(metrics) {
        if effect.verdict.is_change() && metric.is_of_functions() {
            let pair = pair_of(effect, &pairs);
            (effect.functions, effect.paths) = functions::read(runs, workload, pair, metric)?;
        }
    }
    let seen = seen(workload, &effects, &pairs);
    let shown = |metric: &str| {
        let effect = effects.iter().find(|effect| effect.metric == metric)?;
        Some(pair_of(effect, &pairs))
    };
    let of_cpus = shown(MAKESPAN).map(|pair| waits::waits(runs, workload, pair)).transpose()?;
    let model_lines =
        shown(TRANSFERS).map(|pair| functions::cache_lines(runs, workload, pair)).transpose()?;
    let evidence = CountsEvidence {
        decided_by,
        effects,
        seen,
        operations,
        work: program_work,
        model_lines,
        ..of_cpus.unwrap_or_default()
    };
    Ok(of(workload, verdict, evidence))
}

/// How the work of the Sides differed: by what the guest says, and by what a program was seen to
/// do.
fn different_work(
    pairs: &[Pair<'_>],
    (known, is_suite): (Operations, bool),
    program_work: Option<&WorkEvidence>,
    verdict: Verdict,
) -> Vec<String> {
    // Who prints other operations prints another text.
    let is_compared = |name: &str, pair: &Pair| match (known, name) {
        (Operations::Printed, UserProgram::OPS) => false,
        (Operations::Printed, "stdout") => {
            !is_suite && pair.scales.base.from == pair.scales.change.from
        }
        _ => true,
    };
    let compared = |pair: &Pair| {
        signatures(pair).map(|signature| -> Signature {
            let kept = signature.iter().filter(|(name, _)| is_compared(name, pair));
            kept.map(|(name, count)| (name.clone(), *count)).collect()
        })
    };
    let signatures: Vec<[Signature; 2]> = pairs.iter().map(compared).collect();
    let mut reasons = work::differences(signatures.iter().map(|[base, change]| [base, change]));
    let other = program_work.filter(|work| program_work::is_other_work(work, verdict, known));
    if let Some(work) = other {
        reasons.extend(program_work::reasons(work, &pairs[0].measured));
    }
    reasons
}

/// The end of what both Sides printed, where that is what differs.
fn printed(different_work: &[String], pair: &Pair<'_>) -> Option<Sides<PrintedEnd>> {
    let is_of_output = different_work.iter().any(|reason| reason.starts_with("stdout "));
    let of_side = |side| pair.measured.get(side).printed.clone().unwrap_or_default();
    is_of_output.then(|| Sides::of(of_side))
}

fn samples<'a>(pair: &'a Pair<'_>) -> [&'a Sample; 2] {
    [&pair.samples.base, &pair.samples.change]
}

fn signatures<'a>(pair: &'a Pair<'_>) -> [&'a Signature; 2] {
    [&pair.samples.base.signature, &pair.samples.change.signature]
}

fn of(workload: &Workload, verdict: Verdict, evidence: CountsEvidence) -> Row {
    Row::of(workload, verdict, Evidence::Counts(evidence))
}
