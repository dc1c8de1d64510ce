use crate::number;
use crate::view::{Cell, Kind, Line, Table};
use ktax_model::{Ratio, Row, Side, TimesEvidence};

const COLUMNS: [(&str, Kind); 7] = [
    ("workload", Kind::Row),
    ("base ns", Kind::Number),
    ("change ns", Kind::Number),
    ("ratio\n(95 %)", Kind::Number),
    ("pairs", Kind::Number),
    ("MDE %", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// One line for each row; those that do not decide belong to those above them.
pub fn table(rows: &[(&Row, &TimesEvidence)]) -> Table {
    // The times give way: the ratio is the answer.
    let gives_way = vec![vec![4], vec![5], vec![1, 2]];
    Table { gives_way, ..Table::of(COLUMNS) }.with(rows.iter().map(|(row, times)| line(row, times)))
}

fn line(row: &Row, times: &TimesEvidence) -> Line {
    let ns = |side: Side| times.ns.get(side).map(number::measured).unwrap_or_default();
    let cells = [
        row.row.clone(),
        ns(Side::Base),
        ns(Side::Change),
        times.ratio.map(ratio).unwrap_or_default(),
        times.pairs.to_string(),
        times.detectable_percent.map(number::limit).unwrap_or_default(),
    ];
    let line = Line::of(cells).and(Cell::verdict(row.verdict, ""));
    Line { is_part: !row.headline, ..line }
}

/// `1.028 (1.024…1.032)`
pub fn ratio(ratio: Ratio) -> String {
    let high = ratio.high.map_or("∞".to_owned(), |high| format!("{high:.3}"));
    format!("{:.3} ({:.3}…{high})", ratio.estimate, ratio.low)
}
