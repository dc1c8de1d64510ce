use crate::model::Row;
use crate::report::view::{Cell, Kind, Line, Table};
use crate::report::{effect, number, verdict};

const COLUMNS: [(&str, Kind); 8] = [
    ("workload", Kind::Row),
    ("base", Kind::Number),
    ("change", Kind::Number),
    ("delta", Kind::Number),
    ("delta %", Kind::Number),
    ("range %", Kind::Number),
    ("MDE %", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// One line for each row, in the Plan's order.
///
/// Where it is narrow these give way: the change, which is base plus delta; the range, which a
/// changed row says again with its functions; the MDE; the base.
pub fn table(rows: &[Row]) -> Table {
    let gives_way = [2, 5, 6, 1].map(|column| vec![column]).to_vec();
    Table { gives_way, ..Table::of(COLUMNS) }.with(rows.iter().map(line))
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
    let name = Cell::from(row.row.as_str());
    Line::of([name].into_iter().chain(cells.map(Cell::from))).and(verdict::of_row(row))
}
