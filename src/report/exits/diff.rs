//! Two tables beside each other.

use super::{US, title};
use crate::model::ExitTable;
use crate::report::text::fitting_table;
use crate::report::{TextOptions, number};
use crate::stats::tables::change_percent;
use crate::text::escape;

/// How often, and how long together, ns.
type CountAndSum = (u64, u64);

/// Two tables, the reason whose time changed most first.
pub fn exits_diff(base: &ExitTable, change: &ExitTable, options: TextOptions) -> String {
    let title = format!("base    {}\nchange  {}\n", escape(&title(base)), escape(&title(change)));
    format!("{title}\n{}", reasons(base, change, options))
}

/// Reason by reason, and all together.
pub(super) fn reasons(base: &ExitTable, change: &ExitTable, options: TextOptions) -> String {
    let only_there = change.rows.iter().filter(|row| base.row(&row.reason).is_none());
    let names = base.rows.iter().chain(only_there).map(|row| row.reason.as_str());
    let of = |table: &ExitTable, reason: &str| -> CountAndSum {
        table.row(reason).map_or((0, 0), |row| (row.count, row.sum_ns))
    };
    let both = |reason| (reason, of(base, reason), of(change, reason));
    let mut rows: Vec<(&str, CountAndSum, CountAndSum)> = names.map(both).collect();
    rows.retain(|(_, base, change)| base.0 > 0 || change.0 > 0);
    rows.sort_by_key(|(_, base, change)| std::cmp::Reverse(base.1.abs_diff(change.1)));
    let cells = |name: &str, base: CountAndSum, change: CountAndSum| {
        let (was, is) = (base.1 as f64 / US, change.1 as f64 / US);
        vec![
            name.to_owned(),
            number::whole(base.0 as f64),
            number::whole(change.0 as f64),
            number::whole(was),
            number::whole(is),
            number::percent(change_percent(was, is)),
        ]
    };
    let whole = |table: &ExitTable| (table.count(), table.sum_ns());
    let mut lines: Vec<_> = rows.into_iter().map(|(name, a, b)| cells(name, a, b)).collect();
    lines.push(cells("all", whole(base), whole(change)));
    let header = ["reason", "count\nbase", "count\nchange", "µs\nbase", "µs\nchange", "µs\n%"];
    fitting_table(&header, &lines, &[&[1, 2]], options)
}
