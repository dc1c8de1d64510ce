//! What guests do: a boot, exits of one kind, or a program.

use std::collections::BTreeSet;

use crate::error::PlanError;
use crate::workloads::{check_for_times, definitions, find, select};
use ktax_model::{GuestRow, GuestWork, HostKind};

/// The rows of these names, in their order.
pub(super) fn rows(host: HostKind, names: &[String]) -> Result<Vec<GuestRow>, PlanError> {
    let all = definitions()?;
    let mut rows = Vec::new();
    for name in names {
        let row = |work| GuestRow { row: name.clone(), work };
        match name.strip_prefix("raw:") {
            Some(raw) => rows.push(row(raw_work(host, name, raw)?)),
            // A board's guest has no kernel that could boot or run a program.
            None if host.is_board() => rows.push(row(raw_work(host, name, "")?)),
            None if name == "boot" => rows.push(row(GuestWork::Boot)),
            None => {
                let selected = select(&all, Some(std::slice::from_ref(name)))?;
                for row in &selected {
                    check_for_times(find(&all, row.row.split(':').next().unwrap_or_default())?)?;
                }
                rows.extend(selected.into_iter().map(|workload| GuestRow {
                    row: workload.row.clone(),
                    work: GuestWork::Program(workload),
                }));
            }
        }
    }
    let mut seen = BTreeSet::new();
    match rows.iter().find(|row| !seen.insert(&row.row)) {
        Some(twice) => Err(PlanError::Twice { row: twice.row.clone() }),
        None if rows.is_empty() => Err(PlanError::NoWorkload),
        None => Ok(rows),
    }
}

/// `KIND=N`, of a name without its `raw:`.
fn raw_work(host: HostKind, name: &str, text: &str) -> Result<GuestWork, PlanError> {
    let found =
        text.split_once('=').and_then(|(kind, times)| Some((kind, times, host.times(kind)?)));
    let Some((kind, times, range)) = found else {
        let kinds = host.kinds().join(", ");
        return Err(PlanError::NoWork { text: name.to_owned(), kinds });
    };
    match times.parse().ok().filter(|times| range.contains(times)) {
        Some(count) => Ok(GuestWork::Raw { kind: kind.to_owned(), count }),
        None => Err(PlanError::RawTimes { text: name.to_owned(), kind: kind.to_owned(), range }),
    }
}
