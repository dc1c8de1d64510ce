use crate::model::{LedgerCost, LedgerEntry, LedgerInteraction, LedgerRow, METRICS, Verdict};
use crate::report::view::{Cell, Kind, Line, Section, Table};
use crate::report::{effect, number, verdict};

const COLUMNS: [(&str, Kind); 7] = [
    ("added", Kind::Words),
    ("cost %", Kind::Number),
    ("delta insn", Kind::Number),
    ("delta %", Kind::Number),
    ("MDE %", Kind::Number),
    ("REP", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// One Workload: the additions, the most expensive first, then all together.
pub fn section(row: &LedgerRow) -> Section {
    let lines = row.entries.iter().chain(&row.together).map(line);
    let table = Table::of(COLUMNS).with(lines);
    let has_rep = |entry: &LedgerEntry| rep(entry).is_some_and(|rep| rep.delta != 0.0);
    // Without REP iterations the cost is the delta.
    let table = match row.entries.iter().chain(&row.together).any(has_rep) {
        true => Table { gives_way: vec![vec![3], vec![4]], ..table },
        false => Table { gives_way: vec![vec![3]], ..table.without(&[1, 5]) },
    };
    Section::Table {
        title: format!("{}, {} instructions", row.row, number::count(row.base)),
        table,
        notes: row.interactions.iter().filter_map(interaction).collect(),
    }
}

/// One addition; nothing but the verdict where it was not measured.
fn line(entry: &LedgerEntry) -> Line {
    let measured = entry.costs.as_ref().filter(|_| entry.verdict != Verdict::Failed);
    let both = measured.and_then(|costs| Some((costs, costs.metric(METRICS[0].name)?)));
    let cells = both.map_or_else(Default::default, |(costs, instructions)| {
        let LedgerCost { base, delta, percent, detectable, verdict } = instructions;
        [
            number::percent(costs.all.percent),
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
