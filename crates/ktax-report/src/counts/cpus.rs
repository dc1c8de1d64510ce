//! Tables of rows that run on several CPUs or wait for kernel threads.

use std::collections::BTreeMap;

use crate::view::{Cell, Kind, Line, Section, Table};
use crate::{effect, number};
use ktax_model::{
    AWAITED, CacheLine, CountsComparison, CpuTime, Effect, IDLE, MAKESPAN, METRICS, Memory, Row,
    SPIN_WAIT, Side, Sides, TRANSFERS, family,
};
use ktax_stats::tables::{change_percent, share_percent};

const TIME_COLUMNS: [(&str, Kind); 8] = [
    ("workload", Kind::Row),
    ("side", Kind::Name),
    ("executed insn", Kind::Number),
    ("process %", Kind::Number),
    ("other %", Kind::Number),
    ("wait %", Kind::Number),
    ("idle %", Kind::Number),
    ("uneven %", Kind::Number),
];

const TIME_MEANING: &str = "executed: instructions in process context. The shares are of all \
                            CPUs' time, which is the makespan of each, and add up to 100 %. \
                            process: these instructions; other: REP iterations, interrupts and \
                            kernel threads; wait: what CPUs waited for each other; idle: what \
                            they were halted; uneven: what their slices were shorter than the \
                            longest one of a round, which a real machine does not have.";

/// Table of what several CPUs executed, and the shares of their time that they waited and were
/// idle; `None` of one CPU.
pub fn cpu_times(rows: &[Row], counts: &CountsComparison) -> Option<Section> {
    let cpus = counts.key.machine.cpus;
    let lines: Vec<Line> = rows.iter().filter_map(|row| time_lines(row, cpus)).flatten().collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: format!("{cpus} CPUs together, per operation, and where their time goes:"),
        table: Table { gives_way: vec![vec![4], vec![2], vec![7]], ..Table::new(TIME_COLUMNS) }
            .with(lines),
        notes: vec![TIME_MEANING.to_owned()],
    })
}

/// Lines of a row; its shares are of the layout with the median makespan.
fn time_lines(row: &Row, cpus: u32) -> Option<[Line; 2]> {
    let (makespan, waits, idles) =
        (row.effect(MAKESPAN)?, row.effect(SPIN_WAIT)?, row.effect(IDLE)?);
    let executed = row.effect(METRICS[0].name)?;
    let count_of = |effect: &Effect, side: Side| {
        effect.samples.get(side).get(makespan.layout).copied().unwrap_or_default()
    };
    let line = |side: Side| {
        let whole = count_of(makespan, side) as f64 * f64::from(cpus);
        let share =
            |part: u64| number::with_decimals(share_percent(part as f64, whole.max(1.0)), 1, false);
        let process = count_of(executed, side);
        let per_op = if side == Side::Base { executed.base } else { executed.change };
        // Results of an older ktax have no times; what is known of them is in the metrics.
        let times = row.counts().and_then(|counts| counts.cpu_time.as_ref());
        let known = times.map(|times| times.get(side));
        let part_of = |part: fn(&CpuTime) -> u64| known.map(part);
        let [other, uneven] = [
            part_of(|time| time.work).map(|work| work.saturating_sub(process)),
            part_of(|time| time.uneven),
        ]
        .map(|part| part.map_or(String::new(), share));
        let cells = [
            row.row.clone(),
            side.name().to_owned(),
            number::count(per_op),
            share(process),
            other,
            share(part_of(|time| time.wait).unwrap_or_else(|| count_of(waits, side))),
            share(part_of(|time| time.idle).unwrap_or_else(|| count_of(idles, side))),
            uneven,
        ];
        Line::new(cells.map(Cell::from))
    };
    Some(Side::BOTH.map(line))
}

/// Parameter with the number of CPUs.
const CPUS: &str = "cpus";

const RATE_COLUMNS: [(&str, Kind); 8] = [
    ("workload", Kind::Row),
    ("CPUs", Kind::Number),
    ("base ops/Minsn", Kind::Number),
    ("change ops/Minsn", Kind::Number),
    ("base %", Kind::Number),
    ("change %", Kind::Number),
    ("waits most in", Kind::Name),
    ("wait %", Kind::Number),
];

