//! Rows with the operations that they have natively, or others.

use std::collections::BTreeSet;

use crate::model::{RunsOn, Workload};
use crate::plan::error::PlanError;
use crate::plan::workloads::{check_for_guest, definitions, each_once, find, native_rows, select};

/// The same row with so many operations, under its name.
pub fn with_ops(workload: &Workload, ops: u64) -> Result<Workload, PlanError> {
    let (_, rows) = native_rows(&definitions()?, &workload.row, &[format!("ops={ops}")])?;
    let row = rows.into_iter().next().ok_or(PlanError::NoWorkload)?;
    Ok(Workload { row: workload.row.clone(), ..row })
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
    for name in names {
        if name.starts_with('@') {
            let of_group = select(&definitions, Some(std::slice::from_ref(name)))?;
            let names = of_group.iter().map(|row| row.row.split(':').next().unwrap_or_default());
            for name in names.collect::<BTreeSet<&str>>() {
                rows.extend(find(&definitions, name)?.native_rows()?);
            }
        } else {
            rows.extend(native_rows(&definitions, name, &[])?.1);
        }
    }
    if on == RunsOn::Guests {
        rows.iter().try_for_each(|row| check_for_guest(&definitions, row))?;
    }
    match rows.is_empty() {
        true => Err(PlanError::NoTimedWorkload),
        false => each_once(rows),
    }
}
