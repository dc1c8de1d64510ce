//! Comparisons of guests: pairs the Layouts of both Sides and judges them by the exact rule.

use crate::counts::{boots_missing, run_missing, wrong_plan};
use crate::effect::{EffectValues, effect, signature_differences};
use crate::warnings;
use ktax_model::{
    Boot, Comparison, ComparisonMethod, EXITS, Effect, Evidence, Failure, GUEST_TIME, GuestRow,
    GuestSample, GuestWork, GuestsComparison, GuestsEvidence, GuestsPlan, Outcome, Plan, Result,
    Row, RowFailure, Side, Sides, Step, TIME, Verdict,
};
use ktax_run::rundir::RunDir;

/// Compares the guests of a finished run directory.
pub fn guests(dir: &RunDir<GuestsPlan>) -> Result<Comparison> {
    let Plan { title, threshold_percent, method: plan, .. } = dir.plan();
    let boots = GuestBoots::read(dir)?;
    let mut rows = Vec::with_capacity(plan.asked.rows.len());
    for row in &plan.asked.rows {
        rows.push(compared_row(plan, row, boots.samples(row)?, *threshold_percent));
    }
    Ok(Comparison {
        title: title.clone(),
        threshold_percent: *threshold_percent,
        method: ComparisonMethod::Guests(GuestsComparison { plan: plan.clone() }),
        rows,
        warnings: warnings::same_image_of_guests(plan)
            .into_iter()
            .chain(warnings::unsettled_warnings(boots.boots()))
            .chain(warnings::lost_boot_warnings(boots.boots()))
            .collect(),
    })
}

fn compared_row(
    plan: &GuestsPlan,
    row: &GuestRow,
    gathered: GatheredSamples,
    threshold_percent: f64,
) -> Row {
    let samples = match gathered {
        Err(failures) => {
            return Row { failures, ..guest_row(row, Verdict::Failed, Default::default()) };
        }
        Ok(samples) => samples,
    };
    let times_ns =
        Sides::from_fn(|side| samples.get(side).iter().map(GuestSample::time_ns).collect());
    if plan.asked.change.is_none() {
        return base_only_row(row, &samples.base, times_ns, threshold_percent);
    }
    let pairs = samples.base.iter().zip(&samples.change);
    let work_differences = signature_differences(pairs.map(|(b, c)| [&b.signature, &c.signature]));
    let mut effects: Vec<Effect> =
        [(TIME, GuestSample::time_ns as fn(&_) -> u64), (EXITS, GuestSample::exits)]
            .into_iter()
            .filter_map(|(metric, value)| {
                let values = Sides::from_fn(|side| samples.get(side).iter().map(value).collect());
                judged_effect(metric, values, 1, threshold_percent)
            })
            .collect();
    if !work_differences.is_empty() {
        // Readers need the numbers to find the reason, but numbers of different work are no
        // verdict about the change.
        effects.iter_mut().for_each(|effect| effect.verdict = Verdict::DifferentWork);
    }
    let layout = effects.first().map_or(0, |effect| effect.layout);
    let run = |samples: &[GuestSample]| samples.get(layout).map(|sample| sample.run.clone());
    let runs = Sides { base: run(&samples.base), change: run(&samples.change) };
    let verdict = effects.first().map_or(Verdict::Failed, |effect| effect.verdict);
    let evidence = GuestsEvidence { effects, runs, times_ns };
    let reason = (!work_differences.is_empty()).then(|| work_differences.join("; "));
    Row { reason, ..guest_row(row, verdict, evidence) }
}

/// Row without a change: compares the guest with the host itself, if the host did the same work.
fn base_only_row(
    row: &GuestRow,
    samples: &[GuestSample],
    times_ns: Sides<Vec<u64>>,
    threshold_percent: f64,
) -> Row {
    let values = |value: fn(&GuestSample) -> Option<u64>| {
        samples.iter().map(value).collect::<Option<Vec<_>>>()
    };
    let (native, guest) =
        (values(|sample| sample.run.native_ns), values(|sample| sample.run.guest_ns));
    let ops = match &row.work {
        GuestWork::Program(workload) => workload.ops,
        GuestWork::Boot | GuestWork::Raw { .. } => 1,
    };
    let effects: Vec<Effect> = native
        .zip(guest)
        .and_then(|(base, change)| {
            judged_effect(GUEST_TIME, Sides { base, change }, ops, threshold_percent)
        })
        .into_iter()
        .collect();
    let layout = effects.first().map_or(median_layout(&times_ns.base), |effect| effect.layout);
    let run = samples.get(layout).map(|sample| sample.run.clone());
    let verdict = effects.first().map_or(Verdict::OneSide, |effect| effect.verdict);
    guest_row(
        row,
        verdict,
        GuestsEvidence { effects, runs: Sides { base: run, change: None }, times_ns },
    )
}

/// Layout with the median time; 0 without Layouts.
fn median_layout(times_ns: &[u64]) -> usize {
    let times: Vec<f64> = times_ns.iter().map(|ns| *ns as f64).collect();
    ktax_stats::exact::median_index(&times).unwrap_or(0)
}

