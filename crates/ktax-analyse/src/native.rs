//! Results of runs on this machine: derived columns of native workloads, the table of a command's
//! counters, and differences between two traces of system calls.

use std::collections::{BTreeMap, BTreeSet};

use crate::effect::{RowCost, growth_of_families};
use ktax_model::{
    ELAPSED, Growth, MedianInterval, NativeColumn, NativeRow, NativeSample, NativeTable, Repeats,
    STAT_COUNTERS, StatChange, StatCount, StatCounter, StatCounts, StatRow, Summary, TracedCall,
    Workload,
};
use ktax_stats::repeats::{median_interval, paired_change};
use ktax_stats::tables::{
    contest_ratio, jobs_per_minute, mean, median, per_process_per_page, share_percent,
    spread_percent, timing_index,
};

/// Derives the named columns and the growth of rows. Columns without a value in any row are left
/// out.
pub fn derive_columns(table: &mut NativeTable, names: &[String]) {
    let rows = table.rows.clone();
    let row_cell = |column: &Column, row: &NativeRow| cell(column, row, &rows);
    let mut columns: Vec<&Column> = names.iter().filter_map(|name| find_column(name)).collect();
    columns.retain(|column| table.rows.iter().any(|row| row_cell(column, row).is_some()));
    for row in &mut table.rows {
        row.cells = columns.iter().map(|column| row_cell(column, row)).collect();
    }
    table.columns = columns.into_iter().map(column_head).collect();
    table.growth = growth_of_rows(&table.rows);
}

/// Growth of the median time of an operation.
fn growth_of_rows(rows: &[NativeRow]) -> Vec<Growth> {
    let cost = |row: &NativeRow| {
        let times = row.samples.iter().filter_map(|sample| sample.values.get("nanoseconds"));
        let times: Vec<f64> = times.map(|time| *time as f64 / row.workload.ops as f64).collect();
        median(&times)
    };
    let costs = rows.iter().filter_map(|row| {
        let layouts = Vec::new();
        Some(RowCost { workload: &row.workload, shown: cost(row)?, layouts })
    });
    growth_of_families(&costs.collect::<Vec<_>>(), None)
}

/// Summary of a column's values over the Samples of a row; `None` if no Sample has a value.
fn cell(column: &Column, row: &NativeRow, rows: &[NativeRow]) -> Option<Summary> {
    let workload = &row.workload;
    let points = row.samples.iter().map(|sample| SamplePoint { workload, sample, rows });
    let samples: Vec<f64> =
        points.filter_map(|point| (column.value)(&point)).filter(|v| v.is_finite()).collect();
    Some(Summary {
        median: median(&samples)?,
        least: samples.iter().copied().reduce(f64::min)?,
        most: samples.iter().copied().reduce(f64::max)?,
        samples,
    })
}

/// Columns of a Workload whose definition names no columns.
pub fn default_columns(bandwidth: bool) -> Vec<String> {
    vec![if bandwidth { "bandwidth" } else { "time" }.to_owned()]
}

/// Returns true if a column has this name. Definitions may name only such columns, which a test
/// checks, because unknown names are left out.
pub fn is_column(name: &str) -> bool {
    find_column(name).is_some()
}

fn find_column(name: &str) -> Option<&'static Column> {
    COLUMNS.iter().find(|column| column.name == name)
}

fn column_head(column: &Column) -> NativeColumn {
    NativeColumn {
        name: column.name.to_owned(),
        heading: column.heading.to_owned(),
        unit: column.unit.to_owned(),
    }
}

/// A Sample with its Workload and all rows of the table, from which columns are computed.
struct SamplePoint<'a> {
    pub workload: &'a Workload,
    pub sample: &'a NativeSample,
    /// All rows of the table, for columns that compare with another row.
    pub rows: &'a [NativeRow],
}

impl SamplePoint<'_> {
    /// Value that the program reported.
    fn value(&self, name: &str) -> Option<f64> {
        self.sample.values.get(name).map(|value| *value as f64)
    }

    /// Entry of the Sample's work signature.
    fn work(&self, name: &str) -> Option<f64> {
        self.sample.signature.get(name).map(|value| *value as f64)
    }

    fn seconds(&self) -> Option<f64> {
        Some(self.value("nanoseconds")? / 1e9)
    }

    fn ops(&self) -> f64 {
        self.workload.ops as f64
    }

    /// Value in microseconds as a share of the Sample's time, in percent.
    fn busy_percent(&self, microseconds: &str) -> Option<f64> {
        Some(share_percent(self.value(microseconds)? / 1e6, self.seconds()?))
    }

    /// Median seconds of an operation in the row in which this parameter is 0, which may stand for
    /// its first choice, and all other parameters are equal.
    fn seconds_without(&self, name: &str) -> Option<f64> {
        let is_without = |row: &&NativeRow| {
            let mut params = self.workload.params.clone();
            params.insert(name.to_owned(), 0);
            row.workload.params == params
        };
        let row = self.rows.iter().find(is_without)?;
        let seconds = |sample: &NativeSample| Some(*sample.values.get("nanoseconds")? as f64 / 1e9);
        let times: Vec<f64> = row.samples.iter().filter_map(seconds).collect();
        Some(median(&times)? / row.workload.ops as f64)
    }

    /// Jobs per minute, summed over all users.
    fn jobs_per_minute(&self) -> Option<f64> {
        let users = param(self.workload, "users")?;
        Some(jobs_per_minute(self.work("jobs")? / users, users, self.value("parent-us")? / 1e6))
    }
}

