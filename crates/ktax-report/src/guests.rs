//! Comparisons of guests of a KVM host, as a report.

use crate::exits::Scale;
use crate::view::{
    Cell, Kind, Legend, Line, Records, RowDetail, Section, SideLine, Table, Value, View,
};
use crate::{changes, effect, exits, number, pictures, words};
use ktax_host::text::counted;
use ktax_model::{
    Comparison, EXITS, Effect, ExitRows, ExitRun, GUEST_TIME, GuestSide, GuestWork,
    GuestsComparison, GuestsEvidence, GuestsPlan, Row, Side, TIME, Verdict,
};
use ktax_stats::tables::{change_percent, share_percent};

/// Explanation of the time, below the first table: it is no other machine's time.
const TIME_NOTE: &str = "1 µs is 1 000 instructions of the host's one CPU: the host counts \
                         instructions, not time.";

/// Shows the table, what failed, and then where each row's time went.
pub fn view(comparison: &Comparison, guests: &GuestsComparison) -> View {
    let rows = &comparison.rows;
    let threshold = comparison.threshold_percent;
    let is_alone = guests.plan.asked.change.is_none();
    let table = if is_alone { alone_table(rows) } else { compared_table(rows) };
    let mut sections = vec![
        pictures::forest(&rows.iter().collect::<Vec<_>>(), threshold, pictures::LAYOUTS),
        Section::Table { title: String::new(), table, notes: vec![TIME_NOTE.to_owned()] },
        changes::different_work(rows),
        changes::failures(rows, changes::failed_boot, |failed| failed.failure.next_step()),
    ];
    match is_alone {
        true => {
            sections
                .push(exits::bars(exit_runs(rows).map(|(row, run)| (row.row.clone(), &run.table))));
            sections.extend(alone_tables(rows));
            sections.push(exits::remarks(exit_runs(rows).map(|(_, run)| &run.table)));
        }
        false => {
            sections.push(compared_details(rows));
            sections.extend(compared_tables(rows));
        }
    }
    View {
        title: comparison.title.clone(),
        headline: match is_alone {
            true => alone_headline(rows),
            false => words::headline(rows),
        },
        sides: sides(&guests.plan),
        side_heads: HEADS,
        how: how(&guests.plan),
        sections,
        warnings: comparison.warnings.clone(),
        legend: match is_alone {
            true => alone_legend(comparison),
            false => compared_legend(comparison, guests.plan.layouts.len()),
        },
        ..View::default()
    }
}

fn compared_legend(comparison: &Comparison, layouts: usize) -> Legend {
    Legend::new([
        "base and change are the time of all vCPUs, in the guest and out of it, of the layout with \
         the median delta.",
    ])
    .with(words::over_layouts(comparison.threshold_percent, layouts))
}

fn alone_legend(comparison: &Comparison) -> Legend {
    let tables = exit_runs(&comparison.rows).map(|(_, run)| &run.table);
    let table_legend = exits::legend(tables);
    let host = has_host(&comparison.rows).then_some([
        ("host", "one operation in a process of the host itself"),
        ("guest", "the same in the guest, with all that the host does for it"),
        ("bare metal %", "host in percent of guest"),
    ]);
    let range = "the shortest and the longest time over all layouts, against the one that is shown";
    Legend::new(table_legend.sentences)
        .with([("time", "all vCPUs, in the guest and out of it"), ("range %", range)])
        .with(host.into_iter().flatten())
        .with(table_legend.terms)
}

pub const HEADS: [&str; 2] = ["guest's kernel", "what it is"];

/// Describes the guests; one line where there is no change.
pub fn sides(plan: &GuestsPlan) -> Vec<SideLine> {
    let shows = side_parts(plan);
    let line = |side: Side| {
        let guest = plan.asked.side(side)?;
        let what = match &guest.kernel {
            Some(kernel) if shows.has_kernel => kernel.name().to_owned(),
            _ => "a guest without a kernel".to_owned(),
        };
        Some(SideLine { side: side.name(), what, beside: beside_kernel(guest, shows) })
    };
    Side::BOTH.into_iter().filter_map(line).collect()
}

