//! Fits what a machine takes to rows that it ran.

use std::collections::{BTreeMap, BTreeSet};

use ktax_model::{
    Calibration, CalibrationFit, CalibrationRow, Comparison, Costly, Effect, Fitted, LowHigh,
    NativeRow, NativeSample, NativeTable, Row, Verdict, Workload, hull,
};
use ktax_stats::constants::{
    Constants, LEAST_OBSERVATIONS, MOST_ERROR, NoConstants, Observation, constants,
};
use ktax_stats::tables::median;

/// Rows that were counted and ran on the machine too; cycles follow from times. Rows of one program
/// are a group. Several tables of a row are one.
pub fn calibration_rows(
    counted: &Comparison,
    timed: &[NativeTable],
    cycles_per_ns: f64,
) -> Vec<CalibrationRow> {
    let things = things(counted);
    let mut rows: BTreeMap<&str, (&Workload, Vec<f64>)> = BTreeMap::new();
    let ran = timed.iter().flat_map(|table| &table.rows).filter(|row| row.failure.is_none());
    for NativeRow { workload, samples, .. } in ran {
        let (_, ns) = rows.entry(&workload.row).or_insert((workload, Vec::new()));
        // The time on a CPU has nothing of what else ran there.
        let value = |it: &NativeSample| {
            it.values.get("task-clock-ns").or_else(|| it.values.get("nanoseconds")).copied()
        };
        let each = samples.iter().filter_map(value);
        ns.extend(each.map(|ns| ns as f64 / workload.ops as f64));
    }
    let both = rows.into_values().filter_map(|(workload, ns)| {
        let row = counted.rows.iter().find(|row| row.row == workload.row)?;
        let is_measured = !matches!(row.verdict, Verdict::DifferentWork | Verdict::Failed);
        // A region that is too short for the last cache cannot be fitted.
        let mut metrics = things.iter().flat_map(|thing| thing.metrics());
        let has_all = is_measured && metrics.all(|metric| row.effect(metric).is_some());
        let cycles = median(&ns)? * cycles_per_ns;
        (has_all && cycles > 0.0).then(|| CalibrationRow {
            row: row.row.clone(),
            group: workload.program.clone(),
            cycles,
            counts: things.iter().map(|thing| (*thing, count(row, *thing))).collect(),
            costly: costly(row),
            rep_iterations: row.effect("rep-iterations").map_or(0.0, |effect| effect.base),
            predicted: None,
        })
    });
    both.collect()
}

/// What can be told apart: without a model's counters all is a matter of instructions.
fn things(counted: &Comparison) -> &'static [Fitted] {
    let is_model = |effect: &Effect| effect.metric.starts_with("model-");
    let is_modelled = |row: &Row| row.effects().iter().any(is_model);
    match counted.rows.iter().any(is_modelled) {
        true => &Fitted::ALL,
        false => &[Fitted::Instruction],
    }
}

fn count(row: &Row, thing: Fitted) -> f64 {
    thing.metrics().iter().filter_map(|name| row.effect(name)).map(|it| it.base).sum()
}

fn costly(row: &Row) -> BTreeMap<Costly, f64> {
    let of = |kind: Costly| Some((kind, row.effect(kind.name())?.base));
    Costly::ALL.into_iter().filter_map(of).filter(|(_, count)| *count > 0.0).collect()
}

/// Fits the rows, and says of each what it should have taken. What the Calibration has of costly
/// instructions is known.
///
/// # Errors
/// Why they cannot be fitted, and what to do about it.
pub fn fit(
    rows: &mut [CalibrationRow],
    calibration: &Calibration,
) -> Result<CalibrationFit, String> {
    let is_modelled = rows.iter().any(|row| row.counts.len() > 1);
    match is_modelled {
        true => fit_things(rows, Fitted::ALL, calibration),
        false => fit_things(rows, [Fitted::Instruction], calibration),
    }
}

fn fit_things<const N: usize>(
    rows: &mut [CalibrationRow],
    things: [Fitted; N],
    calibration: &Calibration,
) -> Result<CalibrationFit, String> {
    let groups: BTreeSet<&String> = rows.iter().map(|row| &row.group).collect();
    let place =
        |group: &String| groups.iter().position(|known| *known == group).unwrap_or_default();
    let middle = |cost: Option<&LowHigh>| cost.map_or(0.0, |[low, high]| (low + high) / 2.0);
    let fixed = |row: &CalibrationRow| {
        let costly =
            row.costly.iter().map(|(kind, count)| middle(calibration.operations.get(kind)) * count);
        costly.sum::<f64>() + cycles_of_iterations(row, calibration)
    };
    let observation = |row: &CalibrationRow| Observation {
        group: place(&row.group),
        counts: things.map(|thing| row.counts.get(&thing).copied().unwrap_or(0.0)),
        fixed: fixed(row),
        measured: row.cycles,
    };
    let observations: Vec<_> = rows.iter().map(observation).collect();
    let Constants { values, bounds, error: (low, high), groups, predicted, .. } =
        constants(&observations).map_err(why)?;
    for (row, predicted) in rows.iter_mut().zip(predicted) {
        row.predicted = Some([predicted * low, predicted * high]);
    }
    let cycles = things.into_iter().zip(values).collect();
    let bounds = bounds.map(|(low, high)| [low, high]);
    let bounds = things.into_iter().zip(bounds).collect();
    Ok(CalibrationFit { rows: rows.len(), groups, error: [low, high], cycles, bounds })
}

/// What the iterations of a row take in the first cache: what they miss is what the fit is of, or
/// what it is wrong by.
fn cycles_of_iterations(row: &CalibrationRow, calibration: &Calibration) -> f64 {
    let has = |kind: &&Costly| row.costly.contains_key(*kind);
    let known = |kind: &Costly| calibration.iterations.get(kind).copied();
    let there = hull(Costly::STRINGS.iter().filter(has).filter_map(known));
    let any = || hull(calibration.iterations.values().copied());
    let cost = there.or_else(any).or(calibration.rep_iteration).unwrap_or_default();
    cost[0] * row.rep_iterations
}

fn why(reason: NoConstants) -> String {
    match reason {
        NoConstants::TooFew(rows) => format!(
            "{rows} rows were both counted and timed, all or beside those of one program; a fit \
             needs {LEAST_OBSERVATIONS}, so count and time more rows"
        ),
        NoConstants::OneGroup => "all rows are of one program, and a fit needs others to be \
                                  tried on; count and time more rows"
            .to_owned(),
        NoConstants::TooWrong(error) => format!(
            "half of the rows are predicted wrong by more than {:.0} % if their program is left \
             out, and at most {:.0} % is of use; time them again on a quiet machine, with a model \
             that is more like it",
            error * 100.0,
            MOST_ERROR * 100.0
        ),
    }
}

#[cfg(test)]
#[path = "calibrated_tests.rs"]
mod tests;
