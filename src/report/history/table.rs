use super::headline::{cheapest, percent_over};
use super::sparkline::sparkline;
use crate::model::{History, HistoryLine, HistoryPoint};
use crate::report::view::{Cell, Kind, Line, Table};
use crate::report::{number, words};

/// A line for each line of the history.
pub fn overview(history: &History) -> Table {
    let from_to_head = format!("first → last\n{}", words::unit(&history.metric));
    let columns = [
        ("workload", Kind::Row),
        ("of", Kind::Words),
        ("kernels", Kind::Number),
        ("cost over kernels", Kind::Name),
        (&*from_to_head, Kind::Number),
        ("change\n%", Kind::Number),
        ("over\ncheapest %", Kind::Number),
        ("steps", Kind::Number),
    ];
    let lines = history.lines.iter().map(|line| {
        let percent = |from: Option<&HistoryPoint>| match line.points.len() {
            0 | 1 => String::new(),
            _ => from.map_or(String::new(), |from| number::percent(percent_over(line, from))),
        };
        Line::of([
            line.row.clone(),
            line.lineage.clone(),
            line.points.len().to_string(),
            sparkline(line),
            from_to(line),
            percent(line.points.first()),
            percent(cheapest(line)),
            line.points.iter().filter(|it| it.is_step()).count().to_string(),
        ])
    });
    let table =
        Table { gives_way: vec![vec![6], vec![4], vec![2]], ..Table::of(columns) }.with(lines);
    match common_lineage(history) {
        Some(_) => Table { gives_way: vec![vec![5], vec![3], vec![1]], ..table.without(&[1]) },
        None => table,
    }
}

/// What all lines are of, if it is the same.
pub fn common_lineage(history: &History) -> Option<&str> {
    let first = history.lines.first()?.lineage.as_str();
    history.lines.iter().all(|line| line.lineage == first).then_some(first)
}

fn from_to(line: &HistoryLine) -> String {
    let cost = |point: &HistoryPoint| number::count(point.cost(line.ops));
    match line.points.as_slice() {
        [] => String::new(),
        [one] => cost(one),
        [first, .., last] => format!("{} → {}", cost(first), cost(last)),
    }
}

/// A line for each point; a point that is no step says how far it is from the anchor.
pub fn points(history: &History, line: &HistoryLine) -> Table {
    let unit = words::unit(&history.metric);
    let (cost, delta) = (format!("cost\n{unit}"), format!("delta\n{unit}"));
    let columns = [
        ("kernel", Kind::Name),
        ("tags", Kind::Words),
        (cost.trim_end(), Kind::Number),
        (delta.trim_end(), Kind::Number),
        ("delta %", Kind::Number),
        ("against", Kind::Words),
        ("verdict", Kind::Verdict),
    ];
    let lines = line.points.iter().map(|point| {
        let against = point.against.as_ref();
        let anchor = against.and_then(|it| Some(line.points.get(it.anchor)?.kernel.clone()));
        Line::of([
            point.kernel.clone(),
            point.tags.join(", "),
            number::count(point.cost(line.ops)),
            against.map_or(String::new(), |it| number::delta(it.delta)),
            against.map_or(String::new(), |it| number::percent(it.percent)),
            anchor.unwrap_or_default(),
        ])
        .and(against.map_or_else(Cell::default, |it| Cell::verdict(it.verdict, "")))
    });
    let table = Table { gives_way: vec![vec![5], vec![3], vec![1]], ..Table::of(columns) };
    let table = table.with(lines);
    match line.points.iter().all(|point| point.tags.is_empty()) {
        true => Table { gives_way: vec![vec![4], vec![2]], ..table.without(&[1]) },
        false => table,
    }
}
