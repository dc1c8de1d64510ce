use crate::view::{Cell, Kind, Line, Section, Table};
use crate::{effect, number, verdict, words};
use ktax_model::{LedgerCost, LedgerEntry, LedgerInteraction, LedgerRow, METRICS, Verdict};

use super::matrix;

const COLUMNS: [(&str, Kind); 7] = [
    ("added", Kind::Words),
    ("cycles %", Kind::Number),
    ("delta insn", Kind::Number),
    ("delta %", Kind::Number),
    ("MDE %", Kind::Number),
    ("REP", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// One Workload: the additions, the most expensive first, then all together.
pub fn section(row: &LedgerRow) -> Section {
    let entries = || row.entries.iter().chain(&row.together);
    let table = Table::of(COLUMNS).with(entries().map(line));
    let has_rep = entries().any(|entry| rep(entry).is_some_and(|rep| rep.delta != 0.0));
    let has_cycles = entries()
        .any(|entry| entry.costs.as_ref().is_some_and(|costs| costs.estimated_percent().is_some()));
    let table = match (has_cycles, has_rep) {
        (true, true) => Table { gives_way: vec![vec![3], vec![4]], ..table },
        (true, false) => Table { gives_way: vec![vec![3], vec![4]], ..table.without(&[5]) },
        (false, true) => Table { gives_way: vec![vec![2], vec![3]], ..table.without(&[1]) },
        (false, false) => Table { gives_way: vec![vec![3]], ..table.without(&[1, 5]) },
    };
    let costly = entries().filter_map(costly).collect::<Vec<_>>();
    let costly = (!costly.is_empty())
        .then(|| format!("Costly instructions per operation: {}.", costly.join("; ")));
    Section::Table {
        title: format!("{}, {} instructions", row.row, number::count(row.base)),
        table,
        notes: costly.into_iter().chain(row.interactions.iter().filter_map(interaction)).collect(),
    }
}

/// `pti cr3-write +2.00`; nothing of an addition that changes none.
fn costly(entry: &LedgerEntry) -> Option<String> {
    let costs = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed)?;
    let deltas = costs.costly.iter().map(|(kind, delta)| (kind.name().to_owned(), *delta));
    let deltas = words::deltas(&deltas.collect());
    let left_out: Vec<&str> = costs.left_out().collect();
    let left_out = match left_out.is_empty() {
        true => String::new(),
        false => format!(" ({} not in the estimate)", left_out.join(", ")),
    };
    (!costs.costly.is_empty()).then(|| format!("{} {deltas}{left_out}", entry.name))
}

/// One addition; nothing but the verdict where it was not measured.
fn line(entry: &LedgerEntry) -> Line {
    let measured = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed);
    let both = measured.and_then(|costs| Some((costs, costs.metric(METRICS[0].name)?)));
    let cells = both.map_or_else(Default::default, |(costs, instructions)| {
        let LedgerCost { base, delta, percent, detectable, verdict } = instructions;
        [
            matrix::percent(costs),
            number::delta(*delta),
            number::percent(*percent),
            effect::detectable_of(*base, *detectable, *verdict),
            rep(entry).map(|rep| number::delta(rep.delta)).unwrap_or_default(),
        ]
    });
    let rep = rep(entry).map(|rep| rep.verdict);
    let verdict: Cell = verdict::of_both(entry.verdict, &entry.decided_by, rep);
    Line::of([entry.name.clone()].into_iter().chain(cells)).and(verdict)
}

fn rep(entry: &LedgerEntry) -> Option<&LedgerCost> {
    entry.costs.as_ref()?.metric(verdict::REP)
}

fn interaction(one: &LedgerInteraction) -> Option<String> {
    let what = if one.metric == verdict::REP { "REP iterations" } else { "instructions" };
    let (by, percent) =
        (number::count(one.beyond.delta.abs()), number::percent(one.beyond.percent));
    let than = if one.beyond.delta < 0.0 { "fewer" } else { "more" };
    one.beyond.verdict.is_change().then(|| {
        format!(
            "Together they cost {by} {what} {than} than the sum of their costs ({percent} %): they \
             are not independent."
        )
    })
}