#[derive(Clone, Copy)]
struct SideParts {
    has_kernel: bool,
    has_machine: bool,
}

/// Returns the parts to show. Raw guests boot none of the kernel that the experiment names, look
/// for none of KVM's features, and have a machine of their own. On a board, the kernel is that of
/// the host.
fn side_parts(plan: &GuestsPlan) -> SideParts {
    let boots = plan.asked.rows.iter().any(|row| !matches!(row.work, GuestWork::Raw { .. }));
    SideParts { has_kernel: boots || plan.asked.host.is_board(), has_machine: boots }
}

/// Describes a guest beside its kernel: `1 vCPU, 256 MiB, without kvmclock kvm-pv-eoi, nopti`.
fn beside_kernel(guest: &GuestSide, shows: SideParts) -> String {
    let subject = &guest.subject;
    let kernel = subject.kernel.as_ref().filter(|_| shows.has_kernel);
    let mut parts = Vec::new();
    if shows.has_machine {
        parts.push(counted(subject.cpus.into(), "vCPU"));
        parts.push(format!("{} MiB", number::whole(subject.memory_mib.into())));
    }
    if shows.has_kernel && !subject.without.is_empty() {
        parts.push(format!("without {}", subject.without.join(" ")));
    }
    let beside = kernel.map(|kernel| kernel.beside_kernel());
    parts.extend(beside.filter(|beside| !beside.is_empty()));
    parts.join(", ")
}

/// Describes the measurement: `exact · QEMU 7.2.22 · KVM of 6.1.0-56-cloud-amd64 · 5 layouts`.
pub fn how(plan: &GuestsPlan) -> String {
    let beside = plan.asked.host_subject.beside_kernel();
    let kernel = format!(": KVM of {} {beside}", plan.host_kernel.name());
    // On a board, a side's kernel is its host's.
    let has_side_kernels = plan.asked.host.is_board() && plan.asked.base.kernel.is_some();
    let kernel = if has_side_kernels { "" } else { kernel.trim_end() };
    format!(
        "{} · QEMU {} · host {}{kernel} · {}",
        plan.key.engine,
        plan.key.qemu,
        plan.asked.host.name(),
        counted(plan.layouts.len(), "layout")
    )
}

/// Returns one line for each row and Metric; without a change one line for each row, with the time
/// by layout.
pub fn records(comparison: &Comparison, guests: &GuestsComparison) -> Records {
    match guests.plan.asked.change {
        Some(_) => effect::records(&comparison.rows, |metric| metric_unit(metric).to_owned()),
        None => alone_records(&comparison.rows),
    }
}

fn metric_unit(metric: &str) -> &'static str {
    match metric {
        TIME | GUEST_TIME => "ns",
        EXITS => "exits",
        _ => "",
    }
}

type RowValue = fn(&Row) -> Value;

/// Columns before the times by layout.
const RECORD_COLUMNS: [(&str, RowValue); 9] = [
    ("workload", |row| (&row.row).into()),
    ("operation", |row| (&row.operation).into()),
    ("ops", |row| row.ops.into()),
    ("verdict", |row| row.verdict.text().into()),
    ("exits", |row| base_run(row).map(|run| run.table.exits()).into()),
    ("time_ns", |row| base_run(row).map(|run| run.table.sum_ns()).into()),
    ("host_ns", |row| row.effect(GUEST_TIME).map(|effect| effect.base).into()),
    ("guest_ns", |row| row.effect(GUEST_TIME).map(|effect| effect.change).into()),
    ("failures", |row| row.failed_boots().into()),
];

