//! Fits what a machine takes to rows that it ran.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{
    CalibrationFit, CalibrationRow, Comparison, Costly, Fitted, LowHigh, NativeRow, NativeTable,
    Row, Verdict, Workload,
};
use crate::stats::constants::{
    Constants, LEAST_OBSERVATIONS, MOST_ERROR, NoConstants, Observation, constants,
};
use crate::stats::tables::median;

/// Rows that were counted and ran on the machine too; cycles follow from times. Rows of one program
/// are a group. Several tables of a row are one.
pub fn calibration_rows(
    counted: &Comparison,
    timed: &[NativeTable],
    cycles_per_ns: f64,
) -> Vec<CalibrationRow> {
    let mut rows: BTreeMap<&str, (&Workload, Vec<f64>)> = BTreeMap::new();
    let ran = timed.iter().flat_map(|table| &table.rows).filter(|row| row.failure.is_none());
    for NativeRow { workload, samples, .. } in ran {
        let (_, ns) = rows.entry(&workload.row).or_insert((workload, Vec::new()));
        let each = samples.iter().filter_map(|it| it.values.get("nanoseconds"));
        ns.extend(each.map(|ns| *ns as f64 / workload.ops as f64));
    }
    let both = rows.into_values().filter_map(|(workload, ns)| {
        let row = counted.rows.iter().find(|row| row.row == workload.row)?;
        let is_measured = !matches!(row.verdict, Verdict::DifferentWork | Verdict::Failed);
        // A region that is too short for the last cache cannot be fitted.
        let mut metrics = Fitted::ALL.iter().flat_map(|thing| thing.metrics());
        let has_all = is_measured && metrics.all(|metric| row.effect(metric).is_some());
        let cycles = median(&ns)? * cycles_per_ns;
        (has_all && cycles > 0.0).then(|| CalibrationRow {
            row: row.row.clone(),
            group: workload.program.clone(),
            cycles,
            counts: Fitted::ALL.into_iter().map(|thing| (thing, count(row, thing))).collect(),
            costly: costly(row),
            rep_iterations: row.effect("rep-iterations").map_or(0.0, |effect| effect.base),
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

/// Fits the rows, and says of each what it should have taken.
///
/// # Errors
/// Why they cannot be fitted, and what to do about it.
pub fn fit(
    rows: &mut [CalibrationRow],
    operations: &BTreeMap<Costly, LowHigh>,
    rep_iteration: Option<LowHigh>,
) -> Result<CalibrationFit, String> {
    let groups: BTreeSet<&String> = rows.iter().map(|row| &row.group).collect();
    let place =
        |group: &String| groups.iter().position(|known| *known == group).unwrap_or_default();
    let middle = |cost: Option<&LowHigh>| cost.map_or(0.0, |[low, high]| (low + high) / 2.0);
    let fixed = |row: &CalibrationRow| {
        let costly = row.costly.iter().map(|(kind, count)| middle(operations.get(kind)) * count);
        costly.sum::<f64>() + middle(rep_iteration.as_ref()) * row.rep_iterations
    };
    let observation = |row: &CalibrationRow| Observation {
        group: place(&row.group),
        counts: Fitted::ALL.map(|thing| row.counts.get(&thing).copied().unwrap_or(0.0)),
        fixed: fixed(row),
        measured: row.cycles,
    };
    let observations: Vec<_> = rows.iter().map(observation).collect();
    let Constants { values, bounds, error: (low, high), groups, predicted, .. } =
        constants(&observations).map_err(why)?;
    for (row, predicted) in rows.iter_mut().zip(predicted) {
        row.predicted = Some([predicted * low, predicted * high]);
    }
    let cycles = Fitted::ALL.into_iter().zip(values).collect();
    let bounds = bounds.map(|(low, high)| [low, high]);
    let bounds = Fitted::ALL.into_iter().zip(bounds).collect();
    Ok(CalibrationFit { rows: rows.len(), groups, error: [low, high], cycles, bounds })
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
