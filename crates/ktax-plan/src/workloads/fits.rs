//! What a machine or a guest cannot run.

use super::definitions::Definition;
use super::select::find;
use crate::error::PlanError;
use ktax_model::Workload;

/// Refuses rows that cannot fit: a quarter is left for the kernel and everything else.
pub fn check_memory(workloads: &[Workload], there_bytes: u64) -> Result<(), PlanError> {
    let fits = |workload: &&Workload| workload.memory_bytes <= there_bytes / 4 * 3;
    match workloads.iter().find(|workload| !fits(workload)) {
        None => Ok(()),
        Some(workload) => Err(PlanError::TooLarge {
            row: workload.row.clone(),
            needed_mib: workload.memory_bytes >> 20,
            there_mib: there_bytes >> 20,
        }),
    }
}

/// Refuses parameters that no guest understands.
pub fn check_for_guest(definitions: &[Definition], workload: &Workload) -> Result<(), PlanError> {
    let name = workload.row.split(':').next().unwrap_or_default();
    let definition = find(definitions, name)?;
    for (name, param) in definition.params.iter().filter(|(_, param)| param.native_only) {
        let default = param.number(&definition.name, name, &param.default)?;
        if workload.params.get(name) != Some(&default) {
            return Err(PlanError::NativeOnly { row: workload.row.clone(), name: name.clone() });
        }
    }
    Ok(())
}

/// Refuses programs, which only the exact engine runs.
pub fn check_for_times(definition: &Definition) -> Result<(), PlanError> {
    match definition.run {
        None => Ok(()),
        Some(_) => Err(PlanError::OnlyCounted { workload: definition.name.clone() }),
    }
}
