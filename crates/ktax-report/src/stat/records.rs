use crate::view::{Records, Value};
use ktax_model::{Repeats, Side, StatRow, StatTable};

const COLUMNS: [&str; 13] = [
    "counter",
    "unit",
    "side",
    "mean",
    "median",
    "spread_percent",
    "median_low",
    "median_high",
    "counted_percent",
    "change_percent",
    "change_low",
    "change_high",
    "not_counted",
];

/// One line for each counter and command, with all values in the order of the runs.
pub fn records(table: &StatTable) -> Records {
    let values = (0..table.runs).map(|run| format!("value_{run}"));
    let mut records = Records::of(COLUMNS.map(str::to_owned).into_iter().chain(values));
    for row in &table.rows {
        for (repeats, side) in row.repeats.iter().zip(sides(table)) {
            let fixed = line(row, side, repeats);
            records.push(fixed.into_iter().chain(repeats.values.iter().map(|it| (*it).into())));
        }
        if row.repeats.is_empty() {
            let nothing = std::iter::repeat_n(Value::Nothing, 10);
            let names = [(&row.counter).into(), (&row.unit).into()];
            records.push(names.into_iter().chain(nothing).chain([row.uncounted.as_ref().into()]));
        }
    }
    records
}

fn sides(table: &StatTable) -> [&'static str; 2] {
    match table.commands.len() {
        2 => Side::BOTH.map(Side::name),
        _ => [""; 2],
    }
}

fn line(row: &StatRow, side: &'static str, repeats: &Repeats) -> [Value; 13] {
    let interval = repeats.interval;
    // Both are of the pair, and stand with the second command.
    let change = row.change.filter(|_| side == Side::Change.name());
    let ends = change.and_then(|change| change.interval_percent);
    [
        (&row.counter).into(),
        (&row.unit).into(),
        side.into(),
        repeats.mean.into(),
        repeats.median.into(),
        repeats.spread_percent.into(),
        interval.map(|it| it.low).into(),
        interval.map(|it| it.high).into(),
        repeats.counted_percent.into(),
        change.map(|it| it.percent).into(),
        ends.map(|[low, _]| low).into(),
        ends.map(|[_, high]| high).into(),
        row.uncounted.as_ref().into(),
    ]
}
