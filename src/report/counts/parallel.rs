//! Where the time of several CPUs went.

use crate::model::{CountsComparison, Effect, IDLE, MAKESPAN, METRICS, Row, SPIN_WAIT, Side};
use crate::report::number;
use crate::report::view::{Cell, Kind, Line, Section, Table};
use crate::stats::tables::share_percent;

const COLUMNS: [(&str, Kind); 8] = [
    ("workload", Kind::Row),
    ("base executed", Kind::Number),
    ("change executed", Kind::Number),
    ("delta %", Kind::Number),
    ("base wait %", Kind::Number),
    ("change wait %", Kind::Number),
    ("base idle %", Kind::Number),
    ("change idle %", Kind::Number),
];

const MEANING: &str = "executed: instructions in process context; wait %: what process context \
                       waited for other CPUs, and idle %: what the CPUs had nothing to do, in \
                       percent of all CPUs' time, which is the makespan of each.";

/// What the CPUs executed, and the shares of their time that they waited and were idle; nothing of
/// one CPU.
pub fn parallel(rows: &[Row], counts: &CountsComparison) -> Option<Section> {
    let cpus = counts.key.cpus;
    let lines: Vec<Line> = rows.iter().filter_map(|row| line(row, cpus)).collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: format!("{cpus} CPUs together, insn per operation:"),
        table: Table { gives_way: vec![vec![2], vec![6], vec![7]], ..Table::of(COLUMNS) }
            .with(lines),
        notes: vec![MEANING.to_owned()],
    })
}

/// Its shares are of the layout with the median makespan.
fn line(row: &Row, cpus: u32) -> Option<Line> {
    let (makespan, waits, idles) =
        (row.effect(MAKESPAN)?, row.effect(SPIN_WAIT)?, row.effect(IDLE)?);
    let executed = row.effect(METRICS[0].name)?;
    let share = |part: &Effect, side: Side| {
        let at = |effect: &Effect| effect.samples.get(side)[makespan.layout] as f64;
        number::with_decimals(share_percent(at(part), at(makespan) * f64::from(cpus)), 1, false)
    };
    let [base, change] = Side::BOTH;
    let cells = [
        row.row.clone(),
        number::count(executed.base),
        number::count(executed.change),
        number::percent(executed.percent),
        share(waits, base),
        share(waits, change),
        share(idles, base),
        share(idles, change),
    ];
    Some(Line::of(cells.map(Cell::from)))
}
