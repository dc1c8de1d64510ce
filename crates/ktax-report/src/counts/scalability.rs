//! Rows that differ only in how many CPUs they run on.

use std::collections::BTreeMap;

use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_model::{Effect, MAKESPAN, Row, Side, Sides, family};
use ktax_stats::tables::share_percent;

/// The parameter that says on how many.
const CPUS: &str = "cpus";

const COLUMNS: [(&str, Kind); 8] = [
    ("workload", Kind::Row),
    ("CPUs", Kind::Number),
    ("base ops/Minsn", Kind::Number),
    ("change ops/Minsn", Kind::Number),
    ("base %", Kind::Number),
    ("change %", Kind::Number),
    ("waits most in", Kind::Name),
    ("wait %", Kind::Number),
];

const MEANING: &str = "ops/Minsn: operations of each CPU while a million instructions of makespan \
                       pass; %: the same in percent of the row with the fewest CPUs, so that 100 \
                       is a row that scales; wait %: what of their time these CPUs wait for each \
                       other, with the change, and in which function most of it.";

/// What each CPU does where more of them do it; nothing without such rows.
pub fn scalability(rows: &[Row]) -> Option<Section> {
    let mut families: BTreeMap<String, Vec<(u64, &Row, &Effect)>> = BTreeMap::new();
    for row in rows {
        let makespan = row.effect(MAKESPAN);
        if let (Some(cpus), Some(effect)) = (row.params.get(CPUS), makespan) {
            families.entry(family(&row.row, CPUS)).or_default().push((*cpus, row, effect));
        }
    }
    families.retain(|_, members| members.len() > 1);
    let lines = families.into_iter().flat_map(|(name, mut members)| {
        members.sort_by_key(|(cpus, ..)| *cpus);
        lines(&name, &members)
    });
    let lines: Vec<Line> = lines.collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: "What each CPU does where more of them do it:".to_owned(),
        table: Table { gives_way: vec![vec![2], vec![3], vec![6], vec![4]], ..Table::of(COLUMNS) }
            .with(lines),
        notes: vec![MEANING.to_owned()],
    })
}

fn lines(name: &str, members: &[(u64, &Row, &Effect)]) -> Vec<Line> {
    let rates = |cpus: u64, effect: &Effect| {
        Sides { base: effect.base, change: effect.change }
            .map(|makespan| 1e6 / makespan / cpus as f64)
    };
    let (fewest, _, first) = members[0];
    let one = rates(fewest, first);
    let line = |(cpus, row, effect): &(u64, &Row, &Effect)| {
        let rate = rates(*cpus, effect);
        let percent = |side: Side| {
            number::with_decimals(share_percent(*rate.get(side), *one.get(side)), 1, false)
        };
        let [waits, share] = waits_most(row, effect, *cpus).unwrap_or_default();
        Line::of(
            [
                // On every line, since a page can sort them.
                name.to_owned(),
                cpus.to_string(),
                number::count(rate.base),
                number::count(rate.change),
                percent(Side::Base),
                percent(Side::Change),
                waits,
                share,
            ]
            .map(Cell::from),
        )
    };
    members.iter().map(line).collect()
}

/// Below this share of the time, in percent, the function is not worth its name.
const LITTLE_PERCENT: f64 = 0.1;

/// The function, and all waiting.
fn waits_most(row: &Row, makespan: &Effect, cpus: u64) -> Option<[String; 2]> {
    let waits = &row.counts()?.waits.as_ref()?.change;
    let all = waits.values().sum::<u64>() as f64;
    let time = makespan.samples.change[makespan.layout] as f64 * cpus as f64;
    let share = share_percent(all, time);
    let (function, _) = waits.iter().max_by_key(|(_, wait)| **wait)?;
    let named = if share < LITTLE_PERCENT { String::new() } else { function.clone() };
    Some([named, number::with_decimals(share, 1, false)])
}
