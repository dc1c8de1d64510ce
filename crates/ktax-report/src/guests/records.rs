use super::alone::runs;
use crate::effect;
use crate::view::{Records, Value};
use ktax_model::{Comparison, EXITS, GUEST_TIME, GuestsComparison, Row, TIME};

/// One line for each row and Metric; of one side one for each row, with the time by layout.
pub fn records(comparison: &Comparison, guests: &GuestsComparison) -> Records {
    match guests.plan.change {
        Some(_) => effect::records(&comparison.rows, |metric| unit(metric).to_owned()),
        None => alone(&comparison.rows),
    }
}

fn unit(metric: &str) -> &'static str {
    match metric {
        TIME | GUEST_TIME => "ns",
        EXITS => "exits",
        _ => "",
    }
}

const COLUMNS: [&str; 9] = [
    "workload",
    "operation",
    "ops",
    "verdict",
    "exits",
    "time_ns",
    "host_ns",
    "guest_ns",
    "failures",
];

fn alone(rows: &[Row]) -> Records {
    let times = |row: &Row| row.guests().map_or(Vec::new(), |guests| guests.times_ns.base.clone());
    let layouts = rows.iter().map(|row| times(row).len()).max().unwrap_or(0);
    let numbered = (0..layouts).map(|layout| format!("time_ns_{layout}"));
    let mut records = Records::of(COLUMNS.map(str::to_owned).into_iter().chain(numbered));
    for row in rows {
        let table = runs(std::slice::from_ref(row)).next().map(|(_, run)| &run.table);
        let of_host = row.effect(GUEST_TIME);
        let fixed: [Value; 9] = [
            (&row.row).into(),
            (&row.operation).into(),
            row.ops.into(),
            row.verdict.text().into(),
            table.map(|table| table.exits()).into(),
            table.map(|table| table.sum_ns()).into(),
            of_host.map(|effect| effect.base).into(),
            of_host.map(|effect| effect.change).into(),
            row.failed_boots().into(),
        ];
        records.push(fixed.into_iter().chain(times(row).into_iter().map(Value::from)));
    }
    records
}
