use crate::exits::{Scale, bars, reasons};
use crate::view::{Cell, Kind, Line, RowDetail, Section, Table};
use crate::{effect, number};
use ktax_model::{EXITS, Effect, ExitRun, GuestsEvidence, Row, TIME};

const COLUMNS: [(&str, Kind); 9] = [
    ("workload", Kind::Row),
    ("exits base", Kind::Number),
    ("exits change", Kind::Number),
    ("base µs", Kind::Number),
    ("change µs", Kind::Number),
    ("delta %", Kind::Number),
    ("range %", Kind::Number),
    ("MDE %", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// One line for each row: the exits, and the time that decides.
pub fn table(rows: &[Row]) -> Table {
    // The range and the MDE first; the exits are in the tables of reasons.
    let gives_way = vec![vec![6], vec![7], vec![1, 2], vec![3]];
    Table { gives_way, ..Table::of(COLUMNS) }.with(rows.iter().map(line))
}

fn line(row: &Row) -> Line {
    let effect = |metric: &str| row.effect(metric);
    let [base, change] = both(effect(EXITS), number::whole);
    let [base_us, change_us] = both(effect(TIME), |ns| number::measured(ns / number::US));
    let [delta, range, detectable] = match effect(TIME) {
        None => <[String; 3]>::default(),
        Some(of) => [number::percent(of.percent), effect::over_layouts(of), effect::detectable(of)],
    };
    let cells = [row.row.clone(), base, change, base_us, change_us, delta, range, detectable];
    Line::of(cells).and(Cell::verdict(row.verdict, ""))
}

fn both(effect: Option<&Effect>, shown: impl Fn(f64) -> String) -> [String; 2] {
    effect.map(|of| [shown(of.base), shown(of.change)]).unwrap_or_default()
}

/// For each row what changed reason by reason, in the layout with the median change of time.
pub fn tables(rows: &[Row]) -> impl Iterator<Item = Section> {
    let with_runs = rows.iter().filter_map(|row| Some((row, runs(row.guests()?)?)));
    with_runs.map(|(row, [base, change])| Section::Table {
        title: format!("{}, by exit reason (1 µs is 1 000 instructions)", row.row),
        // Both sides did the same work.
        table: reasons(&base.table, &change.table, Scale::Totals),
        notes: Vec::new(),
    })
}

/// Where the time of both sides of each row went.
pub fn details(rows: &[Row]) -> Section {
    let detail = |row: &Row| {
        let sides = row.guests().and_then(runs).map(|[base, change]| {
            bars([("base".to_owned(), &base.table), ("change".to_owned(), &change.table)])
        });
        let time = row.effect(TIME);
        let answer = time.map(|time| {
            let us = number::measured(time.delta.abs() / number::US);
            let sign = if time.delta < 0.0 { '-' } else { '+' };
            format!("{sign}{us} µs ({} %)", number::percent(time.percent))
        });
        RowDetail {
            row: row.row.clone(),
            answer: answer.unwrap_or_default(),
            verdict: Cell::verdict(row.verdict, ""),
            sections: sides.into_iter().collect(),
            again: Vec::new(),
        }
    };
    Section::Rows { rows: rows.iter().map(detail).collect(), how: String::new() }
}

fn runs(guests: &GuestsEvidence) -> Option<[&ExitRun; 2]> {
    Some([guests.runs.base.as_ref()?, guests.runs.change.as_ref()?])
}