fn alone_records(rows: &[Row]) -> Records {
    let times = |row: &Row| row.guests().map_or(Vec::new(), |guests| guests.times_ns.base.clone());
    let layouts = rows.iter().map(|row| times(row).len()).max().unwrap_or(0);
    let numbered = (0..layouts).map(|layout| format!("time_ns_{layout}"));
    let fixed = RECORD_COLUMNS.map(|(name, _)| name.to_owned());
    let mut records = Records::new(fixed.into_iter().chain(numbered));
    for row in rows {
        let fixed = RECORD_COLUMNS.map(|(_, cell)| cell(row));
        records.push(fixed.into_iter().chain(times(row).into_iter().map(Value::from)));
    }
    records
}

const ALONE_COLUMNS: [(&str, Kind); 8] = [
    ("workload", Kind::Row),
    ("exits", Kind::Number),
    ("time µs", Kind::Number),
    ("range %", Kind::Number),
    ("host ns", Kind::Number),
    ("guest ns", Kind::Number),
    ("bare metal %", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// Table with one line for each row: the exits, their time, and the guest beside its host where
/// that did the same work.
fn alone_table(rows: &[Row]) -> Table {
    let gives_way = vec![vec![3], vec![4, 5]];
    let table = Table { gives_way, ..Table::new(ALONE_COLUMNS) }.with(rows.iter().map(alone_line));
    match has_host(rows) {
        true => table,
        false => table.without(&[4, 5, 6]),
    }
}

/// Answer without a change: where the time of all rows went, and how much of its host's speed a
/// guest keeps.
fn alone_headline(rows: &[Row]) -> String {
    let tables: Vec<_> = exit_runs(rows).map(|(_, run)| &run.table).collect();
    let mut sentence = exits::headline(tables);
    let host_share = |row: &Row| {
        let effect = row.effect(GUEST_TIME)?;
        Some(share_percent(effect.base, effect.change))
    };
    let shares: Vec<f64> = rows.iter().filter_map(host_share).collect();
    let ends = shares.iter().copied().reduce(f64::min).zip(shares.iter().copied().reduce(f64::max));
    if let Some((least, most)) = ends {
        let [least, most] = [least, most].map(|share| format!("{share:.1}"));
        let range = if least == most { least } else { format!("{least} to {most}") };
        sentence += &format!("; the guest has {range} % of bare metal's speed");
    }
    let failed = rows.iter().filter(|row| row.verdict == Verdict::Failed).count();
    if failed > 0 {
        sentence += &format!("; {failed} of {} failed", counted(rows.len(), "row"));
    }
    sentence.trim_start_matches("; ").to_owned()
}

/// Tells whether any row has the host itself to be compared with.
fn has_host(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.effect(GUEST_TIME).is_some())
}

fn alone_line(row: &Row) -> Line {
    let [exits, time, range] = row.guests().and_then(exit_cells).unwrap_or_default();
    let host_effect = row.effect(GUEST_TIME);
    let [host, guest, share] = host_effect.map_or_else(Default::default, |effect| {
        let share = format!("{:.1}", share_percent(effect.base, effect.change));
        [number::measured(effect.base), number::measured(effect.change), share]
    });
    let verdict = Cell::verdict(row.verdict, "");
    Line::new([row.row.clone(), exits, time, range, host, guest, share]).and(verdict)
}

/// Cells of a row: the exits, their time in the layout that is shown, and the range over all
/// layouts in percent of it.
fn exit_cells(guests: &GuestsEvidence) -> Option<[String; 3]> {
    let table = &guests.runs.base.as_ref()?.table;
    let time = table.sum_ns() as f64;
    let percent = |ns: Option<&u64>| change_percent(time, *ns? as f64);
    let all = &guests.times_ns.base;
    let range = match all.is_empty() {
        true => String::new(),
        false => number::percent_range(percent(all.iter().min()), percent(all.iter().max())),
    };
    Some([number::whole(table.exits() as f64), number::measured(time / number::US), range])
}

/// Tables of where each row's time went, in the layout that is shown.
fn alone_tables(rows: &[Row]) -> impl Iterator<Item = Section> {
    exit_runs(rows).flat_map(|(row, run)| {
        let by = match run.table.rows_are {
            ExitRows::Phases => "phase",
            ExitRows::Reasons | ExitRows::Accesses => "exit reason",
        };
        exits::sections(&format!("{}, by {by} (1 µs is 1 000 instructions)", row.row), &run.table)
    })
}

fn exit_runs(rows: &[Row]) -> impl Iterator<Item = (&Row, &ExitRun)> {
    rows.iter().filter_map(|row| Some((row, base_run(row)?)))
}

fn base_run(row: &Row) -> Option<&ExitRun> {
    row.guests()?.runs.base.as_ref()
}

const COMPARED_COLUMNS: [(&str, Kind); 9] = [
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

/// Table with one line for each row: the exits, and the time that decides.
fn compared_table(rows: &[Row]) -> Table {
    // The range and the MDE first; the exits are in the tables of reasons.
    let gives_way = vec![vec![6], vec![7], vec![1, 2], vec![3]];
    Table { gives_way, ..Table::new(COMPARED_COLUMNS) }.with(rows.iter().map(compared_line))
}

fn compared_line(row: &Row) -> Line {
    let effect = |metric: &str| row.effect(metric);
    let [base, change] = both_shown(effect(EXITS), number::whole);
    let [base_us, change_us] = both_shown(effect(TIME), |ns| number::measured(ns / number::US));
    let [delta, range, detectable] = match effect(TIME) {
        None => <[String; 3]>::default(),
        Some(effect) => [
            number::percent(effect.percent),
            effect::over_layouts(effect),
            effect::detectable(effect),
        ],
    };
    let cells = [row.row.clone(), base, change, base_us, change_us, delta, range, detectable];
    Line::new(cells).and(Cell::verdict(row.verdict, ""))
}

fn both_shown(effect: Option<&Effect>, shown: impl Fn(f64) -> String) -> [String; 2] {
    effect.map(|effect| [shown(effect.base), shown(effect.change)]).unwrap_or_default()
}

/// Tables of what changed reason by reason in each row, in the layout with the median change of
/// time.
fn compared_tables(rows: &[Row]) -> impl Iterator<Item = Section> {
    let with_runs = rows.iter().filter_map(|row| Some((row, both_runs(row.guests()?)?)));
    with_runs.map(|(row, [base, change])| Section::Table {
        title: format!("{}, by exit reason (1 µs is 1 000 instructions)", row.row),
        // Both sides did the same work.
        table: exits::reasons_table(&base.table, &change.table, Scale::Totals),
        notes: Vec::new(),
    })
}

fn compared_details(rows: &[Row]) -> Section {
    let detail = |row: &Row| {
        let sides = row.guests().and_then(both_runs).map(|[base, change]| {
            exits::bars([("base".to_owned(), &base.table), ("change".to_owned(), &change.table)])
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

fn both_runs(guests: &GuestsEvidence) -> Option<[&ExitRun; 2]> {
    Some([guests.runs.base.as_ref()?, guests.runs.change.as_ref()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    use ktax_model::{GuestSubject, Subject};

    #[test]
    fn features_stand_only_where_a_guest_looks_for_them() {
        let kernel = Some(Subject::new("debian:cloud-amd64", ""));
        let without = vec!["kvmclock".to_owned()];
        let subject = GuestSubject { kernel, without, cpus: 1, memory_mib: 256 };
        let guest = GuestSide { subject, kernel: None };
        let shown =
            |has_kernel, has_machine| beside_kernel(&guest, SideParts { has_kernel, has_machine });
        assert_eq!(shown(false, false), "");
        assert_eq!(shown(true, true), "1 vCPU, 256 MiB, without kvmclock");
        // A board's raw guests do, or do not, find its page.
        assert_eq!(shown(true, false), "without kvmclock");
    }
}
