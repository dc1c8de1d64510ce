use super::table::{US, of_reasons};
use crate::model::ExitTable;
use crate::report::number;
use crate::report::view::{Line, Table};
use crate::stats::tables::change_percent;

/// How often, and how long together, ns.
pub type CountAndSum = (u64, u64);

/// A reason in the base and in the change.
pub type Both<'a> = (&'a str, CountAndSum, CountAndSum);

/// Every reason that is in one of the tables, the one whose time changed most first.
pub fn both<'a>(base: &'a ExitTable, change: &'a ExitTable) -> Vec<Both<'a>> {
    let only_there = change.rows.iter().filter(|row| base.row(&row.reason).is_none());
    let names = base.rows.iter().chain(only_there).map(|row| row.reason.as_str());
    let of = |table: &ExitTable, reason: &str| -> CountAndSum {
        table.row(reason).map_or((0, 0), |row| (row.count, row.sum_ns))
    };
    let mut rows: Vec<Both<'a>> =
        names.map(|reason| (reason, of(base, reason), of(change, reason))).collect();
    rows.retain(|(_, base, change)| base.0 > 0 || change.0 > 0);
    rows.sort_by_key(|(_, base, change)| std::cmp::Reverse(base.1.abs_diff(change.1)));
    rows
}

/// Reason by reason, and all together.
pub fn reasons(base: &ExitTable, change: &ExitTable) -> Table {
    let cells = |(name, base, change): Both<'_>| {
        let (was, is) = (base.1 as f64 / US, change.1 as f64 / US);
        Line::of([
            name.to_owned(),
            number::whole(base.0 as f64),
            number::whole(change.0 as f64),
            number::whole(was),
            number::whole(is),
            number::percent(change_percent(was, is)),
        ])
    };
    let whole = |table: &ExitTable| (table.count(), table.sum_ns());
    let all = ("all", whole(base), whole(change));
    let heads = ["base count", "change count", "base µs", "change µs", "delta %"];
    let gives_way = vec![vec![1, 2]];
    let lines = both(base, change).into_iter().chain([all]).map(cells);
    Table { gives_way, ..of_reasons(&heads) }.with(lines)
}