/// Judges a Metric of guests; the threshold is a share of the base's value.
fn judged_effect(
    metric: &str,
    samples: Sides<Vec<u64>>,
    ops: u64,
    threshold_percent: f64,
) -> Option<Effect> {
    let base = samples.base.clone();
    let layouts = (0..base.len()).collect();
    let relevant = move |pair: usize| threshold_percent / 100.0 * base[pair] as f64;
    effect(EffectValues { metric, samples, layouts, ops }, relevant)
}

fn guest_row(row: &GuestRow, verdict: Verdict, evidence: GuestsEvidence) -> Row {
    let evidence = Evidence::Guests(evidence);
    let (title, operation) = match &row.work {
        GuestWork::Program(workload) => {
            return Row { row: row.row.clone(), ..Row::new(workload, verdict, evidence) };
        }
        GuestWork::Boot => ("a guest boots and powers off".into(), "a boot".into()),
        GuestWork::Raw { kind, .. } => {
            (format!("a guest without a kernel leaves by {kind}"), format!("all of {}", row.row))
        }
    };
    Row {
        row: row.row.clone(),
        title,
        operation,
        ops: 1,
        params: Default::default(),
        headline: true,
        verdict,
        reason: None,
        failures: Vec::new(),
        evidence,
    }
}

/// All Boots of a finished run directory.
struct GuestBoots<'a> {
    dir: &'a RunDir<GuestsPlan>,
    boots: Vec<(&'a Step, Boot)>,
}

/// Samples of a row for each Side, by Layout; or the failures, if a Sample is missing.
type GatheredSamples = Result<Sides<Vec<GuestSample>>, Vec<RowFailure>>;

impl<'a> GuestBoots<'a> {
    /// Reads all Boots; an error if one is missing.
    pub fn read(dir: &'a RunDir<GuestsPlan>) -> Result<GuestBoots<'a>> {
        let plan = &dir.plan().method;
        let mut boots = Vec::new();
        for step in &plan.steps {
            boots.extend(dir.boot(step)?.map(|boot| (step, boot)));
        }
        if boots.len() < plan.steps.len() {
            let dir = dir.root().display().to_string();
            return Err(boots_missing(boots.len(), plan.steps.len(), &dir));
        }
        // Boots are paired by index, so each Side needs one Boot for each Layout.
        boots.sort_by_key(|(step, _)| step.layout);
        let boots_of_side = |side| boots.iter().filter(move |(step, _)| step.side == side).count();
        let sides = if plan.asked.change.is_some() { &Side::BOTH[..] } else { &Side::BOTH[..1] };
        match sides.iter().all(|side| boots_of_side(*side) == plan.layouts.len())
            && boots_of_side(Side::Base) > 0
        {
            true => Ok(GuestBoots { dir, boots }),
            false => Err(wrong_plan("has a layout without a boot")),
        }
    }

    pub fn boots(&self) -> impl Iterator<Item = (&Step, &Boot)> + Clone {
        self.boots.iter().map(|(step, boot)| (*step, boot))
    }

    /// Samples of a row under all Layouts.
    pub fn samples(&self, row: &GuestRow) -> Result<GatheredSamples> {
        let (mut samples, mut failures) = (Sides::<Vec<GuestSample>>::default(), Vec::new());
        for (step, boot) in &self.boots {
            match self.sample(row, step, boot)? {
                Ok(sample) => samples.get_mut(step.side).push(sample),
                Err(failure) => failures.push(RowFailure {
                    boot: step.name(),
                    side: step.side,
                    boots: 1,
                    failure,
                }),
            }
        }
        failures.sort_by(|a, b| a.boot.cmp(&b.boot));
        Ok(if failures.is_empty() { Ok(samples) } else { Err(failures) })
    }

    /// Sample of a row in one Boot, or its failure.
    fn sample(
        &self,
        row: &GuestRow,
        step: &Step,
        boot: &Boot,
    ) -> Result<Result<GuestSample, Failure>> {
        if let Some(failure) = &boot.failure {
            return Ok(Err(failure.clone()));
        }
        let run = self.dir.run::<GuestSample>(step, &row.row)?;
        let dir = || self.dir.root().display().to_string();
        let run = run.ok_or_else(|| run_missing(&row.row, step, &dir()))?;
        Ok(match run.outcome {
            Outcome::Measured(sample) => check_work(row, sample),
            Outcome::Failed(failure) => Err(failure),
        })
    }
}

/// Checks the work of a row's program; the failure names the deviations.
fn check_work(row: &GuestRow, sample: GuestSample) -> Result<GuestSample, Failure> {
    let deviations = match &row.work {
        GuestWork::Program(workload) => workload.deviations(&sample.signature).join("; "),
        GuestWork::Boot | GuestWork::Raw { .. } => String::new(),
    };
    if deviations.is_empty() { Ok(sample) } else { Err(Failure::WrongWork { deviations }) }
}
