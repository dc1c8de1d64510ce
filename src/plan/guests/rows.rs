//! What guests do: a boot, exits of one kind, or a program.

use std::collections::BTreeSet;

use crate::model::{GuestRow, GuestWork, HostKind, RawKind};
use crate::plan::error::PlanError;
use crate::plan::workloads::{definitions, select};

/// What a guest of e500v2 may not do, and all of that together.
const KINDS_OF_E500V2: [&str; 7] = ["all", "mfmsr", "mtspr", "mfspr", "mmio", "wrtee", "rfi"];

/// The rows of these names, in their order.
pub(super) fn rows(host: HostKind, names: &[String]) -> Result<Vec<GuestRow>, PlanError> {
    let all = definitions()?;
    let mut rows = Vec::new();
    for name in names {
        let row = |work| GuestRow { row: name.clone(), work };
        match (host, name.strip_prefix("raw:")) {
            (HostKind::KvmE500v2, raw) => {
                rows.push(row(raw_work(name, raw.unwrap_or_default(), &KINDS_OF_E500V2)?));
            }
            (HostKind::Kvm, _) if name == "boot" => rows.push(row(GuestWork::Boot)),
            (HostKind::Kvm, Some(raw)) => {
                rows.push(row(raw_work(name, raw, &RawKind::ALL.map(RawKind::name))?))
            }
            (HostKind::Kvm, None) => {
                let selected = select(&all, Some(std::slice::from_ref(name)))?;
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
fn raw_work(name: &str, text: &str, kinds: &[&str]) -> Result<GuestWork, PlanError> {
    let no_work = || PlanError::NoWork { text: name.to_owned(), kinds: kinds.join(", ") };
    let (kind, times) =
        text.split_once('=').filter(|(kind, _)| kinds.contains(kind)).ok_or_else(no_work)?;
    // A host of another architecture has kinds of its own, as often as anyone likes.
    let range = RawKind::named(kind).map_or(1..=u32::MAX, RawKind::times);
    match times.parse().ok().filter(|times| range.contains(times)) {
        Some(count) => Ok(GuestWork::Raw { kind: kind.to_owned(), count }),
        None => Err(PlanError::RawTimes { text: name.to_owned(), kind: kind.to_owned(), range }),
    }
}
