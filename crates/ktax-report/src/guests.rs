//! Reports of comparisons of guests of a KVM host.

use crate::exits::ExitScale;
use crate::view::{
    Cell, Columns, Details, Fields, Legend, Records, RowDetail, Section, SideLine, Table, View,
};
use crate::{changes, effect, exits, number, pictures, words};
use ktax_host::text::counted;
use ktax_model::{
    Comparison, EXITS, Effect, ExitRows, ExitRun, ExitTable, GUEST_TIME, GuestSide, GuestWork,
    GuestsComparison, GuestsEvidence, GuestsPlan, Row, Side, TIME, Verdict,
};
use ktax_stats::tables::{checked_percent_change, share_percent};

/// Note below the first table: the unit of time holds for this simulated host only.
const TIME_NOTE: &str = "1 µs is 1 000 instructions of the host's one CPU: the host counts \
                         instructions, not time.";

/// Builds the page: the table, failures, and where each row's time went.
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
                .push(exits::bars(base_tables(rows).map(|(row, table)| (row.row.clone(), table))));
            sections.extend(alone_tables(rows));
            sections.push(exits::remarks(base_tables(rows).map(|(_, table)| table)));
        }
        false => {
            sections.push(Section::Rows);
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
    .with_terms(words::over_layouts(comparison.threshold_percent, layouts))
}

fn alone_legend(comparison: &Comparison) -> Legend {
    let tables = base_tables(&comparison.rows).map(|(_, table)| table);
    let table_legend = exits::legend(tables);
    let host = has_host(&comparison.rows).then_some([
        ("host", "time of one operation in a process of the host"),
        ("guest", "time of one operation in the guest, including the host's work for the guest"),
        ("bare metal %", "time in the host in percent of time in the guest"),
    ]);
    let range = "the shortest and the longest time over all layouts, against the time shown";
    Legend::new(table_legend.sentences)
        .with_terms([("time", "all vCPUs, in the guest and out of it"), ("range %", range)])
        .with_terms(host.into_iter().flatten())
        .with_terms(table_legend.terms)
}

/// Heads of the columns of sides.
pub const HEADS: [&str; 2] = ["guest's kernel", "settings"];

/// Returns a line for each guest: base and change, or base only.
pub fn sides(plan: &GuestsPlan) -> Vec<SideLine> {
    let parts = guest_parts(plan);
    let line = |side: Side| {
        let guest = plan.asked.side(side)?;
        let name = match &guest.kernel {
            Some(kernel) if parts.has_kernel => kernel.name().to_owned(),
            _ => "a guest without a kernel".to_owned(),
        };
        Some(SideLine { side: side.name(), name, settings: settings(guest, parts) })
    };
    Side::BOTH.into_iter().filter_map(line).collect()
}

/// Parts of the description of a guest.
#[derive(Clone, Copy)]
struct GuestParts {
    has_kernel: bool,
    has_machine: bool,
}

/// Returns the parts to show. If all guests are raw guests, they boot no kernel, use no features of
/// KVM and have their own machine. On a board, the kernel of a side is the host's.
fn guest_parts(plan: &GuestsPlan) -> GuestParts {
    let boots = plan.asked.rows.iter().any(|row| !matches!(row.work, GuestWork::Raw { .. }));
    GuestParts { has_kernel: boots || plan.asked.host.is_board(), has_machine: boots }
}

/// Describes a guest without its kernel: `1 vCPU, 256 MiB, without kvmclock kvm-pv-eoi, nopti`.
fn settings(guest: &GuestSide, parts: GuestParts) -> String {
    let subject = &guest.subject;
    let kernel = subject.kernel.as_ref().filter(|_| parts.has_kernel);
    let mut texts = Vec::new();
    if parts.has_machine {
        texts.push(counted(subject.cpus.into(), "vCPU"));
        texts.push(format!("{} MiB", number::whole(subject.memory_mib.into())));
    }
    if parts.has_kernel && !subject.hidden_features.is_empty() {
        texts.push(format!("without {}", subject.hidden_features.join(" ")));
    }
    let boot_line = kernel.map(|kernel| kernel.variant_text());
    texts.extend(boot_line.filter(|boot_line| !boot_line.is_empty()));
    texts.join(", ")
}