const RATE_MEANING: &str = "ops/Minsn: operations of each CPU while a million instructions of \
                            makespan pass; %: the same in percent of the row with the fewest \
                            CPUs, so that 100 is a row that scales; wait %: what of their time \
                            these CPUs wait for each other, with the change, and in which \
                            function most of it.";

/// Table of what each CPU does where more of them do it; `None` without rows that differ in their
/// CPUs alone.
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
        rate_lines(&name, &members)
    });
    let lines: Vec<Line> = lines.collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: "What each CPU does where more of them do it:".to_owned(),
        table: Table {
            gives_way: vec![vec![2], vec![3], vec![6], vec![4]],
            ..Table::new(RATE_COLUMNS)
        }
        .with(lines),
        notes: vec![RATE_MEANING.to_owned()],
    })
}

fn rate_lines(name: &str, members: &[(u64, &Row, &Effect)]) -> Vec<Line> {
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
        Line::new(
            [
                // The name is on every line, since a page can sort them.
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

/// Share of the time, in percent, below which a function is not named.
const LITTLE_WAIT_PERCENT: f64 = 0.1;

/// Names the function with most waiting, and the share of all waiting.
fn waits_most(row: &Row, makespan: &Effect, cpus: u64) -> Option<[String; 2]> {
    let waits = &row.counts()?.waits.as_ref()?.change;
    let all = waits.values().sum::<u64>() as f64;
    let time = makespan.samples.change[makespan.layout] as f64 * cpus as f64;
    let share = share_percent(all, time);
    let (function, _) = waits.iter().max_by_key(|(_, wait)| **wait)?;
    let named = if share < LITTLE_WAIT_PERCENT { String::new() } else { function.clone() };
    Some([named, number::with_decimals(share, 1, false)])
}

const AWAITED_COLUMNS: [(&str, Kind); 6] = [
    ("workload", Kind::Row),
    ("base insn", Kind::Number),
    ("change insn", Kind::Number),
    ("delta %", Kind::Number),
    ("range %", Kind::Number),
    ("verdict", Kind::Verdict),
];

const AWAITED_MEANING: &str = "A row waits for a kernel thread that its process, the interrupt of \
                               a device or another such thread has woken, until that sleeps \
                               again. What a timer woke is in the background. These instructions \
                               decide like those of the process.";

/// Share of the process's instructions below which nothing is said.
const LEAST_AWAITED: f64 = 0.001;

/// Table with a line for each row that waits for kernel threads.
pub fn awaited(rows: &[Row]) -> Option<Section> {
    let lines: Vec<Line> = rows.iter().filter_map(awaited_line).collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: "Kernel threads that rows wait for, instructions per operation:".to_owned(),
        table: Table { gives_way: vec![vec![4]], ..Table::new(AWAITED_COLUMNS) }.with(lines),
        notes: vec![AWAITED_MEANING.to_owned()],
    })
}

fn awaited_line(row: &Row) -> Option<Line> {
    let (awaited, process) = (row.effect(AWAITED)?, row.effect(METRICS[0].name)?);
    let least = LEAST_AWAITED * process.base.max(process.change);
    (awaited.base.max(awaited.change) >= least).then(|| {
        let cells = [
            row.row.clone(),
            number::count(awaited.base),
            number::count(awaited.change),
            number::percent(awaited.percent),
            effect::over_layouts(awaited),
        ];
        Line::new(cells.map(Cell::from)).and(Cell::verdict(awaited.verdict, ""))
    })
}

const TRANSFER_COLUMNS: [(&str, Kind); 7] = [
    ("workload", Kind::Row),
    ("cache line", Kind::Name),
    ("lines", Kind::Number),
    ("base model transfers", Kind::Number),
    ("change model transfers", Kind::Number),
    ("delta transfers", Kind::Number),
    ("delta %", Kind::Number),
];

const TRANSFER_MEANING: &str = "model transfers: how often per operation a CPU uses a line of 64 \
                                bytes that another CPU has written since, in a model whose caches \
                                are never full; a model's number, exact in the model. A line has \
                                the name of its variables (+ where in it the line begins, or two \
                                that share it), and other memory that of the function that gets \
                                it most often from another CPU; lines: how many have this name.";

/// Number of cache lines of each row.
const MOST_CACHE_LINES: usize = 5;
/// Share of a row's transfers, in percent, below which a cache line is left out.
const LITTLE_TRANSFERS_PERCENT: f64 = 5.0;
const ALL_LINES: &str = "all";

/// Table of the cache lines that travel most between CPUs in each row; `None` without the model.
pub fn coherence(rows: &[Row]) -> Option<Section> {
    let lines: Vec<Line> = rows.iter().filter_map(row_transfers).flatten().collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: "Cache lines that travel between CPUs, by the model of coherence:".to_owned(),
        table: Table {
            gives_way: vec![vec![5], vec![2], vec![6], vec![3]],
            ..Table::new(TRANSFER_COLUMNS)
        }
        .with(lines),
        notes: vec![TRANSFER_MEANING.to_owned()],
    })
}

