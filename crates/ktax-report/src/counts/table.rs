use crate::carried::carried_most;
use crate::view::{Cell, Kind, Line, Table};
use crate::{effect, number, verdict};
use ktax_model::Row;

const COLUMNS: [(&str, Kind); 9] = [
    ("workload", Kind::Row),
    ("base insn", Kind::Number),
    ("change insn", Kind::Number),
    ("delta insn", Kind::Number),
    ("delta %", Kind::Number),
    ("range %", Kind::Number),
    ("MDE %", Kind::Number),
    ("carried most by", Kind::Words),
    ("verdict", Kind::Verdict),
];

/// The function that carries most of a row's change.
const CARRIED: usize = 7;

/// One line for each row, in the Plan's order.
///
/// Only a wide page has the function that carries most, which stands below with all others. Where
/// it is narrow these give way: the change, which is base plus delta; the range, which a changed
/// row says again with its functions; the MDE; the base.
pub fn table(rows: &[Row]) -> Table {
    let gives_way = [CARRIED, 2, 5, 6, 1].map(|column| vec![column]).to_vec();
    let table = Table { gives_way, extra: vec![CARRIED], ..Table::of(COLUMNS) };
    let table = table.with(rows.iter().map(line));
    match rows.iter().any(|row| carried_most(row).is_some()) {
        true => table,
        false => table.without_extra(),
    }
}

fn line(row: &Row) -> Line {
    let cells = match row.effects().first() {
        None => <[String; 6]>::default(),
        Some(of) => [
            number::count(of.base),
            number::count(of.change),
            number::delta(of.delta),
            number::percent(of.percent),
            effect::over_layouts(of),
            effect::detectable(of),
        ],
    };
    let cells =
        [row.row.clone()].into_iter().chain(cells).chain([carried_most(row).unwrap_or_default()]);
    Line::of(cells.map(Cell::from)).and(verdict::of_row(row))
}