/// Describes the measurement: `exact · QEMU 7.2.22 · KVM of 6.1.0-56-cloud-amd64 · 5 layouts`.
pub fn how(plan: &GuestsPlan) -> String {
    let boot_line = plan.asked.host_subject.variant_text();
    let kernel = format!(": KVM of {} {boot_line}", plan.host_kernel.name());
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

/// Returns one line for each row and Metric. Without a change, returns one line for each row, with
/// the times of all layouts.
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

fn alone_records(rows: &[Row]) -> Records {
    let rows: Vec<&Row> = rows.iter().collect();
    fn times(row: &Row) -> &[u64] {
        row.guests().map_or(&[], |guests| &guests.times_ns.base)
    }
    let layouts = rows.iter().map(|row| times(row).len()).max().unwrap_or(0);
    let mut fields = Fields::new(&rows);
    fields.add("workload", |row| &row.row);
    fields.add("operation", |row| &row.operation);
    fields.add("ops", |row| row.ops);
    fields.add("verdict", |row| row.verdict.text());
    fields.add("exits", |row| base_table(row).map(ExitTable::exits));
    fields.add("time_ns", |row| base_table(row).map(ExitTable::sum_ns));
    fields.add("host_ns", |row| row.effect(GUEST_TIME).map(|effect| effect.base));
    fields.add("guest_ns", |row| row.effect(GUEST_TIME).map(|effect| effect.change));
    fields.add("failures", |row| row.failed_boots());
    for layout in 0..layouts {
        fields.add(format!("time_ns_{layout}"), |row| times(row).get(layout).copied());
    }
    fields.records()
}

/// Table with one line for each row: the exits and their time, and the times of host and guest if
/// the host did the same work.
fn alone_table(rows: &[Row]) -> Table {
    let has_host = has_host(rows);
    let line = |row| (row, base_table(row), row.effect(GUEST_TIME));
    let lines: Vec<ExitsAndHost<'_>> = rows.iter().map(line).collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |(row, ..)| &row.row);
    columns.number("exits", |(_, table, _)| table.map(|t| number::whole(t.exits() as f64)));
    columns.number("time µs", |(_, table, _)| table.map(|t| us(t.sum_ns() as f64)));
    let range = |row: &Row, table: &ExitTable| times_range(row, table.sum_ns() as f64);
    columns.number("range %", |(row, table, _)| table.and_then(|t| range(row, t))).drop_order(0);
    let host = |(.., effect): ExitsAndHost<'_>| effect.map(|effect| number::measured(effect.base));
    columns.number("host ns", host).drop_order(1).keep_if(has_host);
    let guest =
        |(.., effect): ExitsAndHost<'_>| effect.map(|effect| number::measured(effect.change));
    columns.number("guest ns", guest).drop_order(1).keep_if(has_host);
    let share = |effect: &Effect| format!("{:.1}", share_percent(effect.base, effect.change));
    columns.number("bare metal %", |(.., effect)| effect.map(share)).keep_if(has_host);
    columns.verdict(|(row, ..)| row.verdict);
    columns.table()
}

/// Row, its exits, and the Effect with the times of host and guest.
type ExitsAndHost<'a> = (&'a Row, Option<&'a ExitTable>, Option<&'a Effect>);

fn us(ns: f64) -> String {
    number::measured(ns / number::US)
}

/// Range of the time over all layouts, in percent of the time that is shown.
fn times_range(row: &Row, shown_ns: f64) -> Option<String> {
    let times = &row.guests()?.times_ns.base;
    let percent = |ns: &u64| checked_percent_change(shown_ns, *ns as f64);
    Some(number::percent_range(percent(times.iter().min()?), percent(times.iter().max()?)))
}

/// Headline without a change: where the time of all rows went, and the guest's speed in percent of
/// the host's.
fn alone_headline(rows: &[Row]) -> String {
    let tables: Vec<_> = base_tables(rows).map(|(_, table)| table).collect();
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

/// Tells whether any row was also measured in the host.
fn has_host(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.effect(GUEST_TIME).is_some())
}

