use crate::model::History;
use crate::report::view::{Records, Value};

const COLUMNS: [&str; 14] = [
    "row", "metric", "function", "lineage", "measured", "place", "kernel", "subject", "tags",
    "cost", "anchor", "delta", "percent", "verdict",
];

/// One line for each point.
pub fn records(history: &History) -> Records {
    let mut records = Records::of(COLUMNS);
    for line in &history.lines {
        for point in &line.points {
            let against = point.against.as_ref();
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
            ]);
        }
    }
    records
}
