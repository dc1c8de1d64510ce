//! In which functions CPUs wait for each other, the share of locks, and who takes them.

use std::collections::BTreeMap;

use super::locks::{lock_of, taker};
use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_model::{CountsComparison, CpuTime, MAKESPAN, Row, Side, Sides, WaitStack};
use ktax_stats::tables::share_percent;

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

const OF_PLACES: [(&str, Kind); 5] = [
    ("workload", Kind::Row),
    ("by", Kind::Name),
    ("base %", Kind::Number),
    ("change %", Kind::Number),
    ("lock", Kind::Words),
];

const TAKERS: &str = "by: the function that called the lock's own functions, which was measured; \
                      %: its share of all that the row's CPUs wait for each other; lock: what this \
                      function is known to lock, which was not measured. `ktax report DIR \
                      --explain ROW` prints all call paths.";

const SLEEPERS: &str = "by: the function in which a CPU's last process was when it left the CPU \
                        idle, without the functions of locks and of the scheduler; %: its share of \
                        all that the row's CPUs are idle; no process: none has left the CPU, \
                        or it runs on another one; lock: what this function is known to wait for, \
                        which was not measured.";

/// A function with a smaller share on both sides, in percent, is among the others.
const LEAST_PERCENT: f64 = 1.0;
/// CPUs that wait, or are idle, for a smaller share of their time are not worth a table.
const LEAST_OF_TIME_PERCENT: f64 = 0.1;

/// Who takes the locks for which CPUs wait; nothing where they hardly wait.
pub fn takers(rows: &[Row]) -> Option<Section> {
    let rows = rows.iter().filter_map(|row| {
        Some(Places { row, stacks: &row.counts()?.wait_stacks, all: all(row, |time| time.wait)? })
    });
    places("Which lock CPUs wait for, and who takes it:", TAKERS, rows, "others")
}

/// Where processes sleep while CPUs are idle; nothing where they hardly are.
pub fn sleepers(rows: &[Row]) -> Option<Section> {
    let rows = rows.iter().filter_map(|row| {
        Some(Places { row, stacks: &row.counts()?.idle_stacks, all: all(row, |time| time.idle)? })
    });
    places("What processes wait for while CPUs are idle:", SLEEPERS, rows, NO_PROCESS)
}

const NO_PROCESS: &str = "others, or no process";

/// `None` where it is little of the CPUs' time.
fn all(row: &Row, part: fn(&CpuTime) -> u64) -> Option<Sides<u64>> {
    let times = row.counts()?.cpu_time.as_ref()?;
    let whole = |time: &CpuTime| {
        [time.work, time.wait, time.idle, time.uneven].into_iter().fold(0, u64::saturating_add)
    };
    let share = |side: Side| {
        let time = times.get(side);
        share_percent(part(time) as f64, whole(time).max(1) as f64)
    };
    let is_much = Side::BOTH.into_iter().any(|side| share(side) >= LEAST_OF_TIME_PERCENT);
    is_much.then(|| Sides::of(|side| part(times.get(side))))
}

/// The stacks of a row, and what they are a part of.
struct Places<'a> {
    row: &'a Row,
    stacks: &'a [WaitStack],
    all: Sides<u64>,
}

fn places<'a>(
    title: &str,
    note: &str,
    rows: impl Iterator<Item = Places<'a>>,
    rest: &str,
) -> Option<Section> {
    let rows = rows.filter(|places| !places.stacks.is_empty());
    let lines: Vec<Line> = rows.flat_map(|places| places.lines(rest)).collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: title.to_owned(),
        table: Table { gives_way: vec![vec![2], vec![4]], ..Table::of(OF_PLACES) }.with(lines),
        notes: vec![note.to_owned()],
    })
}

impl Places<'_> {
    /// Their shares add up to 100 % of each side.
    fn lines(&self, rest: &str) -> Vec<Line> {
        let mut takers: BTreeMap<&str, Sides<u64>> = BTreeMap::new();
        let mut others = self.all.clone();
        for stack in self.stacks {
            let sum = takers.entry(taker(&stack.functions)).or_default();
            for side in Side::BOTH {
                let sum = sum.get_mut(side);
                *sum = sum.saturating_add(*stack.wait.get(side));
            }
        }
        let share = |counts: &Sides<u64>, side: Side| {
            share_percent(*counts.get(side) as f64, (*self.all.get(side)).max(1) as f64)
        };
        let is_large = |counts: &Sides<u64>| {
            Side::BOTH.into_iter().any(|side| share(counts, side) >= LEAST_PERCENT)
        };
        takers.retain(|_, counts| is_large(counts));
        let mut takers: Vec<(&str, Sides<u64>)> = takers.into_iter().collect();
        // Stable: equal ones stay in the order of their names.
        takers.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.base.max(counts.change)));
        for (_, counts) in &takers {
            for side in Side::BOTH {
                let rest = others.get_mut(side);
                *rest = rest.saturating_sub(*counts.get(side));
            }
        }
        let line = |by: &str, counts: &Sides<u64>, lock: &str| {
            let percent = |side| number::with_decimals(share(counts, side), 1, false);
            let shares = Side::BOTH.map(percent);
            let [base, change] = shares;
            // The row is on every line, since a page can sort them.
            let cells = [self.row.row.clone(), by.to_owned(), base, change, lock.to_owned()];
            Line::of(cells.map(Cell::from))
        };
        let named = takers.iter().map(|(by, counts)| line(by, counts, lock_of(by).unwrap_or("")));
        let has_rest = others != Sides::default();
        named.chain(has_rest.then(|| line(rest, &others, ""))).collect()
    }
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
