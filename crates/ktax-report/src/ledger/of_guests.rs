use crate::view::{Cell, Kind, Line, Section, Table, Value};
use crate::{effect, number};
use ktax_model::{
    LedgerCost, LedgerEntry, LedgerExits, LedgerInteraction, LedgerRow, TIME, Verdict,
};

const COLUMNS: [(&str, Kind); 5] = [
    ("added", Kind::Words),
    ("delta %", Kind::Number),
    ("MDE %", Kind::Number),
    ("verdict", Kind::Verdict),
    ("exits", Kind::Number),
];

/// The columns of [`record`], and two that only some lines have.
pub const FIELDS: [&str; 12] = [
    "workload",
    "added",
    "base_ns",
    "delta_ns",
    "percent",
    "detectable_ns",
    "verdict",
    "exits_base",
    "exits_change",
    "exits_by_reason",
    "interaction_ns",
    "why",
];

/// One row: what each addition does to the time, and how many exits of each reason it adds.
pub fn section(row: &LedgerRow) -> Section {
    let reasons = reasons(row);
    let columns = COLUMNS.into_iter().chain(reasons.iter().map(|name| (*name, Kind::Number)));
    let lines = row.entries.iter().chain(&row.together).map(|entry| line(entry, &reasons));
    Section::Table {
        title: format!("{}, {} µs", row.row, number::measured(row.base / number::US)),
        table: Table { splits: true, ..Table::of(columns).with(lines) },
        notes: row.interactions.iter().filter_map(interaction).collect(),
    }
}

/// The reasons of which any addition changes the count, the one that changes most first.
fn reasons(row: &LedgerRow) -> Vec<&str> {
    let entries = row.entries.iter().chain(&row.together);
    let all = entries.filter_map(|entry| entry.costs.as_ref()).flat_map(|costs| &costs.exits);
    let mut most: Vec<(&str, u64)> = Vec::new();
    for exits in all {
        let moved = exits.base.abs_diff(exits.change);
        match most.iter_mut().find(|(reason, _)| *reason == exits.reason) {
            Some((_, known)) => *known = moved.max(*known),
            None => most.push((&exits.reason, moved)),
        }
    }
    most.retain(|(_, moved)| *moved > 0);
    most.sort_by_key(|(_, moved)| std::cmp::Reverse(*moved));
    most.into_iter().map(|(reason, _)| reason).collect()
}

/// One addition; nothing but the verdict where it was not measured.
fn line(entry: &LedgerEntry, reasons: &[&str]) -> Line {
    let Some(costs) = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed) else {
        let nothing = [entry.name.clone(), String::new(), String::new()].map(Cell::from);
        return Line::of(nothing).and(Cell::verdict(entry.verdict, ""));
    };
    let LedgerCost { base, percent, detectable, verdict, .. } = &costs.all;
    let detectable = effect::detectable_of(*base, *detectable, *verdict);
    let counts = reasons.iter().map(|reason| {
        let exits = costs.exits.iter().find(|exits| exits.reason == *reason);
        exits.map_or_else(|| more(0), |exits| more(moved(exits)))
    });
    let all = more(costs.exits.iter().map(moved).sum());
    let before = [entry.name.clone(), number::percent(*percent), detectable].map(Cell::from);
    let verdict = Cell::verdict(entry.verdict, "");
    Line::of(before.into_iter().chain([verdict, all.into()]).chain(counts.map(Cell::from)))
}

fn moved(exits: &LedgerExits) -> i64 {
    let by = i64::try_from(exits.change.abs_diff(exits.base)).unwrap_or(i64::MAX);
    if exits.change < exits.base { -by } else { by }
}

/// `+1 204`, `-3`, `0`.
fn more(count: i64) -> String {
    let sign = match count {
        0 => "",
        1.. => "+",
        ..0 => "-",
    };
    format!("{sign}{}", number::whole(count.unsigned_abs() as f64))
}

fn interaction(one: &LedgerInteraction) -> Option<String> {
    let (by, percent) = (
        number::measured(one.beyond.delta.abs() / number::US),
        number::percent(one.beyond.percent),
    );
    let than = if one.beyond.delta < 0.0 { "less" } else { "more" };
    one.beyond.verdict.is_change().then(|| {
        format!(
            "Together they take {by} µs {than} than the sum of what each takes ({percent} %): they \
             are not independent."
        )
    })
}

/// One place of the matrix.
pub fn record(row: &LedgerRow, entry: &LedgerEntry) -> Vec<Value> {
    let costs = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed);
    let time = costs.and_then(|costs| costs.metric(TIME));
    let sum = |count: fn(&LedgerExits) -> u64| {
        Value::from(costs.map(|costs| costs.exits.iter().map(count).sum::<u64>()))
    };
    let by_reason = costs.map(|costs| {
        let one = |exits: &LedgerExits| format!("{}:{:+}", exits.reason, moved(exits));
        costs.exits.iter().map(one).collect::<Vec<_>>().join(" ")
    });
    vec![
        (&row.row).into(),
        (&entry.name).into(),
        time.map(|it| it.base).into(),
        time.map(|it| it.delta).into(),
        time.and_then(|it| it.percent).into(),
        time.and_then(|it| it.detectable).into(),
        entry.verdict.text().into(),
        sum(|exits| exits.base),
        sum(|exits| exits.change),
        by_reason.as_deref().into(),
    ]
}
