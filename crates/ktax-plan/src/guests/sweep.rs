//! What both guests can have several values of; each becomes a run.

use std::collections::BTreeMap;

use crate::error::{PlanError, range};
use crate::file::ExperimentFile;
use crate::workloads::ParamValue;
use ktax_model::{GuestRow, GuestSubject, GuestWork, HostKind};

/// As experiment files name it.
pub(super) const CPUS: &str = "cpus";

/// The vCPUs of each run; none where nothing is swept.
pub(super) fn swept(
    host: HostKind,
    rows: &[GuestRow],
    file: &ExperimentFile,
) -> Result<Vec<u8>, PlanError> {
    let others = file.sweep.keys().find(|name| *name != CPUS);
    let wrong = |name: &str, reason: &str| {
        let (name, reason) = (name.to_owned(), reason.to_owned());
        Err(PlanError::Sweep { name, reason })
    };
    if host != HostKind::Kvm && !file.sweep.is_empty() {
        return wrong(CPUS, "only guests of host = \"kvm\" can have several; remove it");
    }
    if let Some(name) = others {
        return wrong(name, "of guests, only cpus can be swept; name a row for each value instead");
    }
    let Some(values) = file.sweep.get(CPUS) else { return Ok(Vec::new()) };
    if rows.iter().all(|row| matches!(row.work, GuestWork::Raw { .. })) {
        return wrong(
            CPUS,
            "raw guests have CPUs of their own; remove it, or add the row \"boot\"",
        );
    }
    let sides = || std::iter::once(&file.base).chain(&file.change);
    let given: BTreeMap<String, &ParamValue> =
        values.iter().map(|it| (it.to_string(), it)).collect();
    if values.is_empty() {
        return wrong(CPUS, "a value is missing; write cpus = [2, 4]");
    }
    if given.len() < values.len() {
        return wrong(CPUS, "a value is given twice; give it once");
    }
    if sides().any(|side| side.cpus.is_some()) {
        return wrong(CPUS, "a side has cpus, too; remove them there");
    }
    values.iter().map(cpus).collect()
}

fn cpus(value: &ParamValue) -> Result<u8, PlanError> {
    let number = match value {
        ParamValue::Number(number) => u32::try_from(*number).unwrap_or(u32::MAX),
        ParamValue::Word(_) => 0,
    };
    range(CPUS, number, GuestSubject::CPUS)?;
    Ok(u8::try_from(number).expect("it is in range"))
}