fn row_transfers(row: &Row) -> Option<Vec<Line>> {
    let effect = row.effect(TRANSFERS)?;
    let found = row.counts()?.model_lines.as_ref()?;
    let all = in_layout(effect);
    let mut named: BTreeMap<String, (Sides<u64>, u64)> = BTreeMap::new();
    for side in Side::BOTH {
        for line in found.get(side) {
            let (transfers, lines) =
                named.entry(cache_line_name(line)).or_insert((Sides { base: 0, change: 0 }, 0));
            *transfers.get_mut(side) += line.transfers;
            *lines = line.lines.max(*lines);
        }
    }
    let most = |sides: &Sides<u64>| sides.base.max(sides.change);
    let mut named: Vec<(String, (Sides<u64>, u64))> = named.into_iter().collect();
    named.sort_by_key(|(_, (transfers, _))| std::cmp::Reverse(most(transfers)));
    let is_much = |sides: &Sides<u64>| {
        share_percent(most(sides) as f64, most(&all) as f64) >= LITTLE_TRANSFERS_PERCENT
    };
    let line = |name: &str, lines: String, transfers: &Sides<u64>| {
        transfers_line(row, [name.to_owned(), lines], transfers)
    };
    let worth =
        named.iter().filter(|(_, (transfers, _))| is_much(transfers)).take(MOST_CACHE_LINES);
    let worth = worth.map(|(name, (transfers, lines))| line(name, lines.to_string(), transfers));
    Some(std::iter::once(line(ALL_LINES, String::new(), &all)).chain(worth).collect())
}

/// Returns both sides' raw counts in the Layout that is shown.
fn in_layout(effect: &Effect) -> Sides<u64> {
    Sides::from_fn(|side| effect.samples.get(side)[effect.layout])
}

fn transfers_line(row: &Row, [name, lines]: [String; 2], transfers: &Sides<u64>) -> Line {
    let [base, change] =
        [transfers.base, transfers.change].map(|count| number::per_op(count, row.ops));
    let cells = [
        row.row.clone(),
        name,
        lines,
        number::count(base),
        number::count(change),
        number::delta(change - base),
        number::percent(change_percent(base, change)),
    ];
    Line::new(cells.map(Cell::from))
}

/// Names a cache line.
fn cache_line_name(line: &CacheLine) -> String {
    let CacheLine { memory, name, offset, .. } = line;
    let place = match offset {
        0 => name.clone(),
        offset => format!("{name}+{offset:#x}"),
    };
    match memory {
        Memory::Data => place,
        Memory::Percpu => format!("{place} of each CPU"),
        Memory::Direct => format!("heap, by {name}"),
        Memory::Vmalloc => format!("stack or vmalloc, by {name}"),
        Memory::Pages => format!("struct page, by {name}"),
        Memory::User => format!("user, by {name}"),
        Memory::Other => format!("other, by {name}"),
    }
}
