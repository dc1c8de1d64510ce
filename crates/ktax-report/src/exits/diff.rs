//! Two exit tables, compared reason by reason.

use crate::exits::headline::diff_headline;
use crate::exits::tables::{bars, reason_table};
use crate::exits::title;
use crate::number;
use crate::view::{Legend, Line, Records, Report, Section, SideLine, Table, View};
use ktax_model::{ExitPair, ExitRow, ExitTable, SavedResult, exit_warnings};
use ktax_stats::tables::change_percent;

#[derive(Debug, Clone, Copy)]
pub struct ExitDiff<'a>(pub &'a ExitPair);

impl ExitDiff<'_> {
    fn scale(&self) -> Scale {
        Scale::new(&self.0.base, &self.0.change, self.0.totals)
    }
}

fn diff_title(base: &ExitTable, change: &ExitTable) -> String {
    let is_timed = base.is_timed() && change.is_timed();
    let by = if is_timed { "time" } else { "count" };
    format!("Exits by reason, largest change in {by} first")
}

/// Sentence that says what the numbers are, and how to get the others.
fn scale_sentence(pair: &ExitPair, scale: Scale) -> String {
    match scale {
        Scale::Seconds([base, change]) => format!(
            "Times and counts are normalised: they are for each second of the recording. The base \
             has {} s, and the change has {} s. If both did the same work, compare totals with \
             --totals.",
            number::measured(base),
            number::measured(change)
        ),
        Scale::Totals if pair.totals => {
            "Times and counts are totals, as if both recordings did the same work.".to_owned()
        }
        Scale::Totals => "Times and counts are totals, because a table does not say how long was \
                          recorded. They only compare if both did the same work."
            .to_owned(),
    }
}

impl Report for ExitDiff<'_> {
    fn view(&self) -> View {
        let (ExitPair { base, change, .. }, scale) = (self.0, self.scale());
        let side = |side, table: &ExitTable| {
            let beside =
                table.elapsed_s().map(|seconds| format!("{} s", number::measured(seconds)));
            SideLine { side, what: title(table), beside: beside.unwrap_or_default() }
        };
        let sides = vec![side("base", base), side("change", change)];
        let has_lengths = sides.iter().any(|side| !side.beside.is_empty());
        View {
            title: diff_title(base, change),
            headline: diff_headline(base, change, scale),
            sides,
            side_heads: ["exits of", if has_lengths { "recorded" } else { "" }],
            sections: vec![
                bars([("base".to_owned(), base), ("change".to_owned(), change)]),
                Section::Table {
                    title: String::new(),
                    table: reasons_table(base, change, scale),
                    notes: vec![scale_sentence(self.0, scale)],
                },
            ],
            warnings: exit_warnings([base, change]),
            legend: Legend::default().with([
                ("time delta %", "change minus base, in percent of base, of a reason's whole time"),
                ("count delta %", "the same of how often it was"),
            ]),
            ..View::default()
        }
    }

    fn records(&self) -> Records {
        let columns = [
            "reason",
            "base_count",
            "change_count",
            "base_ns",
            "change_ns",
            "base_elapsed_ns",
            "change_elapsed_ns",
            "percent",
        ];
        let ExitPair { base, change, .. } = self.0;
        let (scale, lengths) = (self.scale(), [base.elapsed_ns, change.elapsed_ns]);
        let mut records = Records::new(columns);
        for (reason, base, change) in reason_pairs(base, change, scale) {
            let percent = base.1.zip(change.1).and_then(|(base, change)| {
                let [base, change] = scale.apply([base as f64, change as f64]);
                change_percent(base, change)
            });
            records.push([
                reason.into(),
                base.0.into(),
                change.0.into(),
                base.1.into(),
                change.1.into(),
                lengths[0].into(),
                lengths[1].into(),
                percent.into(),
            ]);
        }
        records
    }

    fn result(&self) -> SavedResult {
        SavedResult::ExitDiff(Box::new(self.0.clone()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Counts and times as they were recorded.
    Totals,
    /// Counts and times by second; the lengths of base and change, s.
    Seconds([f64; 2]),
}

impl Scale {
    /// Scales by seconds if both tables have a length, unless totals are wanted.
    pub fn new(base: &ExitTable, change: &ExitTable, totals: bool) -> Scale {
        match base.elapsed_s().zip(change.elapsed_s()) {
            Some((base, change)) if !totals => Scale::Seconds([base, change]),
            _ => Scale::Totals,
        }
    }

    pub fn apply(self, values: [f64; 2]) -> [f64; 2] {
        match self {
            Scale::Totals => values,
            Scale::Seconds([base, change]) => [values[0] / base, values[1] / change],
        }
    }

    /// Unit of a scaled value behind a blank: ` µs/s`; empty where there is none.
    pub fn unit(self, unit: &str) -> String {
        let per = if self == Scale::Totals { "" } else { "/s" };
        let unit = format!("{unit}{per}");
        if unit.is_empty() { unit } else { format!(" {unit}") }
    }
}

/// Count and total time, ns, where that was measured.
type CountAndSum = (u64, Option<u64>);

/// Name of a reason, its count and time in the base and in the change.
type ReasonPair<'a> = (&'a str, CountAndSum, CountAndSum);

/// Total time of a reason, ns; KVM's statistics have it for halts alone.
pub fn reason_time_ns(table: &ExitTable, reason: &str) -> Option<u64> {
    let row = table.row(reason);
    let is_measured = table.is_timed() || row.is_some_and(ExitRow::is_timed);
    is_measured.then(|| row.map_or(0, ExitRow::time_ns))
}

/// Returns every reason of one of the tables, the one whose time changed most first; without times,
/// the one whose count did.
fn reason_pairs<'a>(
    base: &'a ExitTable,
    change: &'a ExitTable,
    scale: Scale,
) -> Vec<ReasonPair<'a>> {
    let only_there = change.rows.iter().filter(|row| base.row(&row.reason).is_none());
    let names = base.rows.iter().chain(only_there).map(|row| row.reason.as_str());
    let count_and_sum = |table: &ExitTable, reason: &str| -> CountAndSum {
        (table.row(reason).map_or(0, |row| row.count), reason_time_ns(table, reason))
    };
    let mut rows: Vec<ReasonPair<'a>> = names
        .map(|reason| (reason, count_and_sum(base, reason), count_and_sum(change, reason)))
        .collect();
    rows.retain(|(_, base, change)| base.0 > 0 || change.0 > 0);
    let moved = |(_, base, change): &ReasonPair<'_>| {
        let difference = |values: [u64; 2]| {
            let [base, change] = scale.apply(values.map(|value| value as f64));
            (base - change).abs()
        };
        let time = base.1.zip(change.1).map_or(0.0, |(base, change)| difference([base, change]));
        (time, difference([base.0, change.0]))
    };
    let by_move = |pair: &ReasonPair<'_>, other: &ReasonPair<'_>| {
        let ((time, count), (other_time, other_count)) = (moved(pair), moved(other));
        other_time.total_cmp(&time).then(other_count.total_cmp(&count))
    };
    rows.sort_by(by_move);
    rows
}

