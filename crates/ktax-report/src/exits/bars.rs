//! Where the vCPUs' time went, as bars of 100 %.

use crate::view::{Bar, Picture, Section};
use ktax_model::{ExitParts, ExitRow, ExitTable};

/// So many reasons have a part of their own.
const SHOWN: usize = 6;

const HOW: &str = "The parts add up to all of the recorded time of the vCPUs.";

/// One bar for each of these tables that has times; nothing where none has.
pub fn bars<'a>(tables: impl IntoIterator<Item = (String, &'a ExitTable)>) -> Section {
    let timed = tables.into_iter().filter(|(_, table)| table.is_timed() && table.sum_ns() > 0);
    let bars = timed.map(|(name, table)| Bar { name, parts: parts(table) }).collect();
    Section::Picture {
        title: "Where the time of the vCPUs went".to_owned(),
        picture: Picture::Bars(bars),
        how: HOW.to_owned(),
    }
}

/// In the guest; by reason, without what is halted or preempted; then these two.
fn parts(table: &ExitTable) -> Vec<(String, u64)> {
    let waits = |row: &ExitRow| row.parts.as_ref().map_or([0; 3], ExitParts::waits_ns);
    let busy =
        |row: &ExitRow| waits(row).iter().fold(row.time_ns(), |ns, wait| ns.saturating_sub(*wait));
    let sum = |values: &mut dyn Iterator<Item = u64>| values.fold(0, u64::saturating_add);
    let rows = || table.rows.iter().filter(|row| row.counter.is_none());
    let guest = sum(&mut rows().filter(|row| row.is_guest).map(busy));
    let mut reasons: Vec<(String, u64)> =
        rows().filter(|row| !row.is_guest).map(|row| (row.reason.clone(), busy(row))).collect();
    reasons.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let others = reasons.split_off(reasons.len().min(SHOWN));
    let others = sum(&mut others.iter().map(|(_, ns)| *ns));
    let [halted, preempted, unknown] =
        [0, 1, 2].map(|wait| sum(&mut rows().map(|row| waits(row)[wait])));
    let mut parts = vec![("in the guest".to_owned(), guest)];
    parts.extend(reasons);
    parts.extend([
        ("other reasons".to_owned(), others),
        ("halted".to_owned(), halted),
        ("preempted".to_owned(), preempted),
        ("unknown or halted".to_owned(), unknown),
    ]);
    parts.retain(|(_, ns)| *ns > 0);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_recorded_time() {
        let row = |reason: &str, sum_ns, halted_ns, is_guest| ExitRow {
            reason: reason.to_owned(),
            count: 1,
            sum_ns: Some(sum_ns),
            is_guest,
            parts: Some(ExitParts {
                halted_ns: Some(halted_ns),
                preempted_ns: Some(1),
                ..ExitParts::default()
            }),
            ..ExitRow::default()
        };
        let mut rows: Vec<ExitRow> =
            (0..9).map(|at| row(&at.to_string(), 100 + at, 0, false)).collect();
        rows.extend([row("guest", 700, 0, true), row("HLT", 900, 800, false)]);
        let table = ExitTable { rows, ..ExitTable::default() };
        let parts = parts(&table);
        assert_eq!(parts.iter().map(|(_, ns)| ns).sum::<u64>(), table.sum_ns());
        let sizes = ["in the guest", "other reasons", "halted", "preempted"]
            .map(|name| parts.iter().find(|part| part.0 == name).map(|part| part.1));
        assert_eq!(sizes, [Some(699), Some(99 + 99 + 100 + 101), Some(800), Some(11)]);
    }
}
