//! Fits what a machine takes to rows that it ran.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    CalibrationFit, CalibrationRow, Comparison, Costly, Fitted, LowHigh, NativeRow, NativeTable,
    Row,
};
use crate::stats::constants::{
    Constants, LEAST_OBSERVATIONS, MOST_ERROR, NoConstants, Observation, constants,
};
use crate::stats::tables::median;

/// Rows that were counted and ran on the machine too; its cycles are counted, or follow from times.
/// `group` is what a row belongs to.
pub fn calibration_rows(
    counted: &Comparison,
    timed: &[&NativeTable],
    cycles_per_ns: Option<f64>,
    group: impl Fn(&str) -> String,
) -> Vec<CalibrationRow> {
    let ran = timed.iter().flat_map(|table| &table.rows).filter(|row| row.failure.is_none());
    let both = ran.filter_map(|ran| {
        let row = counted.rows.iter().find(|row| row.row == ran.workload.row)?;
        // A region that is too short for the last cache cannot be fitted.
        let mut metrics = Fitted::ALL.iter().flat_map(|thing| thing.metrics());
        metrics.all(|metric| row.effect(metric).is_some()).then_some(())?;
        Some(CalibrationRow {
            row: row.row.clone(),
            group: group(&row.row),
            cycles: cycles(ran, cycles_per_ns)?,
            counts: Fitted::ALL.into_iter().map(|thing| (thing, count(row, thing))).collect(),
            costly: costly(row),
            predicted: None,
        })
    });
    both.collect()
}

fn count(row: &Row, thing: Fitted) -> f64 {
    thing.metrics().iter().filter_map(|name| row.effect(name)).map(|it| it.base).sum()
}

fn costly(row: &Row) -> BTreeMap<Costly, f64> {
    let of = |kind: Costly| Some((kind, row.effect(kind.name())?.base));
    Costly::ALL.into_iter().filter_map(of).filter(|(_, count)| *count > 0.0).collect()
}

/// The median over the samples, of an operation.
fn cycles(row: &NativeRow, cycles_per_ns: Option<f64>) -> Option<f64> {
    let one = |values: &BTreeMap<String, u64>| match cycles_per_ns {
        None => Some(*values.get("cycles")? as f64),
        Some(per_ns) => Some(*values.get("nanoseconds")? as f64 * per_ns),
    };
    let all: Option<Vec<f64>> = row.samples.iter().map(|sample| one(&sample.values)).collect();
    Some(median(&all?)? / row.workload.ops as f64).filter(|cycles| *cycles > 0.0)
}

/// Fits the rows, and says of each what it should have taken.
///
/// # Errors
/// Why they cannot be fitted, and what to do about it.
pub fn fit(
    rows: &mut [CalibrationRow],
    operations: &BTreeMap<Costly, LowHigh>,
) -> Result<CalibrationFit, String> {
    let groups: BTreeSet<&String> = rows.iter().map(|row| &row.group).collect();
    let place =
        |group: &String| groups.iter().position(|known| *known == group).unwrap_or_default();
    let middle = |(kind, count): (&Costly, &f64)| {
        operations.get(kind).map_or(0.0, |[low, high]| (low + high) / 2.0) * count
    };
    let observation = |row: &CalibrationRow| Observation {
        group: place(&row.group),
        counts: Fitted::ALL.map(|thing| row.counts.get(&thing).copied().unwrap_or(0.0)),
        fixed: row.costly.iter().map(middle).sum(),
        measured: row.cycles,
    };
    let observations: Vec<_> = rows.iter().map(observation).collect();
    let Constants { values, error: (low, high), groups, predicted, .. } =
        constants(&observations).map_err(why)?;
    for (row, predicted) in rows.iter_mut().zip(predicted) {
        row.predicted = Some(predicted);
    }
    let cycles = Fitted::ALL.into_iter().zip(values).collect();
    Ok(CalibrationFit { rows: rows.len(), groups, error: [low, high], cycles })
}

fn why(reason: NoConstants) -> String {
    match reason {
        NoConstants::TooFew(rows) => format!(
            "{rows} rows were both counted and timed, and a fit needs {LEAST_OBSERVATIONS}; count \
             and time all rows"
        ),
        NoConstants::OneGroup => "all rows are of one group, and a fit needs others to be tried \
                                  on; count and time all rows"
            .to_owned(),
        NoConstants::TooWrong(error) => format!(
            "half of the rows are predicted wrong by more than {:.0} % if their group is left out, \
             and at most {:.0} % is of use; time them again on a quiet machine, with a model that \
             is more like it",
            error * 100.0,
            MOST_ERROR * 100.0
        ),
        NoConstants::Singular => "the rows do not tell instructions, misses and page walks apart; \
                                  count and time all rows"
            .to_owned(),
    }
}

#[cfg(test)]
#[path = "calibrated_tests.rs"]
mod tests;
