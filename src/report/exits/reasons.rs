use super::scale::Scale;
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
pub fn both<'a>(base: &'a ExitTable, change: &'a ExitTable, scale: Scale) -> Vec<Both<'a>> {
    let only_there = change.rows.iter().filter(|row| base.row(&row.reason).is_none());
    let names = base.rows.iter().chain(only_there).map(|row| row.reason.as_str());
    let of = |table: &ExitTable, reason: &str| -> CountAndSum {
        table.row(reason).map_or((0, 0), |row| (row.count, row.sum_ns))
    };
    let mut rows: Vec<Both<'a>> =
        names.map(|reason| (reason, of(base, reason), of(change, reason))).collect();
    rows.retain(|(_, base, change)| base.0 > 0 || change.0 > 0);
    let moved = |(_, base, change): &Both<'_>| {
        let [base, change] = scale.apply([base.1 as f64, change.1 as f64]);
        (base - change).abs()
    };
    rows.sort_by(|one, other| moved(other).total_cmp(&moved(one)));
    rows
}

/// Reason by reason, and all together: the time, which decides, and how often.
pub fn reasons(base: &ExitTable, change: &ExitTable, scale: Scale) -> Table {
    let shown = if scale == Scale::Totals { number::whole } else { number::measured };
    let columns = |values: [f64; 2]| {
        let [base, change] = scale.apply(values);
        [shown(base), shown(change), number::percent(change_percent(base, change))]
    };
    let cells = |(name, base, change): Both<'_>| {
        let times = columns([base.1, change.1].map(|ns| ns as f64 / US));
        let counts = columns([base.0, change.0].map(|count| count as f64));
        Line::of([name.to_owned()].into_iter().chain(times).chain(counts))
    };
    // Each exit is followed by a stay in the guest, which is no second exit.
    let whole = |table: &ExitTable| (table.exits(), table.sum_ns());
    let all = ("all", whole(base), whole(change));
    let [time, count] = [scale.unit("µs"), scale.unit("")];
    let count = if count.is_empty() { " count".to_owned() } else { count };
    let heads = [
        format!("base{time}"),
        format!("change{time}"),
        "time delta %".to_owned(),
        format!("base{count}"),
        format!("change{count}"),
        "count delta %".to_owned(),
    ];
    // How often is behind the delta of it; the base is last to go.
    let gives_way = vec![vec![4, 5], vec![6], vec![1]];
    let lines = both(base, change, scale).into_iter().chain([all]).map(cells);
    Table { gives_way, ..of_reasons(&heads.each_ref().map(String::as_str)) }.with(lines)
}
