//! Tables of native Runs: the columns that each kind of workload is judged by, derived from its
//! Samples.

use crate::growth;
use ktax_model::{Growth, NativeColumn, NativeRow, NativeSample, NativeTable, Summary, Workload};
use ktax_stats::tables::{
    contest_ratio, jobs_per_minute, median, per_process_per_page, share_percent, timing_index,
};

/// Derives these columns of every row, and how the rows grow. A column that no row has is left out.
pub fn derive_columns(table: &mut NativeTable, names: &[String]) {
    let rows = table.rows.clone();
    let cell_of_row = |column: &Column, row: &NativeRow| cell(column, row, &rows);
    let mut columns: Vec<&Column> = names.iter().filter_map(|name| find_column(name)).collect();
    columns.retain(|column| table.rows.iter().any(|row| cell_of_row(column, row).is_some()));
    for row in &mut table.rows {
        row.cells = columns.iter().map(|column| cell_of_row(column, row)).collect();
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
        Some(growth::RowCost { workload: &row.workload, shown: cost(row)?, layouts })
    });
    growth::growth_of_families(&costs.collect::<Vec<_>>(), None)
}

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

/// The columns of a Workload that names none.
pub fn usual_columns(bandwidth: bool) -> Vec<String> {
    vec![if bandwidth { "bandwidth" } else { "time" }.to_owned()]
}

/// Whether there is a column of that name.
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

/// A Sample with its row and table.
struct SamplePoint<'a> {
    pub workload: &'a Workload,
    pub sample: &'a NativeSample,
    /// All rows of the table: a ratio or difference is to another one.
    pub rows: &'a [NativeRow],
}

impl SamplePoint<'_> {
    fn value(&self, name: &str) -> Option<f64> {
        self.sample.values.get(name).map(|value| *value as f64)
    }

    fn did(&self, name: &str) -> Option<f64> {
        self.sample.signature.get(name).map(|value| *value as f64)
    }

    fn seconds(&self) -> Option<f64> {
        Some(self.value("nanoseconds")? / 1e9)
    }

    fn ops(&self) -> f64 {
        self.workload.ops as f64
    }

    /// Microseconds of the Region as a share of its time, in percent.
    fn busy_percent(&self, microseconds: &str) -> Option<f64> {
        Some(share_percent(self.value(microseconds)? / 1e6, self.seconds()?))
    }

    /// Median seconds of an operation in the row that differs only in this parameter, where it is 0
    /// or its first choice.
    fn seconds_without(&self, name: &str) -> Option<f64> {
        let is_without = |row: &&NativeRow| {
            let mut params = self.workload.params.clone();
            params.insert(name.to_owned(), 0);
            row.workload.params == params
        };
        let row = self.rows.iter().find(is_without)?;
        let seconds = |sample: &NativeSample| Some(*sample.values.get("nanoseconds")? as f64 / 1e9);
        let all: Vec<f64> = row.samples.iter().filter_map(seconds).collect();
        Some(median(&all)? / row.workload.ops as f64)
    }

    /// Jobs a minute of all users together.
    fn jobs_per_minute(&self) -> Option<f64> {
        let users = param(self.workload, "users")?;
        Some(jobs_per_minute(self.did("jobs")? / users, users, self.value("parent-us")? / 1e6))
    }
}

/// A number that is derived from a Sample.
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

/// Every column that a workload file can name.
const COLUMNS: &[Column] = &[
    // lmbench subtracts what passing the token costs without a switch; so does this.
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
    // The multi-user load, with the columns of the original's table.
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
    column("messages-per-second", "messages", "/s", |p| Some(p.did("messages")? / p.seconds()?)),
    column("system-per-message", "system/message", "ns", |p| {
        Some(p.value("system-us")? * 1e3 / p.did("messages")?)
    }),
    column("last-message", "last message", "s", |p| Some(p.value("last-message-us")? / 1e6)),
    // Locks.
    column("acquisitions-per-second", "acquisitions", "/s", |p| {
        Some(p.value("acquisitions")? / p.seconds()?)
    }),
    column("fairness", "min/max", "", |p| Some(p.value("min")? / p.value("max")?)),
    column("slept", "slept", "", |p| p.value("slept")),
    column("woken", "woken", "", |p| p.value("woken")),
    // Fork and pages: the cost above the row without pages is that of the pages.
    column("per-process", "per process", "µs", |p| Some(p.seconds()? * 1e6 / p.ops())),
    column("per-process-per-page", "per process per page", "ns", |p| {
        let overhead = p.seconds_without("pages")? * p.ops();
        let pages = param(p.workload, "pages").filter(|pages| *pages > 0.0)?;
        Some(per_process_per_page((p.seconds()? - overhead) * 1e9, p.ops(), pages))
    }),
    // Under load: the six columns of contest.
    column("job-cpu", "CPU", "%", |p| p.busy_percent("job-cpu-us")),
    column("loads", "loads", "", |p| Some(p.value("load-count")? / p.value("load-per")?)),
    column("load-cpu", "LCPU", "%", |p| p.busy_percent("load-cpu-us")),
    column("ratio", "ratio", "", |p| {
        Some(contest_ratio(p.seconds()? / p.ops(), p.seconds_without("load")?))
    }),
];

/// A parameter of a row.
fn param(workload: &Workload, name: &str) -> Option<f64> {
    workload.params.get(name).map(|value| *value as f64)
}
