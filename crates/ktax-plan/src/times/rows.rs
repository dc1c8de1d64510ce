//! Rows with the operations that they have natively, or others.

use crate::error::PlanError;
use crate::workloads::{check_for_guest, definitions, each_once, native_names, native_rows};
use ktax_model::{RunsOn, Workload};

/// The same row with so many operations, under its name; a program with so many runs.
pub fn with_ops(workload: &Workload, ops: u64) -> Result<Workload, PlanError> {
    if workload.is_users() {
        return Ok(with_runs(workload, ops));
    }
    let (_, rows) = native_rows(&definitions()?, &workload.row, &[format!("ops={ops}")])?;
    let row = rows.into_iter().next().ok_or(PlanError::NoWorkload)?;
    Ok(Workload { row: workload.row.clone(), ..row })
}

fn with_runs(program: &Workload, runs: u64) -> Workload {
    let mut row = program.clone();
    let before = row.params.insert(Workload::RUNS.to_owned(), runs).unwrap_or(1);
    row.ops = (row.ops / before.max(1)).saturating_mul(runs);
    row
}

/// Whether the row's name says how many operations it has.
pub fn has_own_ops(workload: &Workload) -> bool {
    let params = workload.row.split_once(':').map_or("", |(_, params)| params);
    params.split(',').any(|param| param.starts_with("ops="))
}

/// Rows by name, with the operations that they have natively.
pub(super) fn rows(on: RunsOn, names: &[String]) -> Result<Vec<Workload>, PlanError> {
    let definitions = definitions()?;
    let mut rows = Vec::new();
    for name in native_names(&definitions, names)? {
        rows.extend(native_rows(&definitions, &name, &[])?.1);
    }
    if on == RunsOn::Guests {
        rows.iter().try_for_each(|row| check_for_guest(&definitions, row))?;
    }
    match rows.is_empty() {
        true => Err(PlanError::NoTimedWorkload),
        false => each_once(rows),
    }
}
