//! Where the time of several CPUs went.

use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_model::{
    CountsComparison, CpuTime, Effect, IDLE, MAKESPAN, METRICS, Row, SPIN_WAIT, Side,
};
use ktax_stats::tables::share_percent;

const COLUMNS: [(&str, Kind); 8] = [
    ("workload", Kind::Row),
    ("side", Kind::Name),
    ("executed insn", Kind::Number),
    ("process %", Kind::Number),
    ("other %", Kind::Number),
    ("wait %", Kind::Number),
    ("idle %", Kind::Number),
    ("uneven %", Kind::Number),
];

const MEANING: &str = "executed: instructions in process context. The shares are of all CPUs' \
                       time, which is the makespan of each, and add up to 100 %. process: these \
                       instructions; other: REP iterations, interrupts and kernel threads; wait: \
                       what CPUs waited for each other; idle: what they were halted; uneven: what \
                       their slices were shorter than the longest one of a round, which a real \
                       machine does not have.";

/// What the CPUs executed, and the shares of their time that they waited and were idle; nothing of
/// one CPU.
pub fn parallel(rows: &[Row], counts: &CountsComparison) -> Option<Section> {
    let cpus = counts.key.cpus;
    let lines: Vec<Line> = rows.iter().filter_map(|row| lines(row, cpus)).flatten().collect();
    (!lines.is_empty()).then(|| Section::Table {
        title: format!("{cpus} CPUs together, per operation, and where their time goes:"),
        table: Table { gives_way: vec![vec![4], vec![2], vec![7]], ..Table::of(COLUMNS) }
            .with(lines),
        notes: vec![MEANING.to_owned()],
    })
}

/// Its shares are of the layout with the median makespan.
fn lines(row: &Row, cpus: u32) -> Option<[Line; 2]> {
    let (makespan, waits, idles) =
        (row.effect(MAKESPAN)?, row.effect(SPIN_WAIT)?, row.effect(IDLE)?);
    let executed = row.effect(METRICS[0].name)?;
    let at = |effect: &Effect, side: Side| {
        effect.samples.get(side).get(makespan.layout).copied().unwrap_or_default()
    };
    let line = |side: Side| {
        let whole = at(makespan, side) as f64 * f64::from(cpus);
        let share =
            |part: u64| number::with_decimals(share_percent(part as f64, whole.max(1.0)), 1, false);
        let process = at(executed, side);
        let per_op = if side == Side::Base { executed.base } else { executed.change };
        // An older ktax did not keep the times: then what is known of them is in the metrics.
        let times = row.counts().and_then(|counts| counts.cpu_time.as_ref());
        let known = times.map(|times| times.get(side));
        let of = |part: fn(&CpuTime) -> u64| known.map(part);
        let [other, uneven] =
            [of(|time| time.work).map(|work| work.saturating_sub(process)), of(|time| time.uneven)]
                .map(|part| part.map_or(String::new(), share));
        let cells = [
            row.row.clone(),
            side.name().to_owned(),
            number::count(per_op),
            share(process),
            other,
            share(of(|time| time.wait).unwrap_or_else(|| at(waits, side))),
            share(of(|time| time.idle).unwrap_or_else(|| at(idles, side))),
            uneven,
        ];
        Line::of(cells.map(Cell::from))
    };
    Some(Side::BOTH.map(line))
}