/// Tables of where each row's time went, in the layout that is shown.
fn alone_tables(rows: &[Row]) -> impl Iterator<Item = Section> {
    base_tables(rows).flat_map(|(row, table)| {
        let by = match table.rows_are {
            ExitRows::Phases => "phase",
            ExitRows::Reasons | ExitRows::Accesses => "exit reason",
        };
        exits::sections(&format!("{}, by {by} (1 µs is 1 000 instructions)", row.row), table)
    })
}

fn base_tables(rows: &[Row]) -> impl Iterator<Item = (&Row, &ExitTable)> {
    rows.iter().filter_map(|row| Some((row, base_table(row)?)))
}

fn base_table(row: &Row) -> Option<&ExitTable> {
    Some(&row.guests()?.runs.base.as_ref()?.table)
}

/// Table with one line for each row: the exits, and the time, which decides. A narrow page leaves
/// out the range, the MDE, then the exits, which are also in the tables of reasons.
fn compared_table(rows: &[Row]) -> Table {
    let lines: Vec<(&Row, Option<&Effect>, Option<&Effect>)> =
        rows.iter().map(|row| (row, row.effect(EXITS), row.effect(TIME))).collect();
    let mut columns = Columns::new(&lines);
    columns.row("workload", |(row, ..)| &row.row);
    columns
        .number("exits base", |(_, exits, _)| exits.map(|e| number::whole(e.base)))
        .drop_order(2);
    columns
        .number("exits change", |(_, exits, _)| exits.map(|e| number::whole(e.change)))
        .drop_order(2);
    columns.number("base µs", |(.., time)| time.map(|time| us(time.base))).drop_order(3);
    columns.number("change µs", |(.., time)| time.map(|time| us(time.change)));
    columns.number("delta %", |(.., time)| time.map(|time| number::percent(time.percent)));
    columns.number("range %", |(.., time)| time.map(effect::over_layouts)).drop_order(0);
    columns.number("MDE %", |(.., time)| time.map(effect::detectable)).drop_order(1);
    columns.verdict(|(row, ..)| row.verdict);
    columns.table()
}

/// Tables with the changes by exit reason, one for each row, in the layout with the median change
/// of time.
fn compared_tables(rows: &[Row]) -> impl Iterator<Item = Section> {
    let with_runs = rows.iter().filter_map(|row| Some((row, both_runs(row.guests()?)?)));
    with_runs.map(|(row, [base, change])| Section::Table {
        title: format!("{}, by exit reason (1 µs is 1 000 instructions)", row.row),
        // Both sides did the same work.
        table: exits::reasons_table(&base.table, &change.table, ExitScale::Totals),
        notes: Vec::new(),
    })
}

/// Details of the rows of a comparison. A page without a change has no details.
pub fn details(rows: &[Row]) -> Details {
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
    Details { rows: rows.iter().map(detail).collect(), how: String::new() }
}

fn both_runs(guests: &GuestsEvidence) -> Option<[&ExitRun; 2]> {
    Some([guests.runs.base.as_ref()?, guests.runs.change.as_ref()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    use ktax_model::{GuestSubject, Subject};

    #[test]
    fn missing_features_are_shown_for_guests_with_a_kernel() {
        let kernel = Some(Subject::new("debian:cloud-amd64", ""));
        let hidden_features = vec!["kvmclock".to_owned()];
        let subject = GuestSubject { kernel, hidden_features, cpus: 1, memory_mib: 256 };
        let guest = GuestSide { subject, kernel: None };
        let shown =
            |has_kernel, has_machine| settings(&guest, GuestParts { has_kernel, has_machine });
        assert_eq!(shown(false, false), "");
        assert_eq!(shown(true, true), "1 vCPU, 256 MiB, without kvmclock");
        // A board's raw guests show the host's kernel and features, but have no machine to show.
        assert_eq!(shown(true, false), "without kvmclock");
    }
}
