//! In which functions CPUs wait for each other: the share of locks.

use crate::model::{CountsComparison, MAKESPAN, Row, Side, Sides};
use crate::report::number;
use crate::report::view::{Cell, Kind, Line, Section, Table};
use crate::stats::tables::share_percent;

const COLUMNS: [(&str, Kind); 6] = [
    ("workload", Kind::Row),
    ("function", Kind::Name),
    ("base %", Kind::Number),
    ("change %", Kind::Number),
    ("base wait %", Kind::Number),
    ("change wait %", Kind::Number),
];

const MEANING: &str = "%: what CPUs execute and wait in the function, wherever it is called, in \
                       percent of all CPUs' time; wait %: what of it they wait. A lock's own \
                       instructions count also where nobody waits for it.";

/// So many functions of a row are named.
const MOST: usize = 4;

/// A function in which no Side waits this share of the time, in percent, is not named.
const LITTLE_PERCENT: f64 = 0.005;

/// The shares of the functions in which CPUs wait most; nothing where they hardly do.
pub fn waits(rows: &[Row], counts: &CountsComparison) -> Option<Section> {
    let cpus = f64::from(counts.key.cpus);
    let lines: Vec<Line> = rows.iter().filter_map(|row| of_row(row, cpus)).flatten().collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: "Where CPUs wait for each other, and their time there:".to_owned(),
        table: Table { gives_way: vec![vec![4, 5]], ..Table::of(COLUMNS) }.with(lines),
        notes: vec![MEANING.to_owned()],
    })
}

/// What a function has of all CPUs' time, in percent.
struct Share<'a> {
    function: &'a str,
    wait: Sides<f64>,
    whole: Sides<f64>,
}

/// Shares are of the layout with the median makespan.
fn of_row(row: &Row, cpus: f64) -> Option<Vec<Line>> {
    let (makespan, evidence) = (row.effect(MAKESPAN)?, row.counts()?);
    let (waits, executed) = (evidence.waits.as_ref()?, evidence.executed_there.as_ref()?);
    let share = |count: u64, side: Side| {
        share_percent(count as f64, makespan.samples.get(side)[makespan.layout] as f64 * cpus)
    };
    let mut functions: Vec<&String> = waits.base.keys().chain(waits.change.keys()).collect();
    functions.sort();
    functions.dedup();
    let shares = functions.into_iter().map(|function| {
        let wait = Sides::of(|side| share(count(waits.get(side).get(function)), side));
        let executed = Sides::of(|side| share(count(executed.get(side).get(function)), side));
        let whole = Sides::of(|side| wait.get(side) + executed.get(side));
        Share { function, wait, whole }
    });
    let most = |sides: &Sides<f64>| sides.base.max(sides.change);
    let mut shares: Vec<Share<'_>> =
        shares.filter(|share| most(&share.wait) >= LITTLE_PERCENT).collect();
    // Stable: equal shares stay in the order of their names.
    shares.sort_by(|one, other| most(&other.whole).total_cmp(&most(&one.whole)));
    shares.truncate(MOST);
    Some(shares.iter().map(|share| line(row, share)).collect())
}

fn count(count: Option<&u64>) -> u64 {
    count.copied().unwrap_or_default()
}

fn line(row: &Row, share: &Share<'_>) -> Line {
    let percent = |percent: f64| number::with_decimals(percent, 2, false);
    let [base, change, base_wait, change_wait] =
        [share.whole.base, share.whole.change, share.wait.base, share.wait.change].map(percent);
    let cells = [
        // On every line, since a page can sort them.
        row.row.clone(),
        share.function.to_owned(),
        base,
        change,
        base_wait,
        change_wait,
    ];
    Line::of(cells.map(Cell::from))
}