/// Table of the reasons and of all together: the time, which decides, and the count.
pub fn reasons_table(base: &ExitTable, change: &ExitTable, scale: Scale) -> Table {
    let shown = if scale == Scale::Totals { number::whole } else { number::measured };
    let columns = |values: [Option<f64>; 2]| {
        let [Some(base), Some(change)] = values else {
            let [base, change] = scale.apply(values.map(Option::unwrap_or_default));
            let only = |value: Option<f64>, scaled| value.map_or(String::new(), |_| shown(scaled));
            return [only(values[0], base), only(values[1], change), String::new()];
        };
        let [base, change] = scale.apply([base, change]);
        [shown(base), shown(change), number::percent(change_percent(base, change))]
    };
    let cells = |(name, base, change): ReasonPair<'_>| {
        let times = columns([base.1, change.1].map(|ns| Some(ns? as f64 / number::US)));
        let counts = columns([base.0, change.0].map(|count| Some(count as f64)));
        Line::new([name.to_owned()].into_iter().chain(times).chain(counts))
    };
    // A stay in the guest after an exit is no second exit.
    let whole = |table: &ExitTable| (table.exits(), table.is_timed().then(|| table.sum_ns()));
    let all = ("all", whole(base), whole(change));
    let [time, count] = [scale.unit("µs"), scale.unit("")];
    let count = if count.is_empty() { " count".to_owned() } else { count };
    let heads = [
        format!("base{time}"),
        format!("change{time}"),
        "time delta %".to_owned(),
        format!("base{count}"),
        format!("change{count}"),
        "count delta %".to_owned(),
    ];
    // Counts go first, for their delta stays; the base goes last.
    let gives_way = vec![vec![4, 5], vec![6], vec![1]];
    let rows: Vec<ReasonPair<'_>> =
        reason_pairs(base, change, scale).into_iter().chain([all]).collect();
    let has_times = rows.iter().any(|(_, base, change)| base.1.or(change.1).is_some());
    let lines = rows.into_iter().map(cells);
    let heads = reason_table(&heads.each_ref().map(String::as_str));
    let table = Table { gives_way, ..heads }.with(lines);
    if has_times { table } else { table.without(&[1, 2, 3]) }
}
