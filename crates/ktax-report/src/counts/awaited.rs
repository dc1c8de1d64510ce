//! What kernel threads do while the process of a row waits for them.

use crate::view::{Cell, Kind, Line, Section, Table};
use crate::{effect, number};
use ktax_model::{AWAITED, METRICS, Row};

const COLUMNS: [(&str, Kind); 6] = [
    ("workload", Kind::Row),
    ("base insn", Kind::Number),
    ("change insn", Kind::Number),
    ("delta %", Kind::Number),
    ("range %", Kind::Number),
    ("verdict", Kind::Verdict),
];

const MEANING: &str = "A row waits for a kernel thread that its process, the interrupt of a device \
                       or another such thread has woken, until that sleeps again. What a timer \
                       woke is in the background. These instructions decide like those of the \
                       process.";

/// Below this share of the process's instructions nothing is said.
const LEAST: f64 = 0.001;

/// A line for each row that waits for kernel threads.
pub fn awaited(rows: &[Row]) -> Option<Section> {
    let lines: Vec<Line> = rows.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: "Kernel threads that rows wait for, instructions per operation:".to_owned(),
        table: Table { gives_way: vec![vec![4]], ..Table::of(COLUMNS) }.with(lines),
        notes: vec![MEANING.to_owned()],
    })
}

fn line(row: &Row) -> Option<Line> {
    let (awaited, process) = (row.effect(AWAITED)?, row.effect(METRICS[0].name)?);
    let least = LEAST * process.base.max(process.change);
    (awaited.base.max(awaited.change) >= least).then(|| {
        let cells = [
            row.row.clone(),
            number::count(awaited.base),
            number::count(awaited.change),
            number::percent(awaited.percent),
            effect::over_layouts(awaited),
        ];
        Line::of(cells.map(Cell::from)).and(Cell::verdict(awaited.verdict, ""))
    })
}
