use crate::view::{Records, Value};
use ktax_model::{History, HistoryPoint, StepFunction};

const COLUMNS: [&str; 18] = [
    "row",
    "metric",
    "function",
    "lineage",
    "measured",
    "place",
    "kernel",
    "subject",
    "tags",
    "cost",
    "anchor",
    "delta",
    "percent",
    "verdict",
    "delta before",
    "percent before",
    "MDE percent",
    "functions",
];

/// One line for each point.
pub fn records(history: &History) -> Records {
    let mut records = Records::of(COLUMNS);
    for line in &history.lines {
        for point in &line.points {
            let (against, before) = (point.against.as_ref(), point.before.as_ref());
            let anchor = against.and_then(|it| Some(&line.points.get(it.anchor)?.name));
            records.push([
                (&line.row).into(),
                (&history.metric).into(),
                history.function.as_ref().into(),
                (&line.lineage).into(),
                (&line.measured).into(),
                point.place.into(),
                (&point.kernel).into(),
                (&point.name).into(),
                Value::Text(point.tags.join(" ")),
                point.cost(line.ops).into(),
                anchor.into(),
                against.map(|it| it.delta).into(),
                against.and_then(|it| it.percent).into(),
                against.map(|it| it.verdict.text()).into(),
                before.map(|before| before.delta).into(),
                before.and_then(|before| before.percent).into(),
                before.and_then(|before| before.detectable_percent).into(),
                Value::Text(functions(point)),
            ]);
        }
    }
    records
}

/// `do_statx 8 fput -1`: function and delta of each that carries a step.
fn functions(point: &HistoryPoint) -> String {
    let one = |carried: &StepFunction| format!("{} {}", carried.function, carried.delta);
    point.functions.iter().map(one).collect::<Vec<_>>().join(" ")
}
