use crate::exits::{self, sections};
use crate::number;
use crate::view::{Cell, Kind, Line, Section, Table};
use ktax_host::text::counted;
use ktax_model::{ExitRows, ExitRun, GUEST_TIME, GuestsEvidence, Row, Verdict};
use ktax_stats::tables::{change_percent, share_percent};

const COLUMNS: [(&str, Kind); 8] = [
    ("workload", Kind::Row),
    ("exits", Kind::Number),
    ("time µs", Kind::Number),
    ("range %", Kind::Number),
    ("host ns", Kind::Number),
    ("guest ns", Kind::Number),
    ("bare metal %", Kind::Number),
    ("verdict", Kind::Verdict),
];

/// One line for each row: the exits, their time, and the guest beside its host where that did the
/// same work.
pub fn table(rows: &[Row]) -> Table {
    let gives_way = vec![vec![3], vec![4, 5]];
    let table = Table { gives_way, ..Table::of(COLUMNS) }.with(rows.iter().map(line));
    match has_host(rows) {
        true => table,
        false => table.without(&[4, 5, 6]),
    }
}

/// Where the time of all rows went, and how much of its host's speed a guest keeps.
pub fn headline(rows: &[Row]) -> String {
    let tables: Vec<_> = runs(rows).map(|(_, run)| &run.table).collect();
    let mut said = exits::headline(tables);
    let of_host = |row: &Row| {
        let effect = row.effect(GUEST_TIME)?;
        Some(share_percent(effect.base, effect.change))
    };
    let shares: Vec<f64> = rows.iter().filter_map(of_host).collect();
    let ends = shares.iter().copied().reduce(f64::min).zip(shares.iter().copied().reduce(f64::max));
    if let Some((least, most)) = ends {
        let [least, most] = [least, most].map(|share| format!("{share:.1}"));
        let range = if least == most { least } else { format!("{least} to {most}") };
        said += &format!("; the guest has {range} % of bare metal's speed");
    }
    let failed = rows.iter().filter(|row| row.verdict == Verdict::Failed).count();
    if failed > 0 {
        said += &format!("; {failed} of {} failed", counted(rows.len(), "row"));
    }
    said.trim_start_matches("; ").to_owned()
}

/// Whether a row has the host itself to be compared with.
pub fn has_host(rows: &[Row]) -> bool {
    rows.iter().any(|row| row.effect(GUEST_TIME).is_some())
}

fn line(row: &Row) -> Line {
    let [exits, time, range] = row.guests().and_then(times).unwrap_or_default();
    let of_host = row.effect(GUEST_TIME);
    let [host, guest, share] = of_host.map_or_else(Default::default, |of| {
        let share = format!("{:.1}", share_percent(of.base, of.change));
        [number::measured(of.base), number::measured(of.change), share]
    });
    let verdict = Cell::verdict(row.verdict, "");
    Line::of([row.row.clone(), exits, time, range, host, guest, share]).and(verdict)
}

/// The exits, their time in the layout that is shown, and that of all layouts in percent of it.
fn times(guests: &GuestsEvidence) -> Option<[String; 3]> {
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

/// For each row where its time went, in the layout that is shown.
pub fn tables(rows: &[Row]) -> impl Iterator<Item = Section> {
    runs(rows).flat_map(|(row, run)| {
        let by = match run.table.rows_are {
            ExitRows::Phases => "phase",
            ExitRows::Reasons | ExitRows::Accesses => "exit reason",
        };
        sections(&format!("{}, by {by} (1 µs is 1 000 instructions)", row.row), &run.table)
    })
}

/// The rows with an exit table.
pub fn runs(rows: &[Row]) -> impl Iterator<Item = (&Row, &ExitRun)> {
    rows.iter().filter_map(|row| Some((row, row.guests()?.runs.base.as_ref()?)))
}
