use super::gather::{Boots, Gathered};
use crate::effect::{Values, effect};
use crate::error::Result;
use crate::{lost, one_image, settled, work};
use ktax_model::{
    Comparison, ComparisonMethod, EXITS, Effect, Evidence, GUEST_TIME, GuestRow, GuestSample,
    GuestWork, GuestsComparison, GuestsEvidence, GuestsPlan, Plan, Row, Sides, TIME, Verdict,
};
use ktax_run::rundir::RunDir;

/// Compares the guests of a finished run directory.
///
/// # Errors
/// A Boot or a guest is missing, or a file is not of ktax's.
pub fn guests(dir: &RunDir<GuestsPlan>) -> Result<Comparison> {
    let Plan { title, threshold_percent, method: plan, .. } = dir.plan();
    let boots = Boots::read(dir)?;
    let mut rows = Vec::with_capacity(plan.rows.len());
    for row in &plan.rows {
        rows.push(compared(plan, row, boots.gather(row)?, *threshold_percent));
    }
    Ok(Comparison {
        title: title.clone(),
        threshold_percent: *threshold_percent,
        method: ComparisonMethod::Guests(GuestsComparison { plan: plan.clone() }),
        rows,
        warnings: one_image::of_guests(plan)
            .into_iter()
            .chain(settled::of_boots(boots.made()))
            .chain(lost::warnings(boots.made()))
            .collect(),
    })
}

fn compared(plan: &GuestsPlan, row: &GuestRow, gathered: Gathered, threshold_percent: f64) -> Row {
    let samples = match gathered {
        Err(failures) => return Row { failures, ..of(row, Verdict::Failed, Default::default()) },
        Ok(samples) => samples,
    };
    let times_ns = Sides::of(|side| samples.get(side).iter().map(GuestSample::time_ns).collect());
    if plan.change.is_none() {
        return alone(row, &samples.base, times_ns, threshold_percent);
    }
    let pairs = samples.base.iter().zip(&samples.change);
    let different = work::differences(pairs.map(|(b, c)| [&b.signature, &c.signature]));
    let mut effects: Vec<Effect> =
        [(TIME, GuestSample::time_ns as fn(&_) -> u64), (EXITS, GuestSample::exits)]
            .into_iter()
            .filter_map(|(metric, value)| {
                let values = Sides::of(|side| samples.get(side).iter().map(value).collect());
                judged(metric, values, 1, threshold_percent)
            })
            .collect();
    if !different.is_empty() {
        // The numbers stay, for whoever looks for the reason, and say nothing about the change.
        effects.iter_mut().for_each(|effect| effect.verdict = Verdict::DifferentWork);
    }
    let layout = effects.first().map_or(0, |effect| effect.layout);
    let run = |samples: &[GuestSample]| samples.get(layout).map(|sample| sample.run.clone());
    let runs = Sides { base: run(&samples.base), change: run(&samples.change) };
    let verdict = effects.first().map_or(Verdict::Failed, |effect| effect.verdict);
    let evidence = GuestsEvidence { effects, runs, times_ns };
    let reason = (!different.is_empty()).then(|| different.join("; "));
    Row { reason, ..of(row, verdict, evidence) }
}

/// The base alone: the guest against the host itself, where that did the same work.
fn alone(
    row: &GuestRow,
    samples: &[GuestSample],
    times_ns: Sides<Vec<u64>>,
    threshold_percent: f64,
) -> Row {
    let all =
        |of: fn(&GuestSample) -> Option<u64>| samples.iter().map(of).collect::<Option<Vec<_>>>();
    let (native, guest) = (all(|it| it.run.native_ns), all(|it| it.run.guest_ns));
    let ops = match &row.work {
        GuestWork::Program(workload) => workload.ops,
        GuestWork::Boot | GuestWork::Raw { .. } => 1,
    };
    let effects: Vec<Effect> = native
        .zip(guest)
        .and_then(|(base, change)| {
            judged(GUEST_TIME, Sides { base, change }, ops, threshold_percent)
        })
        .into_iter()
        .collect();
    let layout = effects.first().map_or(median(&times_ns.base), |effect| effect.layout);
    let run = samples.get(layout).map(|sample| sample.run.clone());
    let verdict = effects.first().map_or(Verdict::OneSide, |effect| effect.verdict);
    of(row, verdict, GuestsEvidence { effects, runs: Sides { base: run, change: None }, times_ns })
}

/// The Layout with the median time.
fn median(times_ns: &[u64]) -> usize {
    let times: Vec<f64> = times_ns.iter().map(|ns| *ns as f64).collect();
    ktax_stats::exact::median_index(&times).unwrap_or(0)
}

fn judged(
    metric: &str,
    samples: Sides<Vec<u64>>,
    ops: u64,
    threshold_percent: f64,
) -> Option<Effect> {
    let base = samples.base.clone();
    let layouts = (0..base.len()).collect();
    let relevant = move |pair: usize| threshold_percent / 100.0 * base[pair] as f64;
    effect(Values { metric, samples, layouts, ops }, relevant)
}

fn of(row: &GuestRow, verdict: Verdict, evidence: GuestsEvidence) -> Row {
    let evidence = Evidence::Guests(evidence);
    let (title, operation) = match &row.work {
        GuestWork::Program(workload) => {
            return Row { row: row.row.clone(), ..Row::of(workload, verdict, evidence) };
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
