use super::scale::Scale;
use super::table::{of_reasons, without};
use crate::number;
use crate::view::{Line, Table};
use ktax_model::{ExitRow, ExitTable};
use ktax_stats::tables::change_percent;

/// How often, and how long together, ns, where that was measured.
pub type CountAndSum = (u64, Option<u64>);

/// A reason in the base and in the change.
pub type Both<'a> = (&'a str, CountAndSum, CountAndSum);

/// How long a reason took, ns: KVM's statistics say it of halts alone.
pub fn time_ns(table: &ExitTable, reason: &str) -> Option<u64> {
    let row = table.row(reason);
    let is_measured = table.is_timed() || row.is_some_and(ExitRow::is_timed);
    is_measured.then(|| row.map_or(0, ExitRow::time_ns))
}

/// Every reason that is in one of the tables, the one whose time changed most first; without times,
/// the one whose count did.
pub fn both<'a>(base: &'a ExitTable, change: &'a ExitTable, scale: Scale) -> Vec<Both<'a>> {
    let only_there = change.rows.iter().filter(|row| base.row(&row.reason).is_none());
    let names = base.rows.iter().chain(only_there).map(|row| row.reason.as_str());
    let of = |table: &ExitTable, reason: &str| -> CountAndSum {
        (table.row(reason).map_or(0, |row| row.count), time_ns(table, reason))
    };
    let mut rows: Vec<Both<'a>> =
        names.map(|reason| (reason, of(base, reason), of(change, reason))).collect();
    rows.retain(|(_, base, change)| base.0 > 0 || change.0 > 0);
    let moved = |(_, base, change): &Both<'_>| {
        let far = |values: [u64; 2]| {
            let [base, change] = scale.apply(values.map(|value| value as f64));
            (base - change).abs()
        };
        let time = base.1.zip(change.1).map_or(0.0, |(base, change)| far([base, change]));
        (time, far([base.0, change.0]))
    };
    let by_move = |one: &Both<'_>, other: &Both<'_>| {
        let ((time, count), (other_time, other_count)) = (moved(one), moved(other));
        other_time.total_cmp(&time).then(other_count.total_cmp(&count))
    };
    rows.sort_by(by_move);
    rows
}

/// Reason by reason, and all together: the time, which decides, and how often.
pub fn reasons(base: &ExitTable, change: &ExitTable, scale: Scale) -> Table {
    let shown = if scale == Scale::Totals { number::whole } else { number::measured };
    let columns = |values: [Option<f64>; 2]| {
        let [Some(base), Some(change)] = values else {
            let [base, change] = scale.apply(values.map(Option::unwrap_or_default));
            let only = |value: Option<f64>, scaled| value.map_or(String::new(), |_| shown(scaled));
            return [only(values[0], base), only(values[1], change), String::new()];
        };
        let [base, change] = scale.apply([base, change]);
        [shown(base), shown(change), number::percent(change_percent(base, change))]
    };
    let cells = |(name, base, change): Both<'_>| {
        let times = columns([base.1, change.1].map(|ns| Some(ns? as f64 / number::US)));
        let counts = columns([base.0, change.0].map(|count| Some(count as f64)));
        Line::of([name.to_owned()].into_iter().chain(times).chain(counts))
    };
    // Each exit is followed by a stay in the guest, which is no second exit.
    let whole = |table: &ExitTable| (table.exits(), table.is_timed().then(|| table.sum_ns()));
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
    let rows: Vec<Both<'_>> = both(base, change, scale).into_iter().chain([all]).collect();
    let has_times = rows.iter().any(|(_, base, change)| base.1.or(change.1).is_some());
    let lines = rows.into_iter().map(cells);
    let heads = of_reasons(&heads.each_ref().map(String::as_str));
    let table = Table { gives_way, ..heads }.with(lines);
    if has_times { table } else { without(&table, &[1, 2, 3]) }
}
