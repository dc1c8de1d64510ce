use super::table::US;
use crate::model::ExitTable;
use crate::report::number;
use crate::stats::tables::{change_percent, share_percent};

/// So many reasons are named.
const NAMED: usize = 3;

/// `94 488 exits in 20 364 363 µs: 91.9 % HLT, 7.5 % in the guest, 0.4 % EPT_VIOLATION`; of several
/// tables the sums. Nothing where no time was recorded.
pub fn headline<'a>(tables: impl IntoIterator<Item = &'a ExitTable>) -> String {
    let tables: Vec<&ExitTable> = tables.into_iter().collect();
    let mut reasons: Vec<(&str, u64)> = Vec::new();
    for row in tables.iter().flat_map(|table| &table.rows) {
        let name = if row.is_guest { "in the guest" } else { &row.reason };
        match reasons.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(row.sum_ns),
            None => reasons.push((name, row.sum_ns)),
        }
    }
    reasons.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    let all_ns = reasons.iter().fold(0u64, |all, (_, sum)| all.saturating_add(*sum)) as f64;
    if all_ns == 0.0 {
        return String::new();
    }
    let named = reasons.iter().take(NAMED).filter(|(_, sum)| *sum > 0);
    let named = named
        .map(|(name, sum)| format!("{:.1} % {name}", share_percent(*sum as f64, all_ns)))
        .collect::<Vec<_>>();
    let exits = tables.iter().map(|table| table.exits() as f64).sum();
    let (exits, time) = (number::whole(exits), number::whole(all_ns / US));
    format!("{exits} exits in {time} µs: {}", named.join(", "))
}

/// `time -0.30 % (20 364 363 → 20 302 527 µs), exits -35.0 % (47 244 → 30 705)`.
pub fn headline_of_diff(base: &ExitTable, change: &ExitTable) -> String {
    let part = |what: &str, [base, change]: [f64; 2], unit: &str| {
        let percent = number::percent(change_percent(base, change));
        let [base, change] = [base, change].map(number::whole);
        format!("{what} {percent} % ({base} → {change}{unit})")
    };
    let time = [base, change].map(|table| table.sum_ns() as f64 / US);
    let exits = [base, change].map(|table| table.exits() as f64);
    format!("{}, {}", part("time", time, " µs"), part("exits", exits, ""))
}