/// A column: a number that is derived from each Sample.
struct Column {
    pub name: &'static str,
    pub heading: &'static str,
    pub unit: &'static str,
    pub value: fn(&SamplePoint<'_>) -> Option<f64>,
}

const fn column(
    name: &'static str,
    heading: &'static str,
    unit: &'static str,
    value: fn(&SamplePoint<'_>) -> Option<f64>,
) -> Column {
    Column { name, heading, unit, value }
}

/// All columns that a workload file can name.
const COLUMNS: &[Column] = &[
    // Passing lmbench's token costs time without a context switch, too, and is subtracted.
    column("time", "time", "µs", |p| {
        let overhead = p.value("overhead-ns").unwrap_or(0.0);
        Some((p.value("nanoseconds")? / p.ops() - overhead) / 1e3)
    }),
    column("bandwidth", "bandwidth", "MB/s", |p| Some(p.ops() * 1024.0 / 1e6 / p.seconds()?)),
    column("seconds", "time", "s", |p| p.seconds()),
    column("user", "user", "s", |p| Some(p.value("user-us")? / 1e6)),
    column("system", "system", "s", |p| Some(p.value("system-us")? / 1e6)),
    column("context-switches", "switches", "", |p| p.value("context-switches")),
    column("page-faults", "faults", "", |p| p.value("page-faults")),
    // Multi-user load: columns of the AIM benchmark's table.
    column("jobs-per-minute", "jobs/min", "", |p| p.jobs_per_minute()),
    column("jobs-per-minute-per-user", "jobs/min/user", "", |p| {
        Some(p.jobs_per_minute()? / param(p.workload, "users")?)
    }),
    column("parent-time", "parent", "s", |p| Some(p.value("parent-us")? / 1e6)),
    column("child-system", "child sys", "s", |p| Some(p.value("system-us")? / 1e6)),
    column("child-user", "child user", "s", |p| Some(p.value("user-us")? / 1e6)),
    column("spread", "std dev", "%", |p| {
        Some(share_percent(p.value("elapsed-stddev-us")?, p.value("elapsed-mean-us")?))
    }),
    column("jti", "JTI", "", |p| {
        Some(timing_index(p.value("elapsed-mean-us")?, p.value("elapsed-stddev-us")?))
    }),
    // Messaging.
    column("messages-per-second", "messages", "/s", |p| Some(p.work("messages")? / p.seconds()?)),
    column("system-per-message", "system/message", "ns", |p| {
        Some(p.value("system-us")? * 1e3 / p.work("messages")?)
    }),
    column("last-message", "last message", "s", |p| Some(p.value("last-message-us")? / 1e6)),
    // Locks.
    column("acquisitions-per-second", "acquisitions", "/s", |p| {
        Some(p.value("acquisitions")? / p.seconds()?)
    }),
    column("fairness", "min/max", "", |p| Some(p.value("min")? / p.value("max")?)),
    column("slept", "slept", "", |p| p.value("slept")),
    column("woken", "woken", "", |p| p.value("woken")),
    // Fork and pages: the cost of pages is the difference from the row without pages.
    column("per-process", "per process", "µs", |p| Some(p.seconds()? * 1e6 / p.ops())),
    column("per-process-per-page", "per process per page", "ns", |p| {
        let overhead = p.seconds_without("pages")? * p.ops();
        let pages = param(p.workload, "pages").filter(|pages| *pages > 0.0)?;
        Some(per_process_per_page((p.seconds()? - overhead) * 1e9, p.ops(), pages))
    }),
    // Jobs under load: columns of contest, whose time is the column `seconds` above.
    column("job-cpu", "CPU", "%", |p| p.busy_percent("job-cpu-us")),
    column("loads", "loads", "", |p| Some(p.value("load-count")? / p.value("load-per")?)),
    column("load-cpu", "LCPU", "%", |p| p.busy_percent("load-cpu-us")),
    column("ratio", "ratio", "", |p| {
        Some(contest_ratio(p.seconds()? / p.ops(), p.seconds_without("load")?))
    }),
];

fn param(workload: &Workload, name: &str) -> Option<f64> {
    workload.params.get(name).map(|value| *value as f64)
}

/// Makes a row for each counter, from the runs of one command or of two (base and change). The runs
/// of two commands are paired by their index.
pub fn counters(commands: &[Vec<StatCounts>]) -> Vec<StatRow> {
    STAT_COUNTERS.iter().chain([&ELAPSED]).map(|counter| row(counter, commands)).collect()
}

fn row(counter: &StatCounter, commands: &[Vec<StatCounts>]) -> StatRow {
    let counted: Result<Vec<Repeats>, String> =
        commands.iter().map(|runs| repeats(counter, runs)).collect();
    let (repeats, uncounted) = match counted {
        Ok(repeats) => (repeats, None),
        Err(reason) => (Vec::new(), Some(reason)),
    };
    let change = match repeats.as_slice() {
        [base, change] => paired_change(&base.values, &change.values),
        _ => None,
    };
    let change = change
        .map(|paired| StatChange { percent: paired.percent, interval_percent: paired.interval });
    let (counter, unit) = (counter.name.to_owned(), counter.unit.to_owned());
    StatRow { counter, unit, repeats, uncounted, change }
}

/// Values of a counter in all runs of a command; the error is the reason why there are none.
fn repeats(counter: &StatCounter, runs: &[StatCounts]) -> Result<Repeats, String> {
    let (mut values, mut least_counted) = (Vec::new(), 100.0_f64);
    for run in runs {
        match run.get(counter.name) {
            Some(StatCount::Measured { value, counted_percent }) => {
                values.push(*value);
                least_counted = least_counted.min(*counted_percent);
            }
            Some(StatCount::Missing(reason)) => return Err(reason.clone()),
            None => {
                let reason = "the counter was not requested in this run; run it again with this \
                              counter";
                return Err(reason.to_owned());
            }
        }
    }
    let (Some(mean), Some(median)) = (mean(&values), median(&values)) else {
        return Err("the command has no finished run; run it again".to_owned());
    };
    let mut sorted = values.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let interval = median_interval(&sorted).map(|interval| MedianInterval {
        low: interval.low,
        high: interval.high,
        level_percent: interval.level * 100.0,
    });
    Ok(Repeats {
        mean,
        median,
        spread_percent: spread_percent(&values).filter(|s| s.is_finite() && values.len() > 1),
        interval,
        counted_percent: least_counted,
        values,
        sorted,
    })
}

/// Differences between two traces. System calls are given by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceDifference {
    /// Number of calls with another result in the other trace, by system call.
    pub changed_results: BTreeMap<u16, u64>,
    /// First calls after which the calls of a thread or process differ from those of the other
    /// trace.
    pub diverging_calls: BTreeSet<u16>,
    /// Set if a trace reached [`TracedCall::MAX_CALLS`], so that its end was cut off.
    pub is_cut: bool,
}

/// Compares each thread and process with its counterpart in the other trace, up to the first call
/// that differs. The end of a trace that was cut off is no difference.
pub fn trace_difference(first: &[TracedCall], second: &[TracedCall]) -> TraceDifference {
    let is_cut = first.len().max(second.len()) >= TracedCall::MAX_CALLS;
    let (first, second) = (calls_by_task(first), calls_by_task(second));
    let mut difference = TraceDifference { is_cut, ..TraceDifference::default() };
    let tasks: BTreeSet<u16> = first.keys().chain(second.keys()).copied().collect();
    for task in tasks {
        let [first, second] =
            [&first, &second].map(|tasks| tasks.get(&task).map_or(&[][..], Vec::as_slice));
        let equal_calls = first.iter().zip(second).take_while(|(a, b)| a.number == b.number);
        for (call, _) in equal_calls.clone().filter(|(a, b)| a.result_hash != b.result_hash) {
            *difference.changed_results.entry(call.number).or_default() += 1;
        }
        let count = equal_calls.count();
        let has_diverged = !is_cut || (first.len() > count && second.len() > count);
        let next = first.get(count).or(second.get(count)).filter(|_| has_diverged);
        difference.diverging_calls.extend(next.map(|call| call.number));
    }
    difference
}

/// Calls of each thread and process.
fn calls_by_task(calls: &[TracedCall]) -> BTreeMap<u16, Vec<TracedCall>> {
    let mut tasks: BTreeMap<u16, Vec<TracedCall>> = BTreeMap::new();
    for call in calls {
        tasks.entry(call.task).or_default().push(*call);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ten cycle counts of 2009, in another order.
    const CYCLES: [f64; 10] = [
        3914423870.0,
        3906920196.0,
        3919907192.0,
        3907556124.0,
        3907902335.0,
        3915642464.0,
        3916134988.0,
        3916840093.0,
        3918777174.0,
        3918993251.0,
    ];

    fn runs(values: &[f64]) -> Vec<StatCounts> {
        let seen = |value: &f64| StatCount::Measured { value: *value, counted_percent: 90.0 };
        values.iter().map(|value| StatCounts::from([("cycles", seen(value))])).collect()
    }

    fn cycles(commands: &[Vec<StatCounts>]) -> StatRow {
        counters(commands).into_iter().find(|row| row.counter == "cycles").unwrap()
    }

    #[test]
    fn the_statistics_are_those_of_the_postscript_of_2009() {
        let row = cycles(&[runs(&CYCLES)]);
        let [repeats] = row.repeats.as_slice() else { panic!("{row:?}") };
        assert_eq!(repeats.values, CYCLES);
        assert_eq!((repeats.sorted[0], repeats.sorted[9]), (3906920196.0, 3919907192.0));
        // "The max/min spread of 10 runs is 0.3%".
        assert_eq!(format!("{:.2}", repeats.spread_percent.unwrap()), "0.33");
        // "... so the precision of this measurement is in the 0.1% range."
        let interval = repeats.interval.unwrap();
        assert_eq!((interval.low, interval.high), (3907556124.0, 3918993251.0));
        let half = (interval.high - interval.low) / 2.0 / repeats.median * 100.0;
        assert_eq!(format!("{half:.2}"), "0.15");
        assert_eq!(repeats.counted_percent, 90.0);
    }

    #[test]
    fn the_change_is_that_of_the_second_command() {
        let more: Vec<f64> = CYCLES.iter().map(|value| value * 1.25).collect();
        let percent = |base: &[f64], change: &[f64]| {
            format!("{:+.6}", cycles(&[runs(base), runs(change)]).change.unwrap().percent)
        };
        assert_eq!(percent(&CYCLES, &more), "+25.000000");
        assert_eq!(percent(&more, &CYCLES), "-20.000000");
        assert_eq!(cycles(&[runs(&CYCLES)]).change, None);
    }

    #[test]
    fn a_counter_that_one_run_lacks_is_uncounted() {
        let mut some = runs(&CYCLES);
        some[3].insert("cycles", StatCount::Missing("why; what next".to_owned()));
        let row = cycles(&[runs(&CYCLES), some]);
        assert_eq!((row.repeats.len(), row.uncounted.as_deref()), (0, Some("why; what next")));
    }

    #[test]
    fn a_command_without_runs_is_uncounted() {
        for commands in [vec![Vec::new()], vec![runs(&CYCLES), Vec::new()]] {
            let row = cycles(&commands);
            assert_eq!((row.repeats.len(), row.change), (0, None));
            assert!(row.uncounted.is_some_and(|reason| reason.contains("no finished run")));
        }
    }

    #[test]
    fn one_run_and_runs_with_a_zero_have_no_spread() {
        let spread = |values: &[f64]| cycles(&[runs(values)]).repeats[0].spread_percent;
        assert_eq!(spread(&[1.0]), None);
        assert_eq!(spread(&[0.0, 0.0]), None);
        assert_eq!(spread(&[0.0, 1.0]), None);
        assert_eq!(spread(&[1.0, 1.5]), Some(50.0));
    }

    /// Calls of tasks, as (task, number, result).
    fn calls(entries: &[(u16, u16, u32)]) -> Vec<TracedCall> {
        entries
            .iter()
            .map(|&(task, number, result_hash)| TracedCall { task, number, result_hash })
            .collect()
    }

    #[test]
    fn each_task_is_compared_up_to_its_first_different_call() {
        let one = calls(&[(0, 96, 1), (1, 39, 5), (0, 96, 2), (0, 1, 9), (0, 96, 3)]);
        let other = calls(&[(0, 96, 1), (0, 96, 7), (0, 0, 9), (0, 96, 4), (1, 39, 6)]);
        let difference = trace_difference(&one, &other);
        assert_eq!(difference.changed_results, [(96, 1), (39, 1)].into());
        assert_eq!(difference.diverging_calls, [1].into());
        assert_eq!(trace_difference(&one, &one), TraceDifference::default());
    }

    #[test]
    fn a_trace_that_ends_earlier_diverges_at_its_end() {
        let one = calls(&[(0, 96, 1), (0, 24, 2), (1, 39, 1)]);
        assert_eq!(trace_difference(&one, &one[..1]).diverging_calls, [24, 39].into());
        assert_eq!(trace_difference(&[], &one[..2]).diverging_calls, [96].into());
        let cut = calls(&[(0, 96, 1); TracedCall::MAX_CALLS]);
        let nothing = TraceDifference { is_cut: true, ..TraceDifference::default() };
        assert_eq!(trace_difference(&cut, &cut[1..]), nothing);
    }
}
